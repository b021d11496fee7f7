//! The folders that a session may touch, held as open directory handles.
//!
//! Every path is opened relative to a handle and resolved by the kernel beneath it, so `..`, absolute paths,
//! symbolic links and folders that are renamed in between cannot lead out.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use acp_rpc::RpcError;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::folders::Folders;
use crate::refusal;

/// The folders of one session: its working folder and the additional ones.
#[derive(Debug, Clone)]
pub struct Roots {
    cwd: PathBuf,
    roots: Arc<[Root]>,
}

#[derive(Debug)]
struct Root {
    given: PathBuf,
    real: PathBuf,
    dir: Dir,
}

/// A folder that cannot be a session's.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The protocol asks for absolute paths.
    #[error("the session folder {0:?} must be an absolute path")]
    Relative(PathBuf),
    /// It is not there, or cannot be opened.
    #[error("cannot open the session folder {path:?}: {source}")]
    Open {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Roots {
    /// Opens the working folder and the additional folders.
    pub fn open(cwd: impl Into<PathBuf>, additional: &[PathBuf]) -> Result<Roots, RootsError> {
        let cwd = cwd.into();
        let folders = std::iter::once(&cwd).chain(additional);
        let roots = folders.map(|path| Root::open(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(Roots { cwd, roots: roots.into() })
    }

    /// The working folder, as it was given.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The folders, as decisions about paths need them.
    pub(crate) fn folders(&self) -> Folders {
        Folders::new(self.cwd.to_str(), self.roots.iter().map(|root| root.real.as_path()))
    }

    /// Opens a folder in one of the roots, its working folder when none is named.
    pub(crate) fn open_dir(&self, folder: Option<&Path>) -> Result<io::Result<Dir>, RpcError> {
        self.with(folder.unwrap_or(&self.cwd), |dir, rest| dir.open_dir(rest))
    }

    /// Runs `work` with the handle and the relative path that stand for `path`.
    ///
    /// Links with an absolute target that stays inside are followed too: the real path is tried when the kernel
    /// refuses the first, and it is opened beneath the handle like any other.
    pub(crate) fn with<T>(
        &self,
        path: &Path,
        work: impl Fn(&Dir, &Path) -> io::Result<T>,
    ) -> Result<io::Result<T>, RpcError> {
        if !path.is_absolute() {
            let text = path.display();
            return Err(RpcError::invalid_params(format!("the path {text:?} must be absolute")));
        }
        let Some((root, rest)) = self.find(path) else { return Err(refusal::outside(path)) };
        match work(&root.dir, &rest) {
            Err(error) if is_escape(&error) => self.with_real(path, work),
            other => Ok(other),
        }
    }

    fn with_real<T>(
        &self,
        path: &Path,
        work: impl Fn(&Dir, &Path) -> io::Result<T>,
    ) -> Result<io::Result<T>, RpcError> {
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(refusal::outside(path));
        }
        // A file that is still to be written has no real path yet, but its folder has one.
        let real = std::fs::canonicalize(path).or_else(|error| match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) if std::fs::symlink_metadata(path).is_err() => {
                Ok(std::fs::canonicalize(folder)?.join(name))
            }
            _ => Err(error),
        });
        let Ok(real) = real else { return Err(refusal::outside(path)) };
        let Some((root, rest)) = self.find(&real) else { return Err(refusal::outside(path)) };
        match work(&root.dir, &rest) {
            Err(error) if is_escape(&error) => Err(refusal::outside(path)),
            other => Ok(other),
        }
    }

    /// The innermost root that holds the path by its text, and the rest of the path.
    fn find(&self, path: &Path) -> Option<(&Root, PathBuf)> {
        let candidates = self.roots.iter().flat_map(|root| {
            [&root.given, &root.real].into_iter().filter_map(move |base| {
                Some((root, base.components().count(), path.strip_prefix(base).ok()?))
            })
        });
        let (root, _, rest) = candidates.max_by_key(|(_, depth, _)| *depth)?;
        let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
        Some((root, rest.to_owned()))
    }
}

impl Root {
    fn open(path: &Path) -> Result<Root, RootsError> {
        if !path.is_absolute() {
            return Err(RootsError::Relative(path.to_owned()));
        }
        let failed = |source| RootsError::Open { path: path.to_owned(), source };
        let real = std::fs::canonicalize(path).map_err(failed)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority()).map_err(failed)?;
        Ok(Root { given: path.to_owned(), real, dir })
    }
}

/// The kernel's answer to a path that would leave the handle, as against a plain lack of rights.
fn is_escape(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}
