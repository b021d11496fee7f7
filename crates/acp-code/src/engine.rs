//! The root, its caches and its pages.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{CodeError, Stop, extract, query, search};

/// Everything that is read lies below [`Engine::root`]. Cheap to make; keep one per session so that pages and
/// caches last. Calls may run at the same time on several threads.
#[derive(Debug)]
pub struct Engine {
    root: PathBuf,
}

impl Engine {
    /// An engine over this folder.
    pub fn new(root: impl AsRef<Path>) -> Result<Self, CodeError> {
        let path = root.as_ref();
        let fail = |why: String| CodeError::Root { path: path.to_owned(), why };
        let root = path.canonicalize().map_err(|error| fail(error.to_string()))?;
        if !root.is_dir() {
            return Err(fail("it is not a folder".to_owned()));
        }
        Ok(Self { root })
    }

    /// The folder, absolute and without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Ranked or literal search.
    pub fn search(&self, request: &search::Request, stop: &Stop) -> Result<search::Results, CodeError> {
        let _ = (request, stop);
        Ok(search::Results::default())
    }

    /// Structural query.
    pub fn query(&self, request: &query::Request, stop: &Stop) -> Result<query::Results, CodeError> {
        let _ = (request, stop);
        Ok(query::Results::default())
    }

    /// Whole blocks out of files.
    pub fn extract(&self, request: &extract::Request, stop: &Stop) -> Result<extract::Results, CodeError> {
        let _ = (request, stop);
        Ok(extract::Results::default())
    }

    /// Runs a tool by name with its JSON arguments; the answer is the text for the model.
    pub fn call(&self, tool: &str, arguments: &Value, stop: &Stop) -> Result<String, CodeError> {
        let _ = (arguments, stop);
        Err(CodeError::NoSuchTool(tool.to_owned()))
    }
}
