//! The root and its pages.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::hidden::Hidden;
use crate::place::{Place, plain};
use crate::walk::Scope;
use crate::{CodeAnswer, CodeError, StopSignal, extract, list, query, search};

/// Everything that is read lies below [`Engine::root`]. Cheap to make; keep one per session so that pages last.
/// Calls may run at the same time on several threads.
#[derive(Debug)]
pub struct Engine {
    root: PathBuf,
    ignored: bool,
    hidden: Hidden,
    pages: Mutex<search::Pages>,
}

impl Engine {
    /// An engine over this folder.
    pub fn new(root: impl AsRef<Path>) -> Result<Self, CodeError> {
        let path = root.as_ref();
        let fail = |why: String| CodeError::Root { path: path.to_owned(), why };
        let root = path.canonicalize().map_err(|error| fail(plain(&error)))?;
        if !root.is_dir() {
            return Err(fail("it is not a folder".to_owned()));
        }
        Ok(Self { root, ignored: false, hidden: Hidden::default(), pages: Mutex::default() })
    }

    /// Also reads what ignore rules hide. Hidden files stay hidden.
    #[must_use]
    pub fn with_ignored(mut self, ignored: bool) -> Self {
        self.ignored = ignored;
        self
    }

    /// Shows nothing of the files for which `hides` is true: it is given their paths below the root, with `/`.
    #[must_use]
    pub fn with_hidden(mut self, hides: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.hidden = Hidden::new(hides);
        self
    }

    /// The folder, absolute and without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Ranked or literal search.
    pub fn search(
        &self,
        request: &search::SearchRequest,
        stop: &StopSignal,
    ) -> Result<search::SearchResults, CodeError> {
        search::run(request, &self.scope(request.path.as_deref())?, &self.pages, stop)
    }

    /// Structural query.
    pub fn query(
        &self,
        request: &query::QueryRequest,
        stop: &StopSignal,
    ) -> Result<query::QueryResults, CodeError> {
        query::run(request, &self.scope(request.path.as_deref())?, stop)
    }

    /// The files of a folder, as a tree.
    pub fn list(
        &self,
        request: &list::ListRequest,
        stop: &StopSignal,
    ) -> Result<list::ListResults, CodeError> {
        list::files(request, &self.all_files(request.path.as_deref(), request.all)?, stop)
    }

    /// The files whose path fits a pattern.
    pub fn glob(
        &self,
        request: &list::GlobRequest,
        stop: &StopSignal,
    ) -> Result<list::ListResults, CodeError> {
        list::glob(request, &self.all_files(request.path.as_deref(), request.all)?, stop)
    }

    /// Whether this path is that of a file below the root.
    pub fn has_file(&self, path: &str) -> bool {
        Place::find(&self.root, Some(path)).is_ok_and(|place| place.path.is_file())
    }

    /// Whole blocks out of files.
    pub fn extract(
        &self,
        request: &extract::ExtractRequest,
        stop: &StopSignal,
    ) -> Result<extract::ExtractResults, CodeError> {
        Self::extract_among(request, stop, |_| self)
    }

    /// The same out of several folders: `of` says whose engine each of [`extract::ExtractRequest::files`] is for.
    pub fn extract_among<'e>(
        request: &extract::ExtractRequest,
        stop: &StopSignal,
        of: impl Fn(&str) -> &'e Engine,
    ) -> Result<extract::ExtractResults, CodeError> {
        extract::run(request, |file| of(file).scope(None), stop)
    }

    /// Runs a tool by name with its JSON arguments; the answer is the text for the model. Search and query answer
    /// in plain text, extract in the form that it was asked for.
    pub fn call(&self, tool: &str, arguments: &Value, stop: &StopSignal) -> Result<String, CodeError> {
        Ok(self.answer(tool, arguments, stop)?.text())
    }

    /// Runs a tool by name with its JSON arguments; the answer is what it found.
    pub fn answer(&self, tool: &str, arguments: &Value, stop: &StopSignal) -> Result<CodeAnswer, CodeError> {
        match tool {
            "search" => self.search(&read("search", arguments)?, stop).map(CodeAnswer::Search),
            "query" => self.query(&read("query", arguments)?, stop).map(CodeAnswer::Query),
            "list_files" => self.list(&read("list_files", arguments)?, stop).map(CodeAnswer::List),
            "glob" => self.glob(&read("glob", arguments)?, stop).map(CodeAnswer::List),
            "extract" => {
                let request: extract::ExtractRequest = read("extract", arguments)?;
                Ok(CodeAnswer::Extract(self.extract(&request, stop)?, request.format))
            }
            other => Err(CodeError::NoSuchTool(other.to_owned())),
        }
    }

    fn scope(&self, path: Option<&str>) -> Result<Scope, CodeError> {
        let place = Place::find(&self.root, path)?;
        Ok(Scope { place, ignored: self.ignored, dotfiles: false, hidden: self.hidden.clone() })
    }

    /// Dotfiles too, because people keep the files of a project there; with `ignored`, also what ignore rules hide.
    fn all_files(&self, path: Option<&str>, ignored: bool) -> Result<Scope, CodeError> {
        let scope = self.scope(path)?;
        Ok(Scope { ignored: scope.ignored || ignored, dotfiles: true, ..scope })
    }
}

fn read<T: DeserializeOwned>(tool: &'static str, arguments: &Value) -> Result<T, CodeError> {
    T::deserialize(arguments).map_err(|error| CodeError::Request { tool, what: error.to_string() })
}
