//! Wrong about which files belong to a session.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use acp_host::real_path;
use acp_rpc::{Frame, RpcError};
use serde_json::{Value, json};

use super::files::file_request;
use super::{Around, WireQuirk, text};

/// How the session's folder is guarded. What it lets out is done here; everything else is left to the client.
pub(super) enum Jail {
    /// Not at all.
    None,
    /// By the text of paths: links lead out.
    Lexical,
    /// By the beginning of real paths: a folder whose name begins alike is inside.
    Prefix,
}

impl Jail {
    /// Whether the path counts as one in the folder.
    fn holds(&self, folder: &Path, path: &Path) -> bool {
        match self {
            Self::None => true,
            Self::Lexical => without_parents(path).starts_with(folder),
            Self::Prefix => bytes(&real_path(path)).starts_with(bytes(folder)),
        }
    }
}

fn bytes(path: &Path) -> &[u8] {
    OsStr::as_bytes(path.as_os_str())
}

/// The path with its `..` taken back by the text alone.
fn without_parents(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

impl WireQuirk for Jail {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let Some((id, params)) = file_request(&frame) else { return Some(frame) };
        let (folder, path) = (real_path(around.workspace), PathBuf::from(text(&params, "path")));
        let is_outside = !real_path(&path).starts_with(&folder);
        if !path.is_absolute() || !is_outside || !self.holds(&folder, &path) {
            return Some(frame);
        }
        let done = match params.get("content").and_then(Value::as_str) {
            Some(content) => std::fs::write(&path, content).map(|()| json!({})),
            None => std::fs::read_to_string(&path).map(|content| json!({ "content": content })),
        };
        around.answer(&id, done.map_err(|error| RpcError::internal(format!("{}: {error}", path.display()))));
        None
    }
}
