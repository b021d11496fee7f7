//! Events that NATS does not have yet, on disk: a file of lines per session and epoch, cut into segments.
//!
//! An event is written here before it is sent, and a segment goes when all of it is stored. What is left after a crash is
//! sent by the next proxy that uses the folder.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::subject::token;
use crate::event::Event;

/// A segment that is longer is followed by another.
const SEGMENT: u64 = 4 * 1024 * 1024;

/// The spool of one session.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    stem: String,
    segments: VecDeque<Segment>,
    file: Option<File>,
    next: u64,
    /// Where the first event lies that is only here.
    cursor: Option<Cursor>,
}

#[derive(Clone, Debug)]
struct Segment {
    path: PathBuf,
    number: u64,
    bytes: u64,
    /// The last event in it.
    last: u64,
}

#[derive(Debug, Clone, Copy)]
struct Cursor {
    segment: u64,
    offset: u64,
}

/// An event as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) payload: Bytes,
    /// The trace that it belongs to; not kept on disk.
    pub(super) trace: Option<Arc<str>>,
}

/// What a crash has left of a session.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) session: String,
    pub(super) epoch: u64,
    /// The numbers of its first and its last event here.
    pub(super) first: u64,
    pub(super) last: u64,
    /// How many there are.
    pub(super) count: u64,
    /// In order.
    files: Vec<Segment>,
}

impl Spool {
    pub(super) fn new(folder: &Path, session: &str, epoch: u64) -> Spool {
        Spool {
            folder: folder.to_owned(),
            stem: format!("{}.{epoch}", token(session)),
            segments: VecDeque::new(),
            file: None,
            next: 0,
            cursor: None,
        }
    }

    /// Takes over what a crash has left; all of it is only here.
    pub(super) fn adopt(&mut self, left: &Left) {
        self.segments = left.files.iter().cloned().collect();
        self.next = self.segments.len() as u64;
        self.cursor = self.segments.front().map(|first| Cursor { segment: first.number, offset: 0 });
    }

    /// Bytes that lie here.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Writes whole lines; `last` is the number of the last of them. With `keep`, somebody holds them in memory too;
    /// without, they must be read from here again.
    pub(super) fn append(&mut self, lines: &[u8], last: u64, keep: bool) -> io::Result<()> {
        if self.file.is_none() || self.segments.back().is_none_or(|segment| segment.bytes >= SEGMENT) {
            self.begin()?;
        }
        let (Some(file), Some(segment)) = (&mut self.file, self.segments.back_mut()) else {
            return Err(io::Error::other("no segment"));
        };
        if let Err(error) = file.write_all(lines) {
            // A torn line must not swallow the next one.
            let _ = file.set_len(segment.bytes);
            return Err(error);
        }
        if !keep && self.cursor.is_none() {
            self.cursor = Some(Cursor { segment: segment.number, offset: segment.bytes });
        }
        segment.bytes += lines.len() as u64;
        segment.last = last;
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        self.next += 1;
        let path = self.folder.join(format!("{}.{:06}.ndjson", self.stem, self.next));
        self.file = Some(OpenOptions::new().append(true).create(true).open(&path)?);
        self.segments.push_back(Segment { path, number: self.next, bytes: 0, last: 0 });
        Ok(())
    }

    /// Everything up to `seq` is stored.
    pub(super) fn stored(&mut self, seq: u64) {
        while self.segments.len() > 1 && self.segments.front().is_some_and(|segment| segment.last <= seq) {
            if let Some(segment) = self.segments.pop_front() {
                let _ = std::fs::remove_file(&segment.path);
            }
        }
        if self.segments.len() == 1
            && let (Some(segment), Some(file)) = (self.segments.front_mut(), &self.file)
            && segment.bytes > 0
            && segment.last <= seq
            && file.set_len(0).is_ok()
        {
            segment.bytes = 0;
        }
    }

    /// Whether there is something that is only here.
    pub(super) fn has_more(&self) -> bool {
        self.cursor.is_some()
    }

