//! Files with ignore rules, before the walk reads them: it reads whatever has their name, to its end.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Rules are no longer than this; every one of them is compiled.
const LARGEST: u64 = 1 << 20;

/// What a folder may have whose end the walk would not see, or not soon: a pipe, a device, a link to one, a huge file.
pub(crate) fn endless(folder: &Path) -> Option<&'static str> {
    let own = [".ignore", ".gitignore"];
    let of_git = [".git", ".git/info/exclude", ".git/commondir"];
    let is_endless = |name: &&str| !has_end(&folder.join(name));
    let in_git = || folder.join(".git").exists().then(|| of_git.into_iter().find(is_endless)).flatten();
    own.into_iter().find(is_endless).or_else(in_git)
}

/// What is not there, or is a folder, is not read. A link to `/dev/null` is a usual way to say that there are no rules.
fn has_end(path: &Path) -> bool {
    let Ok(about) = fs::metadata(path) else { return true };
    // Files that the system makes up while they are read have no size, and take no room where they lie.
    let is_made_up =
        || about.len() == 0 && rustix::fs::statvfs(path).is_ok_and(|system| system.f_blocks == 0);
    let is_null = || {
        about.file_type().is_char_device()
            && fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == about.rdev())
    };
    about.is_dir() || is_null() || (about.is_file() && about.len() <= LARGEST && !is_made_up())
}
