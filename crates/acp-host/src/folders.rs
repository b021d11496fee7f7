//! The folders of a session, for decisions about paths.

use std::path::{Path, PathBuf};

use acp_policy::ToolAction;

use crate::real::real_path;

/// The folders that a session works in, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folders {
    cwd: Option<String>,
    real: Vec<PathBuf>,
}

impl Folders {
    /// The working folder, if it is known, and all folders of the session.
    pub(crate) fn new<'a>(cwd: Option<&str>, all: impl IntoIterator<Item = &'a Path>) -> Folders {
        Folders { cwd: cwd.map(str::to_owned), real: all.into_iter().map(real_path).collect() }
    }

    /// The working folder, as it was given.
    pub(crate) fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// The file that a path means, with links followed.
    pub(crate) fn real(&self, path: &str) -> PathBuf {
        real_path(&Path::new(self.cwd.as_deref().unwrap_or_default()).join(path))
    }

    /// Whether this is one of the folders themselves.
    pub(crate) fn is_one(&self, folder: &Path) -> bool {
        self.real.iter().any(|own| own == folder)
    }

    /// Whether a path leads into one of the folders, or none is known.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        let real = real_path(path);
        self.real.is_empty() || self.real.iter().any(|folder| real.starts_with(folder))
    }

    /// What is done on a path: whether it lies in one of the folders.
    pub(crate) fn action<'a>(&self, path: &'a str) -> ToolAction<'a> {
        // A shell or an agent would put another folder in place of these.
        let is_elsewhere = path.starts_with('~') || path.contains('$');
        let is_plain = !path.starts_with('/') && !path.split('/').any(|part| part == "..");
        let real = self.real(path);
        let is_inside = if self.real.is_empty() {
            is_plain
        } else {
            self.real.iter().any(|folder| real.starts_with(folder))
        };
        if is_inside && !is_elsewhere { ToolAction::Path(path) } else { ToolAction::Outside(path) }
    }
}
