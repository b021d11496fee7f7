//! Files that nobody but their owner reads: what is said in sessions is nobody else's.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Makes a folder, with those above it, unless it is there.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// An empty file.
pub(super) fn file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// A file that is written at its end.
pub(super) fn appended(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn nobody_else_may_read_what_is_made() {
        let home = tempfile::tempdir().expect("a folder");
        let made = home.path().join("a/b");
        folder(&made).expect("made");
        folder(&made).expect("there");
        file(&made.join("file")).expect("made");
        appended(&made.join("log")).expect("made");
        let mode = |path: &str| {
            let found = std::fs::metadata(home.path().join(path)).expect("there");
            found.permissions().mode() & 0o777
        };
        assert_eq!(["a", "a/b"].map(mode), [0o700; 2]);
        assert_eq!(["a/b/file", "a/b/log"].map(mode), [0o600; 2]);
    }
}
