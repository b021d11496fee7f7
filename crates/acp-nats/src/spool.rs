//! Events that NATS does not have yet, on disk: a file of lines per session and epoch, cut into segments.
//!
//! An event is written here before it is sent, and a segment goes when all of it is stored. What is left after a crash is
//! sent by the next proxy that uses the folder.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::private;
use super::subject::token;
use acp_proxy::event::VERSION;

/// A segment that is longer is followed by another.
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;

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
    /// The ending of new segments.
    ending: &'static str,
}

/// The ending of a segment that is sent after a crash.
const WAITING: &str = "ndjson";
/// The ending of what is kept and never sent.
const ASIDE: &str = "fenced";
/// The ending of what is kept because it cannot be read.
const UNREAD: &str = "unread";

#[derive(Clone, Debug)]
struct Segment {
    path: PathBuf,
    number: u64,
    bytes: u64,
    /// The last event in it.
    last: u64,
    /// Whether it has lines that are no events.
    damaged: bool,
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

/// What was read again.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) lines: Vec<Line>,
    /// How many lines are no events. Their segments are kept.
    pub(super) unread: u64,
}

/// What a crash has left of a session.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) session: String,
    pub(super) epoch: u64,
    /// The numbers of its first and its last event here.
    pub(super) first: u64,
    pub(super) last: u64,
    /// How many lines there are.
    pub(super) count: u64,
    /// How many of them are no events.
    pub(super) unread: u64,
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
            ending: WAITING,
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
        if self.file.is_none() || self.segments.back().is_none_or(|segment| segment.bytes >= SEGMENT_BYTES) {
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
        let path = self.folder.join(format!("{}.{:06}.{}", self.stem, self.next, self.ending));
        self.file = Some(private::appended(&path)?);
        self.segments.push_back(Segment { path, number: self.next, bytes: 0, last: 0, damaged: false });
        Ok(())
    }

    /// Everything up to `seq` is stored.
    pub(super) fn stored(&mut self, seq: u64) {
        while self.segments.len() > 1 && self.segments.front().is_some_and(|segment| segment.last <= seq) {
            if let Some(segment) = self.segments.pop_front() {
                segment.remove();
            }
        }
        if self.segments.len() == 1
            && let (Some(segment), Some(file)) = (self.segments.front_mut(), &self.file)
            && segment.bytes > 0
            && segment.last <= seq
            && !segment.damaged
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
    pub(super) fn more(&mut self, most: usize) -> io::Result<Read> {
        let mut all = Read::default();
        let mut bytes = 0;
        while let Some(cursor) = self.cursor {
            let Some(segment) = self.segments.iter_mut().find(|segment| segment.number == cursor.segment)
            else {
                self.cursor = None;
                break;
            };
            let (offset, read) = match segment.read(cursor.offset, most.saturating_sub(bytes)) {
                Ok(read) => read,
                // What was read before goes out; this segment is tried again.
                Err(_) if !all.lines.is_empty() => return Ok(all),
                Err(error) => return Err(error),
            };
            bytes += usize::try_from(offset - cursor.offset).unwrap_or(usize::MAX);
            segment.damaged |= read.unread > 0;
            let whole = segment.bytes;
            all.lines.extend(read.lines);
            all.unread += read.unread;
            let next = self.segments.iter().find(|next| next.number > cursor.segment);
            self.cursor = match next {
                _ if offset < whole => Some(Cursor { offset, ..cursor }),
                Some(next) => Some(Cursor { segment: next.number, offset: 0 }),
                None => None,
            };
            if bytes >= most {
                break;
            }
        }
        Ok(all)
    }

    /// Nothing more comes, and everything is stored.
    pub(super) fn remove(&mut self) {
        self.file = None;
        self.segments.drain(..).for_each(|segment| segment.remove());
    }

    /// What is here can never be sent, nor what comes: it is put aside under a name that no proxy looks for. Returns
    /// where.
    pub(super) fn put_aside(&mut self) -> Option<PathBuf> {
        (self.file, self.cursor, self.ending) = (None, None, ASIDE);
        let paths: Vec<PathBuf> =
            self.segments.drain(..).filter(|segment| segment.bytes > 0).map(|segment| segment.path).collect();
        aside(&paths)
    }
}

impl Segment {
    /// Reads about so many bytes from `begin` on, and at least one line; where the next one lies.
    fn read(&self, begin: u64, most: usize) -> io::Result<(u64, Read)> {
        let mut reader = BufReader::new(File::open(&self.path)?);
        reader.seek(SeekFrom::Start(begin))?;
        let (mut read, mut line, mut offset) = (Read::default(), Vec::new(), begin);
        let until = begin.saturating_add(most as u64).min(self.bytes);
        while offset < until && reader.read_until(b'\n', &mut line)? > 0 {
            offset += line.len() as u64;
            match parse(&line) {
                Some(line) => read.lines.push(line),
                None => read.unread += 1,
            }
            line.clear();
        }
        if offset == begin && begin < until {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than it was"));
        }
        Ok((offset, read))
    }

    /// Everything in it that can be sent is stored.
    fn remove(&self) {
        let _ = match self.damaged {
            true => std::fs::rename(&self.path, self.path.with_extension(UNREAD)),
            false => std::fs::remove_file(&self.path),
        };
    }
}

