//! Recorded conversations: one JSON object per line.
//!
//! ```text
//! {"t":0.000412,"dir":"c2a","line":"{\"jsonrpc\":\"2.0\",…}"}     text, exactly as it travelled
//! {"t":0.000913,"dir":"a2c","base64":"/w=="}                      bytes that are not UTF-8
//! {"t":0.001100,"dir":"a2c","frame":{"jsonrpc":"2.0",…}}          also read: the frame itself
//! ```

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::scan::{self, Scanner};
use crate::{Direction, Frame};

/// One line of a conversation: when, which way, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptEntry {
    /// Since the conversation began.
    pub t: Duration,
    /// Which way it travelled.
    pub dir: Direction,
    /// The line without its line ending.
    pub line: Bytes,
}

/// Why a line of a transcript cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranscriptFlaw {
    /// The line is not a JSON object.
    #[error("cannot read the transcript entry: not a JSON object (expected {expected} at byte {at})")]
    NotAnObject {
        /// Where it went wrong.
        at: usize,
        /// What could have stood there.
        expected: &'static str,
    },
    /// No frame, or `null` in its place: something that only the recorder understands.
    #[error("cannot read the transcript entry: it has no frame")]
    NoFrame,
    /// A member that every entry has.
    #[error("cannot read the transcript entry: the member {0:?} is missing")]
    Missing(&'static str),
    /// A member of the wrong form.
    #[error("cannot read the transcript entry: the member {member:?} must be {must_be}")]
    Bad {
        /// Which one.
        member: &'static str,
        /// What it must be.
        must_be: &'static str,
    },
}

impl TranscriptEntry {
    /// Reads one line of a transcript.
    ///
    /// # Errors
    /// When it is not an object with `t`, `dir` and one of `line`, `base64`, `frame`.
    pub fn parse(text: &str) -> Result<Self, TranscriptFlaw> {
        Self::read(text, None)
    }

    /// The same, for recordings without times: an entry that has none is said to be of `at`.
    ///
    /// # Errors
    /// When it is not an object with `dir` and one of `line`, `base64`, `frame`.
    pub fn parse_at(text: &str, at: Duration) -> Result<Self, TranscriptFlaw> {
        Self::read(text, Some(at))
    }

    fn read(text: &str, at: Option<Duration>) -> Result<Self, TranscriptFlaw> {
        let members = Members::read(text)?;
        let bad = TranscriptFlaw::Bad { member: "t", must_be: "seconds, zero or more" };
        let t = match members.t {
            Some(t) => seconds(t).ok_or(bad)?,
            None => at.ok_or(TranscriptFlaw::Missing("t"))?,
        };
        let dir = members.dir.ok_or(TranscriptFlaw::Missing("dir"))?;
        let dir = scan::decode(dir)
            .and_then(|dir| dir.parse().ok())
            .ok_or(TranscriptFlaw::Bad { member: "dir", must_be: "\"c2a\" or \"a2c\"" })?;
        Ok(Self { t, dir, line: members.line()? })
    }

    /// The entry as one line of a transcript, without a line ending.
    #[must_use]
    pub fn to_json_line(&self) -> String {
        let mut out = Vec::with_capacity(self.line.len() + self.line.len() / 4 + 64);
        self.write(&mut out);
        // Only ASCII around text that was checked.
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the same to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_entry(self.t, self.dir, &self.line, out);
    }

    /// The line as a frame.
    #[must_use]
    pub fn frame(&self) -> Frame {
        Frame::parse(self.line.clone())
    }
}

/// Appends one entry without a line ending: [`TranscriptEntry::write`] for those who have the parts.
pub fn write_entry(t: Duration, dir: Direction, line: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"t\":");
    scan::write_u64(t.as_secs(), 1, out);
    out.push(b'.');
    match t.subsec_nanos() {
        nanos if nanos % 1000 == 0 => scan::write_u64(u64::from(nanos / 1000), 6, out),
        nanos => scan::write_u64(u64::from(nanos), 9, out),
    }
    out.extend_from_slice(b",\"dir\":\"");
    out.extend_from_slice(dir.as_str().as_bytes());
    if let Ok(text) = std::str::from_utf8(line) {
        out.extend_from_slice(b"\",\"line\":");
        scan::write_string(text, out);
    } else {
        out.extend_from_slice(b"\",\"base64\":\"");
        out.extend_from_slice(STANDARD.encode(line).as_bytes());
        out.push(b'"');
    }
    out.push(b'}');
}

/// The raw text of the members that count; the last one of a name wins.
#[derive(Default)]
struct Members<'a> {
    t: Option<&'a str>,
    dir: Option<&'a str>,
    line: Option<&'a str>,
    base64: Option<&'a str>,
    frame: Option<&'a str>,
}

impl<'a> Members<'a> {
    fn read(text: &'a str) -> Result<Self, TranscriptFlaw> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut found = Self::default();
        let mut scanner = Scanner::new(text.as_bytes());
        scanner.skip_space();
        scanner
            .object(|scanner, key| {
                let (start, end) = scanner.value()?;
                let value = text.get(start..end);
                match text.get(key.start..key.end) {
                    Some("t") => found.t = value,
                    Some("dir") => found.dir = value,
                    Some("line") => found.line = value,
                    Some("base64") => found.base64 = value,
                    Some("frame") => found.frame = value,
                    _ => {}
                }
                Ok(())
            })
            .and_then(|()| if scanner.at_end() { Ok(()) } else { Err(scanner.unexpected("the end")) })
            .map_err(|stop| match stop {
                scan::Stop::Syntax { at, expected } => TranscriptFlaw::NotAnObject { at, expected },
                scan::Stop::TooDeep { at } => TranscriptFlaw::NotAnObject { at, expected: "less nesting" },
            })?;
        Ok(found)
    }

    fn line(&self) -> Result<Bytes, TranscriptFlaw> {
        if let Some(line) = self.line {
            let bad = TranscriptFlaw::Bad { member: "line", must_be: "a string" };
            return string(line).map(Bytes::from).ok_or(bad);
        }
        if let Some(encoded) = self.base64 {
            let bad = TranscriptFlaw::Bad { member: "base64", must_be: "a string of base64" };
            return string(encoded).and_then(|text| STANDARD.decode(text).ok()).map(Bytes::from).ok_or(bad);
        }
        let frame = self.frame.filter(|frame| *frame != "null").ok_or(TranscriptFlaw::NoFrame)?;
        // Line breaks between the frame's tokens would end the line early.
        Ok(Bytes::from(frame.replace(['\n', '\r'], " ")))
    }
}

fn string(json: &str) -> Option<String> {
    json.starts_with('"').then(|| scan::decode(json)).flatten()
}

/// A JSON number of seconds, to the nanosecond.
fn seconds(json: &str) -> Option<Duration> {
    if let Some((whole, fraction)) = json.split_once('.')
        && fraction.len() <= 9
        && fraction.bytes().all(|b| b.is_ascii_digit())
    {
        let scale = 10_u32.pow(9 - u32::try_from(fraction.len()).ok()?);
        return Some(Duration::new(whole.parse().ok()?, fraction.parse::<u32>().ok()? * scale));
    }
    Duration::try_from_secs_f64(json.parse().ok()?).ok()
}
