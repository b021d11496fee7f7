//! `fs/read_text_file` and `fs/write_text_file`.
//!
//! A file is opened before it is checked: the decision is about the name of what is open, as the kernel tells it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use acp_rpc::RpcError;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt, Permissions};
use serde::Deserialize;

use crate::jail::Roots;
use crate::refusal;

/// How large files may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// The most bytes that one read returns. A larger file can still be read in parts.
    pub read_bytes: u64,
    /// The most bytes that one write takes.
    pub write_bytes: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        FileLimits { read_bytes: 16 << 20, write_bytes: 64 << 20 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadParams {
    pub session_id: String,
    pub path: PathBuf,
    #[serde(default)]
    pub line: Option<u32>,
    #[serde(default)]
    pub limit: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WriteParams {
    pub session_id: String,
    pub path: PathBuf,
    pub content: String,
}

/// Says whether a file may be used, by its real name. It is asked once the file is open: a name may lead elsewhere by
/// then than when the access was decided.
pub(crate) type Check<'a> = &'a (dyn Fn(&Path) -> Result<(), RpcError> + Sync);

/// Reads a file, or `limit` lines of it from the 1-based `line` on. Line ends stay as they are in the file.
pub(crate) fn read(
    roots: &Roots,
    limits: FileLimits,
    params: &ReadParams,
    check: Check<'_>,
) -> Result<String, RpcError> {
    let path = params.path.as_path();
    let opened = roots.with(path, |dir, rest| open_regular(dir, rest, OpenOptions::new().read(true)))?;
    let file = opened.map_err(|error| explain("read", path, &error))?;
    check(&name_of(&file, path).map_err(|error| explain("read", path, &error))?)?;
    let bytes = match (params.line, params.limit) {
        (None, None) => read_whole(file, path, limits),
        (line, limit) => {
            let skip = line.unwrap_or(1).saturating_sub(1);
            read_lines(file, path, limits, skip, limit)
        }
    }?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = path.display();
        refusal::unfit("not_utf8", format!("cannot read {text} as text: it is not UTF-8 (byte {at})"))
    })
}

/// Writes a file whole or not at all: a temporary file beside it takes its place. Missing folders are made.
pub(crate) fn write(
    roots: &Roots,
    limits: FileLimits,
    params: &WriteParams,
    check: Check<'_>,
) -> Result<(), RpcError> {
    let path = params.path.as_path();
    let len = params.content.len() as u64;
    if len > limits.write_bytes {
        let message = format!(
            "cannot write {}: {len} bytes are more than the limit of {}",
            path.display(),
            limits.write_bytes
        );
        return Err(refusal::unfit("too_large", message));
    }
    let place = roots.with(path, Place::open)?.map_err(|error| explain("write", path, &error))?;
    let folder = name_of(&place.folder, path.parent().unwrap_or(path));
    check(&folder.map_err(|error| explain("write", path, &error))?.join(&place.name))?;
    place.fill(params.content.as_bytes()).map_err(|error| explain("write", path, &error))
}

/// The real name of what is open, which nobody can exchange any more.
fn name_of(open: &impl AsFd, path: &Path) -> io::Result<PathBuf> {
    if rustix::fs::fstat(open)?.st_nlink == 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    real_name(open.as_fd(), path)
}

#[cfg(target_os = "linux")]
fn real_name(open: BorrowedFd<'_>, path: &Path) -> io::Result<PathBuf> {
    match std::fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd())) {
        Ok(name) => Ok(name),
        // Without /proc nobody can say more than the name that was asked for.
        Err(_) if !Path::new("/proc/self/fd").exists() => std::fs::canonicalize(path),
        Err(error) => Err(error),
    }
}

