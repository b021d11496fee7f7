//! What a journal holds, and how it lies in the file.
//!
//! A segment is the line `acp-journal 2` and then records, each
//!
//! ```text
//! length of the rest   u32, little endian
//! checksum of the rest u32, little endian: CRC-32 of everything after it
//! number               u64, little endian: one more than the record before it, from one run of a proxy to its end
//! kind                 u8
//! body                 JSON, or for lines: conversation, time, direction and the bytes as they came
//! ```
//!
//! Lines are by far the most of it, so they are not JSON: a burst of lines that was read at once is one record. Before
//! the bytes of a long burst stand so many zeros that the record ends where a page of memory does: the system keeps files
//! in pages, and takes whole ones a third faster than pieces of them.

use std::time::Duration;

use acp_rpc::Direction;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// How a segment begins.
pub(crate) const MAGIC: &[u8] = b"acp-journal 2\n";
/// How one began that knows no [padding](kind::PADDED): all else is the same.
pub(crate) const OLD_MAGIC: &[u8] = b"acp-journal 1\n";
/// How the segments of every version begin.
pub(crate) const FAMILY: [u8; 12] = *b"acp-journal ";
/// Length, checksum.
pub(crate) const HEAD: usize = 8;
/// Number, kind.
const INNER: usize = 9;
/// A longer record is no record: the longest line is far shorter.
const LONGEST: usize = 1 << 30;

/// Of the system's memory.
const PAGE: u64 = 4096;
/// Shorter bursts are not worth half a page.
const LONG: usize = 32 << 10;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A conversation begins, or goes on in a new segment.
    Opened(OpenedRecord),
    /// Lines that one side sent.
    Lines(Lines),
    /// The proxy answered a request itself.
    Decided(Decided),
    /// A conversation is over.
    Closed(ClosedRecord),
    /// Lines that were passed on and are not here.
    Gap(Gap),
    /// The segment is complete.
    End(End),
}

/// The beginning of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenedRecord {
    /// Its number within the run.
    pub conversation: u64,
    /// When, as RFC 3339.
    pub at: String,
    /// Which agent.
    pub agent: String,
    /// The form that the client speaks.
    pub client_dialect: String,
    /// The form that the agent speaks.
    pub agent_dialect: String,
    /// It began in an earlier segment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// Lines of one side, as they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Whose.
    pub conversation: u64,
    /// When they were read, since the conversation began.
    pub t: Duration,
    /// From whom.
    pub dir: Direction,
    /// What.
    pub what: RecordedLines,
}

/// The bytes of [`Lines`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedLines {
    /// Whole lines, each with its line ending.
    Block(Bytes),
    /// One message, which may have line endings inside.
    Message(Bytes),
    /// The beginning of a line that was too long, and its length.
    Oversized(Bytes, u64),
}

/// An answer of the proxy itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// Whose.
    pub conversation: u64,
    /// When, in microseconds since the conversation began.
    pub t: u64,
    /// Who had asked: `c2a` is the client.
    pub dir: Direction,
    /// What was asked.
    pub method: String,
    /// The id of the request, as JSON.
    pub id: String,
    /// What was decided, in a word.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// The request, as it came. Empty for what the proxy says on its own account: an error for a request that nobody will
    /// answer any more, which is among the lines, or a cancel.
    pub request: String,
    /// The frame that was sent instead of passing the request on; for [`Decided::CHANGED`], what was passed on.
    pub answer: String,
    /// It is behind so many lines of the agent that come after it in the journal: what the agent had said before it asked
    /// was still on its way to the client.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub behind: u64,
}

impl Decided {
    /// The verdict on a request that was passed on otherwise than it came.
    pub const CHANGED: &'static str = "changed";

