//! Where commands write: standard output, whose reader may go away, and files, which are never left half written over
//! something that was whole.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::NamedTempFile;

/// Writes to standard output. A reader that went away (`| head`) is no error: what it wanted to see, it has seen.
pub fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// Writes to the file, or to standard output when there is none.
pub fn write(path: Option<&Path>, text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    match path {
        None => print(text),
        Some(path) => std::fs::write(path, text).with_context(|| cannot_write(path)),
    }
}

/// Whether the reader of standard output went away.
pub fn reader_left(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Finds out whether a file can be written, before work is done that would be lost. What it holds stays as it is.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let opened = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => bail!("{}: it is a folder; name a file in it", cannot_write(path)),
        // A pipe or a device is written when there is something to write.
        Ok(meta) if !meta.is_file() => return Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
        Err(_) => File::create_new(path).and_then(|_| std::fs::remove_file(path)),
    };
    opened.with_context(|| cannot_write(path))
}

/// Refuses to write the result over what it is made from.
pub fn check_not_among(path: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
    let same = |input: &&PathBuf| match (path.canonicalize(), input.canonicalize()) {
        (Ok(path), Ok(input)) => path == input && path.is_file(),
        _ => false,
    };
    match inputs.iter().find(same) {
        Some(input) => bail!("--out {} would overwrite the input {}", path.display(), input.display()),
        None => Ok(()),
    }
}

/// A file that takes its place only when it is whole; until then, what was there before stays.
pub enum Whole {
    /// Written beside, then renamed.
    Beside(NamedTempFile, PathBuf),
    /// A pipe or a device, which cannot be replaced.
    Direct(File),
}

impl Whole {
    /// Begins the file.
    pub fn create(path: &Path) -> anyhow::Result<Whole> {
        let begun = match std::fs::metadata(path) {
            Ok(meta) if meta.is_file() => Whole::beside(&path.canonicalize()?, meta.permissions()),
            Ok(_) => OpenOptions::new().write(true).open(path).map(Whole::Direct),
            Err(_) => Whole::beside(path, Permissions::from_mode(0o600)),
        };
        begun.with_context(|| cannot_write(path))
    }

    fn beside(path: &Path, permissions: Permissions) -> io::Result<Whole> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .permissions(permissions)
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        Ok(Whole::Beside(file, path.to_owned()))
    }

    /// Puts it in its place.
    pub fn finish(self) -> anyhow::Result<()> {
        if let Whole::Beside(file, path) = self {
            file.persist(&path).map_err(|error| error.error).with_context(|| cannot_write(&path))?;
        }
        Ok(())
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Whole::Beside(file, _) => file.write(bytes),
            Whole::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Whole::Beside(file, _) => file.flush(),
            Whole::Direct(file) => file.flush(),
        }
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
