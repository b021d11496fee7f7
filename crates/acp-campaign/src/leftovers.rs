//! Temporary folders of runs that were killed: the next run removes them.
//!
//! A folder in use has a file in it that its run holds a lock on. The lock ends with the run, however that ends.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How the folders are called.
pub(crate) const PREFIX: &str = "acp-";

/// The file that is locked.
const OWNER: &str = ".in-use";

/// Marks a folder as in use until the file is dropped. It gets its name only when it is locked: a folder without it is never
/// removed by others.
pub(crate) fn claim(folder: &Path) -> io::Result<File> {
    let draft = folder.join(".claimed");
    let file = File::create_new(&draft)?;
    file.lock()?;
    std::fs::rename(&draft, folder.join(OWNER))?;
    Ok(file)
}

/// Removes the folders of dead runs of this user.
pub(crate) fn remove(temp: &Path) {
    let me = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(temp).into_iter().flatten().flatten() {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_own = entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == me);
        if is_named && is_own && is_abandoned(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join(OWNER)) else { return false };
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_run_left_is_removed() {
        let temp = tempfile::tempdir().expect("a folder");
        let folder = |name: &str| {
            let path = temp.path().join(name);
            std::fs::create_dir_all(path.join("sandbox/deep")).expect("a folder");
            path
        };
        let (live, dead, strange, other) =
            (folder("acp-live"), folder("acp-dead"), folder("acp-strange"), folder("else"));
        let _lock = claim(&live).expect("a lock");
        drop(claim(&dead).expect("a lock"));
        drop(claim(&other).expect("a lock"));
        remove(temp.path());
        assert!(live.exists(), "its run lives");
        assert!(!dead.exists(), "its run is dead");
        assert!(strange.exists() && other.exists(), "these are not ours");
    }
}