    /// Reads what is only here, as much as `most` bytes allow, and at least one line.
    pub(super) fn more(&mut self, most: usize) -> io::Result<Vec<Line>> {
        let mut lines = Vec::new();
        let mut read = 0;
        while let Some(cursor) = self.cursor {
            let Some(segment) = self.segments.iter().find(|segment| segment.number == cursor.segment) else {
                self.cursor = None;
                break;
            };
            let before = (lines.len(), read);
            let offset = match segment.read(cursor.offset, most, &mut read, &mut lines) {
                Ok(offset) => offset,
                // What was read before goes out; this segment is tried again.
                Err(_) if before.0 > 0 => {
                    lines.truncate(before.0);
                    return Ok(lines);
                }
                Err(error) => return Err(error),
            };
            let next = self.segments.iter().find(|next| next.number > cursor.segment);
            self.cursor = match next {
                _ if offset < segment.bytes => Some(Cursor { offset, ..cursor }),
                Some(next) => Some(Cursor { segment: next.number, offset: 0 }),
                None => None,
            };
            if read >= most {
                break;
            }
        }
        Ok(lines)
    }

    /// Nothing more comes, and everything is stored.
    pub(super) fn remove(&mut self) {
        self.file = None;
        for segment in self.segments.drain(..) {
            let _ = std::fs::remove_file(&segment.path);
        }
    }

    /// What is here can never be sent: it is put aside under a name that no proxy looks for. Returns where.
    pub(super) fn put_aside(&mut self) -> Option<PathBuf> {
        self.file = None;
        let paths: Vec<PathBuf> =
            self.segments.drain(..).filter(|segment| segment.bytes > 0).map(|segment| segment.path).collect();
        aside(&paths)
    }
}

impl Segment {
    /// Reads events from `offset` on until `read` has reached `most`, or the end; where the next one lies.
    fn read(&self, offset: u64, most: usize, read: &mut usize, lines: &mut Vec<Line>) -> io::Result<u64> {
        let mut reader = BufReader::new(File::open(&self.path)?);
        reader.seek(SeekFrom::Start(offset))?;
        let (mut offset, mut line) = (offset, Vec::new());
        while *read < most && offset < self.bytes && reader.read_until(b'\n', &mut line)? > 0 {
            offset += line.len() as u64;
            *read += line.len();
            lines.extend(parse(&line));
            line.clear();
        }
        Ok(offset)
    }
}

/// What a crash has left in a folder. What is no event at all is put aside.
pub(super) fn leftovers(folder: &Path) -> io::Result<Vec<Left>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"))
        .collect();
    paths.sort();
    let mut left: Vec<Left> = Vec::new();
    for path in paths {
        let Some(found) = leftover(&path)? else {
            if std::fs::metadata(&path)?.len() == 0 {
                let _ = std::fs::remove_file(&path);
            } else {
                let _ = std::fs::rename(&path, path.with_extension("unread"));
            }
            continue;
        };
        match left.iter_mut().find(|left| left.session == found.session && left.epoch == found.epoch) {
            Some(known) => known.add(found),
            None => left.push(found),
        }
    }
    left.sort_by_key(|left| left.epoch);
    Ok(left)
}

/// What one file has: nothing of it is held, since it may be long.
fn leftover(path: &Path) -> io::Result<Option<Left>> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut found, mut line, mut bytes) = (None::<Left>, Vec::new(), 0);
    while reader.read_until(b'\n', &mut line)? > 0 {
        // A line that was torn is the last.
        if !line.ends_with(b"\n") {
            break;
        }
        bytes += line.len() as u64;
        if let Ok(event) = Event::parse(&line) {
            let left = found.get_or_insert_with(|| Left {
                first: event.seq,
                last: event.seq,
                count: 0,
                session: event.session,
                epoch: event.epoch,
                files: vec![Segment { path: path.to_owned(), number: 1, bytes: 0, last: 0 }],
            });
            left.last = event.seq;
            left.count += 1;
        }
        line.clear();
    }
    if let Some(left) = &mut found {
        left.files.iter_mut().for_each(|file| (file.bytes, file.last) = (bytes, left.last));
    }
    Ok(found)
}

impl Left {
    /// More of the same, which comes after it.
    fn add(&mut self, more: Left) {
        self.last = more.last;
        self.count += more.count;
        self.files.extend(more.files);
        (1..).zip(&mut self.files).for_each(|(number, file)| file.number = number);
    }

