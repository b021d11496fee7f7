//! The folders of a session, for decisions about paths.

use std::path::{Path, PathBuf};

use acp_policy::Action;

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

    /// What is done on a path: whether it lies in one of the folders.
    pub(crate) fn action<'a>(&self, path: &'a str) -> Action<'a> {
        // A shell or an agent would put another folder in place of these.
        let is_elsewhere = path.starts_with('~') || path.contains('$');
        let is_plain = !path.starts_with('/') && !path.split('/').any(|part| part == "..");
        let real = self.real(path);
        let is_inside = if self.real.is_empty() {
            is_plain
        } else {
            self.real.iter().any(|folder| real.starts_with(folder))
        };
        if is_inside && !is_elsewhere { Action::Path(path) } else { Action::Outside(path) }
    }
}
