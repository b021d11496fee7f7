//! Reading files into a buffer that is used again and again.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

/// Larger files are not held in memory: they are searched literally, piece by piece, and not parsed.
pub(crate) const WHOLE: usize = 16 << 20;
const FIRST: usize = 256 << 10;
const HEAD: usize = 8 << 10;

/// The bytes of one file at a time.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
    stamp: Stamp,
}

/// What differs when a file was written again: its size, and when that was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    size: u64,
    written: Option<SystemTime>,
}

/// Opens a file without ever waiting (a pipe would) and insists on a regular one.
pub(crate) fn open(path: &Path) -> io::Result<(File, Stamp)> {
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((file, Stamp { size: about.len(), written: about.modified().ok() }))
}

/// What became of a file.
#[derive(Debug)]
pub(crate) enum Content {
    /// All of it is in the buffer.
    Whole,
    /// It is larger than [`WHOLE`]; the buffer has the beginning and the file stands behind it.
    Larger(File),
}

impl Buffer {
    /// Reads the file; an earlier file's bytes are gone.
    pub(crate) fn load(&mut self, path: &Path) -> io::Result<Content> {
        let mut file;
        (file, self.stamp) = open(path)?;
        self.filled = 0;
        if self.bytes.is_empty() {
            self.bytes.resize(FIRST, 0);
        }
        loop {
            if self.filled == self.bytes.len() {
                if self.filled >= WHOLE {
                    return Ok(Content::Larger(file));
                }
                self.bytes.resize((self.filled * 4).min(WHOLE), 0);
            }
            match file.read(&mut self.bytes[self.filled..]) {
                Ok(0) => return Ok(Content::Whole),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads on in a file that is larger than the buffer, keeping the last `keep` bytes in front. Returns how
    /// many bytes are new.
    pub(crate) fn slide(&mut self, file: &mut File, keep: usize) -> io::Result<usize> {
        let keep = keep.min(self.filled);
        self.bytes.copy_within(self.filled - keep..self.filled, 0);
        self.filled = keep;
        while self.filled < self.bytes.len() {
            match file.read(&mut self.bytes[self.filled..]) {
                Ok(0) => break,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.filled - keep)
    }

    /// What tells the file that was read from a later one of the same name.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// What was read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

/// A file with a zero byte near its beginning is no text.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    memchr::memchr(0, &bytes[..bytes.len().min(HEAD)]).is_some()
}
