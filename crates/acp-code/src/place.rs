//! Paths: everything lies below the root.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::CodeError;

/// A file or folder that exists and lies below the root.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The root, without symbolic links.
    pub(crate) root: PathBuf,
    /// The file or folder, without symbolic links.
    pub(crate) path: PathBuf,
}

impl Place {
    /// Looks `path` up below `root` (which is canonical). Without a path, the root itself.
    pub(crate) fn find(root: &Path, path: Option<&str>) -> Result<Self, CodeError> {
        let given = path.unwrap_or("").trim();
        let outside = || CodeError::Outside { path: given.to_owned(), root: root.to_owned() };
        let joined = root.join(given);
        // Said before the file system is asked: a path that leads out by its words alone tells nothing about what is there.
        if leads_out(root, &joined) {
            return Err(outside());
        }
        let path = joined
            .canonicalize()
            .map_err(|error| CodeError::Path { path: given.to_owned(), why: plain(&error) })?;
        if !path.starts_with(root) {
            return Err(outside());
        }
        Ok(Self { root: root.to_owned(), path })
    }

    /// The path below the root with `/`, for people and for results.
    pub(crate) fn shown(&self, path: &Path) -> String {
        shown(&self.root, path)
    }
}

/// The path below `root`. Bytes that are no UTF-8 are shown as `\xFF`, so that two names stay two.
pub(crate) fn shown(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path).as_os_str();
    match below.to_str() {
        Some("") => ".".to_owned(),
        Some(text) => text.to_owned(),
        None => {
            let escaped =
                |bytes: &[u8]| bytes.iter().map(|byte| format!("\\x{byte:02X}")).collect::<String>();
            let chunks = below.as_bytes().utf8_chunks();
            chunks.map(|chunk| format!("{}{}", chunk.valid(), escaped(chunk.invalid()))).collect()
        }
    }
}

/// A name as it is, but for characters that would break the line or steer a terminal.
pub(crate) fn one_line(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return Cow::Borrowed(name);
    }
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(name.chars().map(shown).collect())
}

/// The system's words without the error number.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string().to_lowercase();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Whether the words of a path alone lead out of the root. An absolute path may name the root through a link, which
/// only its canonical form can tell.
fn leads_out(root: &Path, path: &Path) -> bool {
    let mut at = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(at.pop()),
            std::path::Component::CurDir => {}
            part => at.push(part),
        }
    }
    !at.starts_with(root) && !path.canonicalize().is_ok_and(|real| real.starts_with(root))
}