    /// All of it is stored.
    pub(super) fn remove(&self) {
        self.files.iter().for_each(|file| drop(std::fs::remove_file(&file.path)));
    }

    /// It can never be sent.
    pub(super) fn put_aside(&self) -> Option<PathBuf> {
        let paths: Vec<PathBuf> = self.files.iter().map(|file| file.path.clone()).collect();
        aside(&paths)
    }
}

fn aside(paths: &[PathBuf]) -> Option<PathBuf> {
    let mut first = None;
    for path in paths {
        let name = path.with_extension("fenced");
        if std::fs::rename(path, &name).is_ok() {
            first.get_or_insert(name);
        }
    }
    first
}

fn parse(line: &[u8]) -> Option<Line> {
    #[derive(serde::Deserialize)]
    struct Head {
        seq: u64,
    }
    let line = line.strip_suffix(b"\n")?;
    let head: Head = serde_json::from_slice(line).ok()?;
    Some(Line { seq: head.seq, payload: Bytes::copy_from_slice(line), trace: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Body, Closed};

    fn line(seq: u64) -> Vec<u8> {
        let body = Body::Closed(Closed { reason: "x".repeat(100) });
        let event = Event { session: "a.b".to_owned(), epoch: 7, seq, at: 0, task: None, body };
        let mut line = event.to_json();
        line.push(b'\n');
        line
    }

    fn seqs(lines: &[Line]) -> Vec<u64> {
        lines.iter().map(|line| line.seq).collect()
    }

    #[test]
    fn what_is_only_on_disk_comes_back_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = Spool::new(folder.path(), "a.b", 7);
        spool.append(&line(1), 1, true).expect("room");
        for seq in 2..=9 {
            spool.append(&line(seq), seq, false).expect("room");
        }
        let first = spool.more(1).expect("lines");
        assert_eq!(seqs(&first), [2]);
        assert_eq!(seqs(&spool.more(usize::MAX).expect("lines")), (3..=9).collect::<Vec<_>>());
        assert!(!spool.has_more());
        spool.append(&line(10), 10, false).expect("room");
        assert_eq!(seqs(&spool.more(usize::MAX).expect("lines")), [10]);
    }

    #[test]
    fn segments_go_when_all_of_them_is_stored() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = || std::fs::read_dir(folder.path()).expect("a folder").count();
        let mut spool = Spool::new(folder.path(), "s", 7);
        let big = vec![b'\n'; usize::try_from(SEGMENT).expect("small")];
        spool.append(&big, 1, true).expect("room");
        spool.append(&big, 2, true).expect("room");
        spool.append(&line(3), 3, true).expect("room");
        assert_eq!(files(), 3);
        spool.stored(1);
        assert_eq!(files(), 2);
        spool.stored(3);
        assert_eq!((files(), spool.bytes()), (1, 0));
        spool.remove();
        assert_eq!(files(), 0);
    }

    #[test]
    fn a_crash_leaves_whole_events_and_a_torn_one_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = Spool::new(folder.path(), "a.b", 7);
        let torn = &line(3)[..50];
        spool.append(&[&line(1)[..], &line(2), torn].concat(), 3, true).expect("room");
        drop(spool);
        let left = leftovers(folder.path()).expect("readable");
        assert_eq!(left.len(), 1);
        let [left] = &left[..] else { panic!("{left:?}") };
        assert_eq!((left.session.as_str(), left.epoch), ("a.b", 7));
        assert_eq!((left.first, left.last, left.count), (1, 2, 2));
        let mut spool = Spool::new(folder.path(), "a.b", 7);
        spool.adopt(left);
        assert_eq!(seqs(&spool.more(1).expect("lines")), [1]);
        assert_eq!(seqs(&spool.more(1).expect("lines")), [2]);
        assert!(!spool.has_more());
        assert!(left.put_aside().is_some());
        assert!(leftovers(folder.path()).expect("readable").is_empty());
    }

    #[test]
    fn a_file_without_events_is_put_aside_and_an_empty_one_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("later.ndjson"), "{\"v\":9}\n").expect("written");
        std::fs::write(folder.path().join("none.ndjson"), "").expect("written");
        assert!(leftovers(folder.path()).expect("readable").is_empty());
        let names = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["later.unread"]);
    }
}