    /// Whether the request, which is among the lines, was passed on otherwise than it came.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.verdict == Self::CHANGED
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The end of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClosedRecord {
    /// Which.
    pub conversation: u64,
    /// When, in microseconds since it began.
    pub t: u64,
    /// How it ended, in words.
    pub outcome: String,
}

/// What is missing, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// So many records of lines.
    pub records: u64,
    /// So many bytes.
    pub bytes: u64,
    /// What the system said.
    pub reason: String,
}

/// The end of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// `rotated`, `stopped`, or `recovered` where a later run found it unfinished.
    pub why: String,
    /// The bytes of an unfinished record that were cut off.
    #[serde(default)]
    pub cut: u64,
}

mod kind {
    pub(super) const OPENED: u8 = 1;
    pub(super) const LINES: u8 = 2;
    pub(super) const MESSAGE: u8 = 3;
    pub(super) const OVERSIZED: u8 = 4;
    pub(super) const DECIDED: u8 = 5;
    pub(super) const CLOSED: u8 = 6;
    pub(super) const GAP: u8 = 7;
    pub(super) const END: u8 = 8;
    /// Lines, with zeros before them.
    pub(super) const PADDED: u8 = 9;
}

/// Appends a record to `out`, all but the bytes that [`tail`] has: these are many, and need no copy. It will stand at
/// byte `at` of the file.
pub(crate) fn encode(number: u64, record: &Record, at: u64, out: &mut Vec<u8>) {
    match record {
        Record::Lines(lines) => encode_lines(number, lines, at, out),
        Record::Opened(opened) => encode_json(number, kind::OPENED, opened, out),
        Record::Decided(decided) => encode_json(number, kind::DECIDED, decided, out),
        Record::Closed(closed) => encode_json(number, kind::CLOSED, closed, out),
        Record::Gap(gap) => encode_json(number, kind::GAP, gap, out),
        Record::End(end) => encode_json(number, kind::END, end, out),
    }
}

/// The bytes with which the record ends in the file.
pub(crate) fn tail(record: &Record) -> &[u8] {
    match record {
        Record::Lines(lines) => lines.what.bytes(),
        _ => &[],
    }
}

fn encode_lines(number: u64, lines: &Lines, at: u64, out: &mut Vec<u8>) {
    let kind = match &lines.what {
        RecordedLines::Block(bytes) if bytes.len() >= LONG => kind::PADDED,
        RecordedLines::Block(_) => kind::LINES,
        RecordedLines::Message(_) => kind::MESSAGE,
        RecordedLines::Oversized(..) => kind::OVERSIZED,
    };
    let start = begin(number, kind, out);
    push_number(lines.conversation, out);
    push_number(u64::try_from(lines.t.as_micros()).unwrap_or(u64::MAX), out);
    out.push(match lines.dir {
        Direction::ClientToAgent => 0,
        Direction::AgentToClient => 1,
    });
    if let RecordedLines::Oversized(_, length) = &lines.what {
        push_number(*length, out);
    }
    if kind == kind::PADDED {
        // Its own length, always two bytes, is counted too.
        let end = at + (out.len() - start + 2 + lines.what.len()) as u64;
        let zeros = (end.next_multiple_of(PAGE) - end) as usize;
        out.extend([(zeros & 0x7f) as u8 | 0x80, (zeros >> 7) as u8]);
        out.resize(out.len() + zeros, 0);
    }
    finish(start, out, lines.what.bytes());
}

fn encode_json(number: u64, kind: u8, body: &impl Serialize, out: &mut Vec<u8>) {
    let start = begin(number, kind, out);
    // These are plain structs with string keys: writing them to memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, body);
    finish(start, out, &[]);
}

fn begin(number: u64, kind: u8, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    out.extend_from_slice(&number.to_le_bytes());
    out.push(kind);
    start
}

fn finish(start: usize, out: &mut [u8], tail: &[u8]) {
    let body = start + HEAD;
    let length = u32::try_from(out.len() - body + tail.len()).unwrap_or(u32::MAX);
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&out[body..]);
    checksum.update(tail);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..body].copy_from_slice(&checksum.finalize().to_le_bytes());
}

