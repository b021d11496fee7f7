//! Reading.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_rpc::Direction;
use bytes::Bytes;
use memchr::memmem;

use super::files;
use super::record::{self, ClosedRecord, Decided, MAGIC, OLD_MAGIC, OpenedRecord, Parsed, Record};

/// A segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The file.
    #[error("cannot read the journal at {place}: {error}")]
    Io {
        /// Which file or folder.
        place: String,
        /// What the system said.
        error: io::Error,
    },
    /// Not a segment.
    #[error("{place} is not a segment of a journal: it does not begin with \"acp-journal 2\"")]
    Magic {
        /// Which file.
        place: String,
        /// How long it is.
        bytes: u64,
    },
}

/// Something in a segment that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which file.
    pub path: PathBuf,
    /// Where in it.
    pub at: u64,
    /// How many bytes are passed over.
    pub bytes: u64,
    /// What is wrong.
    pub why: &'static str,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Notice { path, at, bytes, why } = self;
        if *bytes == 0 {
            return write!(f, "{}: {why}", path.display());
        }
        write!(f, "{}: {why} at byte {at}; {bytes} bytes are passed over", path.display())
    }
}

/// Reads one segment, record by record.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    bytes: Bytes,
    at: usize,
    /// The number of the last record.
    number: u64,
    /// How many bytes at the end are the beginning of a record.
    torn: usize,
    notices: Vec<Notice>,
}

impl Reader {
    /// Opens a segment, finished or not.
    pub fn open(path: &Path) -> Result<Reader, SegmentError> {
        let place = path.display().to_string();
        let bytes = match std::fs::read(path) {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) => return Err(SegmentError::Io { place, error }),
        };
        if !bytes.starts_with(MAGIC) && !bytes.starts_with(OLD_MAGIC) {
            return Err(SegmentError::Magic { place, bytes: bytes.len() as u64 });
        }
        Ok(Reader { path: path.to_owned(), bytes, at: MAGIC.len(), number: 0, torn: 0, notices: Vec::new() })
    }

    /// Opens a segment that was there a moment ago: its proxy may have finished it since then, or it was old enough to go.
    fn open_listed(path: &Path) -> Result<Option<Reader>, SegmentError> {
        let gone = |error: &SegmentError| matches!(error, SegmentError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound);
        match Reader::open(path) {
            Err(error) if gone(&error) => {}
            opened => return opened.map(Some),
        }
        match Reader::open(&path.with_extension(files::DONE)) {
            Err(error) if gone(&error) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// What could not be read so far.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The length without an unfinished record at the end, once the records are read.
    pub(crate) fn whole(&self) -> u64 {
        (self.bytes.len() - self.torn) as u64
    }

    /// How long the unfinished record at the end is, once the records are read.
    pub(crate) fn torn(&self) -> u64 {
        self.torn as u64
    }

    fn notice(&mut self, bytes: usize, why: &'static str) {
        let notice = Notice { path: self.path.clone(), at: self.at as u64, bytes: bytes as u64, why };
        self.notices.push(notice);
    }
}

impl Iterator for Reader {
    type Item = (u64, Record);

    fn next(&mut self) -> Option<(u64, Record)> {
        loop {
            let rest = self.bytes.slice(self.at..);
            let flaw = match record::decode(&rest) {
                Parsed::Record(number, record, length) => {
                    self.at += length;
                    self.number = number;
                    return Some((number, record));
                }
                _ if rest.is_empty() => return None,
                Parsed::Short => None,
                Parsed::Damaged(why) => Some(why),
            };
            let next = record::following(&rest, self.number);
            let why = match (flaw, next) {
                (Some(why), _) => why,
                (None, Some(_)) => "its length is wrong",
                (None, None) => {
                    self.torn = rest.len();
                    "an unfinished record"
                }
            };
            self.notice(next.unwrap_or(rest.len()), why);
            self.at += next.unwrap_or(rest.len());
        }
    }
}

/// One line of a conversation as it was on a wire.
pub type Spoken = (Duration, Direction, Bytes);

/// A conversation out of a journal.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// `RUN.NUMBER`
    pub name: String,
    /// How it began, if that is still there.
    pub opened: Option<OpenedRecord>,
    /// What was said, in the form of whoever said it.
    pub spoken: Vec<Spoken>,
    /// What the proxy answered itself, and how many lines had been said before.
    pub decided: Vec<(usize, Decided)>,
    /// The same, whose lines have not come yet: so many of the agent are still to come.
    early: Vec<(u64, Decided)>,
    /// How it ended, if it did.
    pub closed: Option<ClosedRecord>,
    /// So many records are missing in the run that it belongs to …
    pub missing: u64,
    /// … with so many bytes of lines.
    pub missing_bytes: u64,
}

