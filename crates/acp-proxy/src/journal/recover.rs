//! Mending what a run left behind that was killed.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::files::{self, DONE, OPEN, UNREAD};
use super::read::{Reader, SegmentError};
use super::record::{self, End, FAMILY, MAGIC, Record};

/// A segment that nobody had finished, and now is, or that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Its name now.
    pub path: PathBuf,
    /// How many whole records are in it.
    pub records: u64,
    /// How many bytes of an unfinished record were cut off.
    pub cut: u64,
    /// It begins as no segment does: it was put aside as it is.
    pub aside: bool,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recovered { path, records, cut, aside } = self;
        if *aside {
            let path = path.display();
            return write!(
                f,
                "a file of the journal was left that begins as no segment does; it is kept as {path} and not read"
            );
        }
        write!(f, "the journal segment {} was left unfinished; it has {records} records", path.display())?;
        if *cut > 0 {
            write!(f, ", and {cut} bytes of an unfinished one were cut off: they had not been passed on")?;
        }
        Ok(())
    }
}

/// Finishes the segments in a folder that no running proxy is writing.
pub fn recover(folder: &Path) -> io::Result<Vec<Recovered>> {
    let mut mended = Vec::new();
    for path in files::segments(folder)? {
        if path.extension().is_some_and(|ending| ending == OPEN)
            && let Some(recovered) = mend(folder, &path)?
        {
            mended.push(recovered);
        }
    }
    Ok(mended)
}

fn mend(folder: &Path, path: &Path) -> io::Result<Option<Recovered>> {
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        // Its proxy has just finished it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let (mut records, mut last, mut whole, mut cut) = (0, 0, MAGIC.len() as u64, 0);
    match Reader::open(path) {
        Ok(mut reader) => {
            for (number, _) in &mut reader {
                records += 1;
                last = number;
            }
            (whole, cut) = (reader.whole(), reader.torn());
        }
        // Killed before the first line was whole.
        Err(SegmentError::Magic { .. }) if file.metadata()?.len() < MAGIC.len() as u64 => {
            file.set_len(0)?;
            file.write_all(MAGIC)?;
        }
        Err(SegmentError::Magic { .. }) => return put_aside(folder, path, &file),
        Err(SegmentError::Io { error, .. }) => return Err(error),
    }
    file.set_len(whole)?;
    file.seek(SeekFrom::Start(whole))?;
    let mut end = Vec::new();
    record::encode(last + 1, &Record::End(End { why: "recovered".into(), cut }), whole, &mut end);
    file.write_all(&end)?;
    file.sync_all()?;
    let done = path.with_extension(DONE);
    std::fs::rename(path, &done)?;
    files::sync_folder(folder)?;
    Ok(Some(Recovered { path: done, records, cut, aside: false }))
}

/// A machine that lost its power may leave a file of zeros. It gets a name that is no segment's, and nothing of it is lost.
fn put_aside(folder: &Path, path: &Path, mut file: &File) -> io::Result<Option<Recovered>> {
    let mut head = [0; FAMILY.len()];
    file.read_exact(&mut head)?;
    // A later version can read it.
    if head == FAMILY {
        return Ok(None);
    }
    let aside = path.with_extension(UNREAD);
    std::fs::rename(path, &aside)?;
    files::sync_folder(folder)?;
    Ok(Some(Recovered { path: aside, records: 0, cut: 0, aside: true }))
}