/// Seven bits at a time, the lowest first.
fn push_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(bytes: &mut Bytes) -> Option<u64> {
    let mut number = 0;
    for at in 0..10 {
        let byte = *bytes.first()?;
        let _ = bytes.split_to(1);
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// What stands at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A record with its number, and how many bytes it takes.
    Record(u64, Record, usize),
    /// Fewer bytes than the record says it has.
    Short,
    /// Bytes that are no record: why.
    Damaged(&'static str),
}

/// Reads the record at the beginning of `bytes`.
pub(crate) fn decode(bytes: &Bytes) -> Parsed {
    let word = |at: usize| -> Option<u32> {
        let word: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(word))
    };
    let (Some(length), Some(checksum)) = (word(0), word(4)) else { return Parsed::Short };
    let length = length as usize;
    if !(INNER..=LONGEST).contains(&length) {
        return Parsed::Damaged("its length cannot be");
    }
    if bytes.len() < HEAD + length {
        return Parsed::Short;
    }
    let rest = bytes.slice(HEAD..HEAD + length);
    if crc32fast::hash(&rest) != checksum {
        return Parsed::Damaged("its checksum is wrong");
    }
    let mut number = [0; 8];
    number.copy_from_slice(&rest[..8]);
    match body(rest[8], rest.slice(INNER..)) {
        Some(record) => Parsed::Record(u64::from_le_bytes(number), record, HEAD + length),
        None => Parsed::Damaged("it is of no kind that this version knows"),
    }
}

/// Where in `rest`, which begins with something that is no record, the next one begins. `before` is the number of the last
/// one: that of the next is a little greater, which tells most places apart without a checksum.
pub(crate) fn following(rest: &Bytes, before: u64) -> Option<usize> {
    /// So many records in a row are not lost.
    const FAR: u64 = 1 << 20;
    (1..rest.len().saturating_sub(HEAD + INNER - 1)).find(|at| {
        let Some(number) = rest[at + HEAD..].first_chunk::<8>() else { return false };
        (before + 1..before + FAR).contains(&u64::from_le_bytes(*number))
            && matches!(decode(&rest.slice(*at..)), Parsed::Record(..))
    })
}

fn body(kind: u8, bytes: Bytes) -> Option<Record> {
    fn json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
        serde_json::from_slice(bytes).ok()
    }
    Some(match kind {
        kind::OPENED => Record::Opened(json(&bytes)?),
        kind::DECIDED => Record::Decided(json(&bytes)?),
        kind::CLOSED => Record::Closed(json(&bytes)?),
        kind::GAP => Record::Gap(json(&bytes)?),
        kind::END => Record::End(json(&bytes)?),
        kind::LINES | kind::PADDED | kind::MESSAGE | kind::OVERSIZED => Record::Lines(lines(kind, bytes)?),
        _ => return None,
    })
}

fn lines(kind: u8, mut bytes: Bytes) -> Option<Lines> {
    let conversation = take_number(&mut bytes)?;
    let t = Duration::from_micros(take_number(&mut bytes)?);
    let dir = match bytes.first()? {
        0 => Direction::ClientToAgent,
        1 => Direction::AgentToClient,
        _ => return None,
    };
    let mut bytes = bytes.slice(1..);
    let what = match kind {
        kind::LINES => RecordedLines::Block(bytes),
        kind::MESSAGE => RecordedLines::Message(bytes),
        kind::PADDED => {
            let zeros = usize::try_from(take_number(&mut bytes)?).ok()?;
            RecordedLines::Block((zeros <= bytes.len()).then(|| bytes.split_off(zeros))?)
        }
        _ => {
            let length = take_number(&mut bytes)?;
            RecordedLines::Oversized(bytes, length)
        }
    };
    Some(Lines { conversation, t, dir, what })
}

