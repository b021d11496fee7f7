//! Which repository a git command would read, and whether its configuration is the session's own: a configuration can
//! name programs that git starts even where it only reads.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::folders::Folders;

/// Deeper nests of submodules are not looked into: they count as foreign.
const DEEPEST: u32 = 8;
/// A larger index is not read.
const LARGEST_INDEX: u64 = 256 << 20;
/// The first word of an index's entries that stands for another repository.
const GIT_LINK: u32 = 0o160_000;

/// Whether git would read the configuration of a repository that came with the files: one between this folder and the
/// session's own, or one in the place of a submodule, which git asks for its state too.
pub(crate) fn is_foreign(cwd: &Path, folders: &Folders) -> bool {
    if !cwd.is_absolute() {
        return false;
    }
    is_between(cwd, folders)
        || cwd
            .ancestors()
            .find_map(|folder| Some((folder, git_dir(folder)?)))
            .is_some_and(|(folder, git_dir)| has_foreign_submodule(folder, &git_dir, &git_dir, DEEPEST))
}

fn is_between(cwd: &Path, folders: &Folders) -> bool {
    let has = |folder: &Path, name: &str| folder.join(name).symlink_metadata().is_ok();
    for folder in cwd.ancestors() {
        let is_session_folder = folders.is_one(folder);
        if has(folder, ".git") {
            return !is_session_folder;
        }
        // A repository without a name of its own, as `git init --bare` makes it.
        if has(folder, "HEAD") && (has(folder, "objects") || has(folder, "commondir")) {
            return true;
        }
        if is_session_folder {
            return false;
        }
    }
    false
}

/// Whether a submodule that is checked out has its repository anywhere but inside `own`, where git itself puts it.
fn has_foreign_submodule(tree: &Path, of: &Path, own: &Path, depth: u32) -> bool {
    let index = of.join("index");
    if !index.exists() {
        return false;
    }
    // What cannot be read may name one.
    let Some(links) = read(&index).and_then(|index| git_links(&index)) else { return true };
    links.iter().any(|path| {
        let folder = tree.join(path);
        git_dir(&folder).is_some_and(|of| {
            depth == 0 || !of.starts_with(own) || has_foreign_submodule(&folder, &of, own, depth - 1)
        })
    })
}

/// Where the repository of a working tree is: in its `.git`, or where that says.
fn git_dir(tree: &Path) -> Option<PathBuf> {
    let name = tree.join(".git");
    let found = name.symlink_metadata().ok()?;
    if !found.is_file() {
        return Some(name.canonicalize().unwrap_or(name));
    }
    let mut text = String::new();
    let _ = File::open(&name).ok()?.take(4096).read_to_string(&mut text);
    let place = tree.join(text.strip_prefix("gitdir:").unwrap_or_default().trim());
    Some(place.canonicalize().unwrap_or(place))
}

fn read(index: &Path) -> Option<Vec<u8>> {
    let file = File::open(index).ok()?;
    let length = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let mut bytes = Vec::new();
    (length <= LARGEST_INDEX).then(|| file.take(length).read_to_end(&mut bytes).ok())??;
    Some(bytes)
}

/// The paths of an index's submodules; nothing if it is in no form that we know.
fn git_links(index: &[u8]) -> Option<Vec<PathBuf>> {
    use std::os::unix::ffi::OsStringExt;
    let number = |bytes: &[u8], at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (version, count) = (number(index, 4)?, number(index, 8)?);
    if !index.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let (mut rest, mut name, mut links) = (&index[12..], Vec::new(), Vec::new());
    for _ in 0..count {
        let mode = number(rest, 24)?;
        // Times, numbers, a hash and flags; then more flags, if there are more.
        let head = if rest.get(60)? & 0x40 == 0 { 62 } else { 64 };
        let kept = if version == 4 { kept_of_name(rest.get(head..)?)? } else { (0, 0) };
        let begin = head + kept.1;
        let length = rest.get(begin..)?.iter().position(|byte| *byte == 0)?;
        name.truncate(name.len().checked_sub(kept.0).filter(|_| version == 4).unwrap_or_default());
        name.extend_from_slice(&rest[begin..begin + length]);
        if mode == GIT_LINK {
            links.push(PathBuf::from(std::ffi::OsString::from_vec(name.clone())));
        }
        let end = begin + length + 1;
        rest = rest.get(if version == 4 { end } else { end.next_multiple_of(8) }..)?;
    }
    // Entries of a shared index are elsewhere.
    (!rest.starts_with(b"link")).then_some(links)
}

/// How many bytes of the name before an entry leaves out at its end, and how many bytes say so.
fn kept_of_name(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = usize::from(bytes.first()? & 0x7f);
    let mut used = 1;
    while bytes.get(used - 1)? & 0x80 != 0 {
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(bytes.get(used)? & 0x7f))?;
        used += 1;
    }
    Some((value, used))
}