#[cfg(target_vendor = "apple")]
fn real_name(open: BorrowedFd<'_>, _: &Path) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let name = rustix::fs::getpath(open)?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(name.into_bytes())))
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn real_name(_: BorrowedFd<'_>, path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

fn read_whole(file: File, path: &Path, limits: FileLimits) -> Result<Vec<u8>, RpcError> {
    let mut bytes = Vec::new();
    let read = file.take(limits.read_bytes + 1).read_to_end(&mut bytes);
    read.map_err(|error| explain("read", path, &error))?;
    if bytes.len() as u64 > limits.read_bytes { Err(too_large(path, limits)) } else { Ok(bytes) }
}

fn read_lines(
    file: File,
    path: &Path,
    limits: FileLimits,
    mut skip: u32,
    limit: Option<u32>,
) -> Result<Vec<u8>, RpcError> {
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let (first, mut left) = (u64::from(skip) + 1, limit);
    let mut bytes = Vec::new();
    while left != Some(0) {
        let chunk = reader.fill_buf().map_err(|error| explain("read", path, &error))?;
        if chunk.is_empty() {
            break;
        }
        let end = chunk.iter().position(|b| *b == b'\n');
        let used = end.map_or(chunk.len(), |at| at + 1);
        if skip == 0 {
            bytes.extend_from_slice(&chunk[..used]);
            if bytes.len() as u64 > limits.read_bytes {
                let lines = bytes[..bytes.len() - 1].contains(&b'\n');
                return Err(if lines { too_large(path, limits) } else { long_line(path, limits, first) });
            }
        }
        reader.consume(used);
        if end.is_some() {
            match (skip, &mut left) {
                (0, Some(left)) => *left -= 1,
                (0, None) => {}
                _ => skip -= 1,
            }
        }
    }
    Ok(bytes)
}

fn too_large(path: &Path, limits: FileLimits) -> RpcError {
    let message = format!(
        "cannot read {}: more than the limit of {} bytes; ask for a part with line and limit",
        path.display(),
        limits.read_bytes
    );
    refusal::unfit("too_large", message)
}

fn long_line(path: &Path, limits: FileLimits, line: u64) -> RpcError {
    let message = format!(
        "cannot read {}: line {line} alone has more than the limit of {} bytes; a command can show a part of it",
        path.display(),
        limits.read_bytes
    );
    refusal::unfit("too_large", message)
}

/// Opens without ever waiting (a pipe would) and insists on a regular file.
fn open_regular(dir: &Dir, path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = dir.open_with(path, options.custom_flags(nonblock))?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    if kind.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Err(special()) }
}

fn special() -> io::Error {
    io::Error::other("it is not a regular file")
}

/// Where a file is to be written: an open folder, and a name in it.
struct Place {
    folder: Dir,
    name: OsString,
    mode: Option<Permissions>,
}

impl Place {
    fn open(dir: &Dir, path: &Path) -> io::Result<Place> {
        // A link keeps being a link: what it points to is replaced, if that lies inside.
        let target = match dir.symlink_metadata(path) {
            Ok(meta) if meta.file_type().is_symlink() => dir.canonicalize(path)?,
            _ => path.to_owned(),
        };
        let mode = match open_regular(dir, &target, OpenOptions::new().write(true)) {
            Ok(file) => Some(file.metadata()?.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let name = target.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => open_folder(dir, parent)?,
            _ => dir.try_clone()?,
        };
        Ok(Place { folder, name, mode })
    }

    fn fill(self, content: &[u8]) -> io::Result<()> {
        let Place { folder, name, mode } = self;
        let draft = draft_name(&name);
        let result =
            fill(&folder, &draft, content, mode).and_then(|()| folder.rename(&draft, &folder, &name));
        if result.is_err() {
            let _ = folder.remove_file(&draft);
        }
        result
    }
}

fn open_folder(dir: &Dir, path: &Path) -> io::Result<Dir> {
    match dir.open_dir(path) {
        // `new/../../elsewhere` must not leave `new` behind when it is refused.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.components().any(is_parent) => {
            dir.create_dir_all(path)?;
            dir.open_dir(path)
        }
        other => other,
    }
}

fn is_parent(part: Component<'_>) -> bool {
    part == Component::ParentDir
}

fn fill(folder: &Dir, draft: &Path, content: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    let mut file = folder.open_with(draft, OpenOptions::new().write(true).create_new(true))?;
    if let Some(mode) = mode {
        file.set_permissions(mode)?;
    }
    file.write_all(content)?;
    file.flush()
}

fn draft_name(name: &std::ffi::OsStr) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let serial = NEXT.fetch_add(1, Ordering::Relaxed);
    let stem: String = name.to_string_lossy().chars().take(40).collect();
    PathBuf::from(format!(".{stem}.{}-{serial}.acp-draft", std::process::id()))
}

fn explain(verb: &str, path: &Path, error: &io::Error) -> RpcError {
    let text = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => refusal::no_file(path),
        io::ErrorKind::IsADirectory => {
            refusal::unfit("is_a_folder", format!("cannot {verb} {text}: it is a folder"))
        }
        _ => refusal::unfit("io", format!("cannot {verb} {text}: {error}")),
    }
}