impl RecordedLines {
    /// The lines without their line endings.
    pub fn lines(&self) -> Vec<Bytes> {
        match self {
            RecordedLines::Message(bytes) | RecordedLines::Oversized(bytes, _) => vec![bytes.clone()],
            RecordedLines::Block(bytes) => {
                let mut start = 0;
                let ends = memchr::memchr_iter(b'\n', bytes);
                ends.map(|end| {
                    let line = bytes.slice(start..end);
                    start = end + 1;
                    if line.ends_with(b"\r") { line.slice(..line.len() - 1) } else { line }
                })
                .collect()
            }
        }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        match self {
            RecordedLines::Block(bytes)
            | RecordedLines::Message(bytes)
            | RecordedLines::Oversized(bytes, _) => bytes,
        }
    }

    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Record> {
        let lines = |what| {
            let (conversation, t) = (300, Duration::from_micros(1_234_567));
            Record::Lines(Lines { conversation, t, dir: Direction::AgentToClient, what })
        };
        vec![
            Record::Opened(OpenedRecord {
                conversation: 300,
                at: "2026-01-01T00:00:00Z".into(),
                agent: "mock".into(),
                client_dialect: "v1".into(),
                agent_dialect: "delta".into(),
                again: false,
            }),
            lines(RecordedLines::Block(Bytes::from_static(b"{\"a\":1}\n\xff\n\n"))),
            lines(RecordedLines::Block(Bytes::from(vec![b'\n'; LONG]))),
            lines(RecordedLines::Message(Bytes::from_static(b"{\n}"))),
            lines(RecordedLines::Oversized(Bytes::from_static(b"{\"lo"), 1 << 40)),
            Record::Gap(Gap { records: 2, bytes: 30, reason: "no space".into() }),
            Record::End(End { why: "stopped".into(), cut: 0 }),
        ]
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        for (number, record) in samples().into_iter().enumerate() {
            let mut out = Vec::new();
            encode(number as u64, &record, 14, &mut out);
            out.extend_from_slice(tail(&record));
            let length = out.len();
            out.extend_from_slice(b"what follows");
            assert_eq!(decode(&out.into()), Parsed::Record(number as u64, record, length));
        }
    }

    #[test]
    fn no_changed_byte_and_no_missing_byte_goes_unseen() {
        for record in samples() {
            let mut out = Vec::new();
            encode(7, &record, 14, &mut out);
            out.extend_from_slice(tail(&record));
            // Of a long one, its head and every hundredth byte.
            for at in (0..out.len()).filter(|at| *at < 300 || at % 100 == 0) {
                let cut = Bytes::copy_from_slice(&out[..at]);
                assert_eq!(decode(&cut), Parsed::Short, "cut at {at}");
                let mut changed = out.clone();
                changed[at] ^= 0x10;
                assert!(!matches!(decode(&changed.into()), Parsed::Record(..)), "changed at {at}");
            }
        }
    }

    #[test]
    fn a_long_block_ends_with_a_page_wherever_it_begins() {
        let (page, dir, t) = (PAGE as usize, Direction::AgentToClient, Duration::ZERO);
        for at in [14, 4000, 4096, 4097, 70_000] {
            for length in (LONG..LONG + 2 * page).step_by(97) {
                let what = RecordedLines::Block(Bytes::from(vec![b'\n'; length]));
                let record = Record::Lines(Lines { conversation: 1, t, dir, what });
                let mut out = Vec::new();
                encode(1, &record, at as u64, &mut out);
                out.extend_from_slice(tail(&record));
                assert_eq!((at + out.len()) % page, 0, "{length} bytes at {at}");
                let whole = out.len();
                assert!(whole < length + page + 40, "{whole} for {length}");
                assert_eq!(decode(&out.into()), Parsed::Record(1, record, whole));
            }
        }
    }

    #[test]
    fn a_block_is_cut_into_its_lines() {
        let block = RecordedLines::Block(Bytes::from_static(b"a\n\nbc\n"));
        assert_eq!(block.lines(), [&b"a"[..], b"", b"bc"]);
    }
}