/// Finds conversations in a folder, in the order in which they began, and what could not be read.
///
/// `wanted` is a session id, a conversation's name, or nothing for all of them.
pub fn conversations(
    folder: &Path,
    wanted: Option<&str>,
) -> Result<(Vec<Conversation>, Vec<Notice>), SegmentError> {
    let io = |error| SegmentError::Io { place: folder.display().to_string(), error };
    let paths = files::segments(folder).map_err(io)?;
    conversations_of(&paths, wanted)
}

/// Whether a file begins as a segment does.
#[must_use]
pub fn is_segment(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; MAGIC.len()];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && (head == MAGIC || head == OLD_MAGIC)
}

/// The same as [`conversations`], from these segments.
pub fn conversations_of(
    paths: &[PathBuf],
    wanted: Option<&str>,
) -> Result<(Vec<Conversation>, Vec<Notice>), SegmentError> {
    let mut notices = Vec::new();
    let mut found: BTreeMap<(String, u64), Conversation> = BTreeMap::new();
    let mut missing: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let named = wanted.map(|wanted| serde_json::Value::from(wanted).to_string());
    let mut meant: BTreeMap<(String, u64), bool> = BTreeMap::new();
    // Who is meant shows only in the middle of a conversation, so everything is read twice.
    for keeping in [false, true] {
        if !keeping && wanted.is_none() {
            continue;
        }
        for path in paths {
            let (run, _) = files::run_of(path).unwrap_or_default();
            let opened = match Reader::open_listed(path) {
                // It does not hide the others.
                Err(SegmentError::Magic { bytes, .. }) => Err((bytes, "no segment that this version reads")),
                opened => opened?.ok_or((0, "it was removed while the journal was read")),
            };
            let mut reader = match opened {
                Ok(reader) => reader,
                Err((bytes, why)) => {
                    if keeping {
                        notices.push(Notice { path: path.clone(), at: 0, bytes, why });
                    }
                    continue;
                }
            };
            for (_, record) in &mut reader {
                let number = number_of(&record);
                let key = (run.clone(), number);
                if let (false, Some(wanted), Some(named)) = (keeping, wanted, &named) {
                    let hit = match &record {
                        Record::Lines(lines) => lines
                            .what
                            .lines()
                            .iter()
                            .any(|line| memmem::find(line, named.as_bytes()).is_some()),
                        _ => number > 0 && wanted == format!("{run}.{number}"),
                    };
                    *meant.entry(key).or_default() |= hit;
                } else if let Record::Gap(gap) = &record {
                    let (records, bytes) = missing.entry(run.clone()).or_default();
                    (*records, *bytes) = (*records + gap.records, *bytes + gap.bytes);
                } else if number > 0 && (wanted.is_none() || meant.get(&key) == Some(&true)) {
                    let conversation = found.entry(key).or_insert_with(|| Conversation {
                        name: format!("{run}.{number}"),
                        ..Conversation::default()
                    });
                    conversation.take(record);
                }
            }
            if keeping {
                notices.extend_from_slice(reader.notices());
            }
        }
    }
    let conversations = found.into_iter().map(|((run, _), mut conversation)| {
        (conversation.missing, conversation.missing_bytes) = missing.get(&run).copied().unwrap_or_default();
        // The proxy was killed before their lines were kept.
        conversation.settle(u64::MAX);
        conversation
    });
    Ok((conversations.collect(), notices))
}

fn number_of(record: &Record) -> u64 {
    match record {
        Record::Opened(opened) => opened.conversation,
        Record::Lines(lines) => lines.conversation,
        Record::Decided(decided) => decided.conversation,
        Record::Closed(closed) => closed.conversation,
        Record::Gap(_) | Record::End(_) => 0,
    }
}

impl Conversation {
    fn take(&mut self, record: Record) {
        match record {
            Record::Opened(opened) => {
                if self.opened.is_none() {
                    self.opened = Some(opened);
                }
            }
            Record::Lines(lines) => {
                for line in lines.what.lines() {
                    self.spoken.push((lines.t, lines.dir, line));
                    if lines.dir == Direction::AgentToClient {
                        self.settle(1);
                    }
                }
            }
            Record::Decided(decided) if decided.behind > 0 => self.early.push((decided.behind, decided)),
            Record::Decided(decided) => self.decided.push((self.spoken.len(), decided)),
            Record::Closed(closed) => self.closed = Some(closed),
            Record::Gap(_) | Record::End(_) => {}
        }
    }

    /// So many more lines of the agent have come.
    fn settle(&mut self, lines: u64) {
        self.early.iter_mut().for_each(|(behind, _)| *behind = behind.saturating_sub(lines));
        let before = self.spoken.len();
        self.decided.extend(
            self.early.extract_if(.., |(behind, _)| *behind == 0).map(|(_, decided)| (before, decided)),
        );
    }
}
