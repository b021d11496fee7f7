//! Events that NATS does not have yet, on disk: a file of lines per session and epoch, cut into segments.
//!
//! An event is written here before it is sent, and a segment goes when all of it is stored. What is left after a crash is
//! sent by the next proxy that uses the folder.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
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

#[derive(Debug)]
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
    pub(super) task: Option<String>,
    /// In order.
    pub(super) lines: Vec<Line>,
    files: Vec<PathBuf>,
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
            let mut reader = BufReader::new(File::open(&segment.path)?);
            reader.seek(SeekFrom::Start(cursor.offset))?;
            let mut offset = cursor.offset;
            let mut line = Vec::new();
            while read < most && offset < segment.bytes && reader.read_until(b'\n', &mut line)? > 0 {
                offset += line.len() as u64;
                read += line.len();
                if let Some(line) = parse(&line) {
                    lines.push(line);
                }
                line.clear();
            }
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

/// What a crash has left in a folder.
pub(super) fn leftovers(folder: &Path) -> io::Result<Vec<Left>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"))
        .collect();
    paths.sort();
    let mut left: Vec<Left> = Vec::new();
    for path in paths {
        let mut text = Vec::new();
        File::open(&path)?.read_to_end(&mut text)?;
        let events = text.split_inclusive(|byte| *byte == b'\n');
        let events: Vec<(Event, Line)> = events
            .filter(|line| line.ends_with(b"\n"))
            .filter_map(|line| Some((Event::parse(line).ok()?, parse(line)?)))
            .collect();
        let Some((first, _)) = events.first() else {
            let _ = std::fs::remove_file(&path);
            continue;
        };
        let (session, epoch) = (first.session.clone(), first.epoch);
        let task = events.iter().rev().find_map(|(event, _)| event.task.clone());
        let lines = events.into_iter().map(|(_, line)| line);
        match left.iter_mut().find(|left| left.session == session && left.epoch == epoch) {
            Some(known) => {
                known.lines.extend(lines);
                known.files.push(path);
                known.task = task.or(known.task.take());
            }
            None => left.push(Left { session, epoch, task, lines: lines.collect(), files: vec![path] }),
        }
    }
    left.sort_by_key(|left| left.epoch);
    Ok(left)
}

impl Left {
    /// All of it is stored.
    pub(super) fn remove(&self) {
        self.files.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }

    /// It can never be sent.
    pub(super) fn put_aside(&self) -> Option<PathBuf> {
        aside(&self.files)
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
        assert_eq!((left[0].session.as_str(), left[0].epoch, seqs(&left[0].lines)), ("a.b", 7, vec![1, 2]));
        assert!(left[0].put_aside().is_some());
        assert!(leftovers(folder.path()).expect("readable").is_empty());
    }
}