/// What a crash has left in a folder, and the files in which no line is an event: these are put aside.
pub(super) fn leftovers(folder: &Path) -> io::Result<(Vec<Left>, Vec<PathBuf>)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == WAITING))
        .collect();
    paths.sort();
    let (mut left, mut unread): (Vec<Left>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    for path in paths {
        let Some(found) = leftover(&path)? else {
            if std::fs::metadata(&path)?.len() == 0 {
                let _ = std::fs::remove_file(&path);
            } else {
                let aside = path.with_extension(UNREAD);
                let _ = std::fs::rename(&path, &aside);
                unread.push(aside);
            }
            continue;
        };
        match left.iter_mut().find(|left| left.session == found.session && left.epoch == found.epoch) {
            Some(known) => known.add(found),
            None => left.push(found),
        }
    }
    left.sort_by_key(|left| left.epoch);
    Ok((left, unread))
}

/// What one file has: nothing of it is held, since it may be long.
fn leftover(path: &Path) -> io::Result<Option<Left>> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut found, mut line) = (None::<Left>, Vec::new());
    let (mut bytes, mut count, mut unread) = (0, 0, 0);
    while reader.read_until(b'\n', &mut line)? > 0 {
        // A line that was torn is the last.
        if !line.ends_with(b"\n") {
            break;
        }
        bytes += line.len() as u64;
        count += 1;
        if let Some(head) = head(&line) {
            let left = found.get_or_insert_with(|| Left {
                first: head.seq,
                last: head.seq,
                count: 0,
                unread: 0,
                session: head.session.into_owned(),
                epoch: head.epoch,
                files: Vec::new(),
            });
            left.last = head.seq;
        } else {
            unread += 1;
        }
        line.clear();
    }
    if let Some(left) = &mut found {
        (left.count, left.unread) = (count, unread);
        let (path, last) = (path.to_owned(), left.last);
        left.files.push(Segment { path, number: 1, bytes, last, damaged: unread > 0 });
    }
    Ok(found)
}

impl Left {
    /// More of the same, which comes after it.
    fn add(&mut self, more: Left) {
        self.last = more.last;
        self.count += more.count;
        self.unread += more.unread;
        self.files.extend(more.files);
        (1..).zip(&mut self.files).for_each(|(number, file)| file.number = number);
    }

    /// All of it that can be sent is stored.
    pub(super) fn remove(&self) {
        self.files.iter().for_each(Segment::remove);
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
        let name = path.with_extension(ASIDE);
        if std::fs::rename(path, &name).is_ok() {
            first.get_or_insert(name);
        }
    }
    first
}

/// What makes a line one of our events.
#[derive(serde::Deserialize)]
struct Head<'a> {
    v: u32,
    #[serde(borrow)]
    session: Cow<'a, str>,
    epoch: u64,
    seq: u64,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(rename = "data")]
    _data: IgnoredAny,
}

fn head(line: &[u8]) -> Option<Head<'_>> {
    let head: Head<'_> = serde_json::from_slice(line.strip_suffix(b"\n")?).ok()?;
    (head.v == VERSION).then_some(head)
}

fn parse(line: &[u8]) -> Option<Line> {
    let payload = line.strip_suffix(b"\n")?;
    Some(Line { seq: head(line)?.seq, payload: Bytes::copy_from_slice(payload), trace: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_proxy::event::{Body, Event, SessionClosed};

    fn line(seq: u64) -> Vec<u8> {
        let body = Body::Closed(SessionClosed { reason: "x".repeat(100) });
        let event = Event { session: "a.b".to_owned(), epoch: 7, seq, at: 0, task: None, body };
        let mut line = event.to_json();
        line.push(b'\n');
        line
    }

    fn seqs(read: &Read) -> Vec<u64> {
        read.lines.iter().map(|line| line.seq).collect()
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
        let big = vec![b'\n'; usize::try_from(SEGMENT_BYTES).expect("small")];
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
        let (left, _) = leftovers(folder.path()).expect("readable");
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
        assert!(leftovers(folder.path()).expect("readable").0.is_empty());
    }

    #[test]
    fn a_file_without_events_is_put_aside_and_an_empty_one_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("later.ndjson"), "{\"v\":9}\n").expect("written");
        std::fs::write(folder.path().join("none.ndjson"), "").expect("written");
        let (left, unread) = leftovers(folder.path()).expect("readable");
        assert!(left.is_empty());
        assert_eq!(unread, [folder.path().join("later.unread")]);
        let names = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["later.unread"]);
    }

    #[test]
    fn lines_that_are_no_events_are_counted_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a=b.7.000001.ndjson");
        std::fs::write(&path, [&line(1)[..], b"  \"seq\": 2,\n}\n", &line(3)].concat()).expect("written");
        let (left, _) = leftovers(folder.path()).expect("readable");
        let [left] = &left[..] else { panic!("{left:?}") };
        assert_eq!((left.first, left.last, left.count, left.unread), (1, 3, 4, 2));
        let mut spool = Spool::new(folder.path(), "a.b", 7);
        spool.adopt(left);
        let read = spool.more(usize::MAX).expect("lines");
        assert_eq!((seqs(&read), read.unread), (vec![1, 3], 2));
        left.remove();
        assert!(!path.exists() && path.with_extension("unread").exists());
    }
}
