use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memrchr};

/// The longest line that is handed out whole unless the caller says otherwise: 64 MiB.
pub const DEFAULT_LINE_LIMIT: usize = 64 * 1024 * 1024;

/// How much of an oversized line is kept to show what it was.
const HEAD: usize = 1024;
/// What the first reads are offered: most of what is said is short, and there may be many who say it.
const FIRST_CHUNK: usize = 16 * 1024;
/// What one read is offered where it is taken.
const CHUNK: usize = 64 * 1024;
/// Below this much room a new chunk is taken.
const LOW: usize = 8 * 1024;
const BOM: &[u8] = b"\xEF\xBB\xBF";
/// Bytes of a line that do not count against the limit, but are only known as such later: BOM and `\r`.
const SLACK: usize = BOM.len() + 1;

/// One line from the other side, without its line ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// UTF-8 text, maybe empty. It shares the read buffer (about 64 KiB) with its neighbours: copy it when it
    /// is kept for long and they are not.
    Text(Bytes),
    /// Bytes that are not UTF-8.
    NotUtf8(Bytes),
    /// Longer than the limit: how long it was, and how it began.
    Oversized {
        /// The length of the whole line in bytes.
        len: u64,
        /// Its first bytes, at most 1 KiB.
        head: Bytes,
    },
}

impl Line {
    /// The line as far as it was kept.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Text(bytes) | Self::NotUtf8(bytes) | Self::Oversized { head: bytes, .. } => bytes,
        }
    }

    /// A whole line, without its line ending.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        if std::str::from_utf8(&bytes).is_ok() { Self::Text(bytes) } else { Self::NotUtf8(bytes) }
    }
}

/// Cuts a byte stream into lines, however it was chunked.
///
/// A line ends with `\n` or `\r\n`; the last one may end with the stream. A byte order mark at the very start
/// is dropped. A line over the limit is skipped and reported as [`Line::Oversized`], and the next line is whole
/// again; memory stays within the limit and one read.
///
/// ```
/// use acp_rpc::{Line, Splitter};
/// let mut lines = Splitter::default();
/// lines.push(b"{\"a\":1}\r\n{\"b\"");
/// assert_eq!(lines.next_line(), Some(Line::Text("{\"a\":1}".into())));
/// assert_eq!(lines.next_line(), None);
/// lines.push(b":2}");
/// assert_eq!(lines.finish(), Some(Line::Text("{\"b\":2}".into())));
/// ```
#[derive(Debug)]
pub struct Splitter {
    limit: usize,
    buffer: BytesMut,
    /// How much room is made for the next reads.
    chunk: usize,
    /// Bytes at the front of the buffer that hold no `\n`.
    searched: usize,
    skipping: Option<Skip>,
    started: bool,
    bom: bool,
    crlf: u64,
}

/// An oversized line on its way out.
#[derive(Debug)]
struct Skip {
    /// The first bytes, a byte order mark included.
    head: Vec<u8>,
    len: u64,
    last: u8,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new(DEFAULT_LINE_LIMIT)
    }
}

impl Splitter {
    /// A splitter that hands out lines of at most `limit` bytes, line ending not counted.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: BytesMut::new(),
            chunk: FIRST_CHUNK,
            searched: 0,
            skipping: None,
            started: false,
            bom: false,
            crlf: 0,
        }
    }

    /// Takes more bytes. Take all lines with [`Splitter::next_line`] before the next push.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer to read into without a copy (`read_buf`), with room for at least 8 KiB. Only append to it,
    /// and take all lines with [`Splitter::next_line`] before the next read.
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        let room = self.buffer.capacity() - self.buffer.len();
        if room < LOW {
            // A read that took all the room there was: more of it is coming.
            if room == 0 && self.buffer.capacity() > 0 {
                self.chunk = (2 * self.chunk).min(CHUNK);
            }
            self.buffer.reserve(self.chunk);
        }
        &mut self.buffer
    }

    /// The next complete line, if there is one.
    pub fn next_line(&mut self) -> Option<Line> {
        let Some(offset) = memchr(b'\n', &self.buffer[self.searched..]) else {
            self.wait_for_more();
            return None;
        };
        let end = self.searched + offset;
        self.searched = 0;
        if self.skipping.is_some() {
            self.skip(end);
            self.buffer.advance(1);
            return self.end_skip(true);
        }
        let mut line = self.buffer.split_to(end + 1).freeze();
        line.truncate(end);
        if line.last() == Some(&b'\r') {
            line.truncate(end - 1);
            self.crlf += 1;
        }
        Some(self.hand_out(line))
    }

    /// The complete lines that are there in one piece, as they came: each with its line ending, and a byte order mark
    /// where the stream began with one. `None` when there are none, or when the first one is over the limit: then
    /// [`Splitter::next_line`] says what there is.
    ///
    /// ```
    /// # use acp_rpc::{Line, Splitter};
    /// let mut lines = Splitter::default();
    /// lines.push(b"{}\r\n[]\n{\"a\"");
    /// assert_eq!(lines.next_lines().as_deref(), Some(&b"{}\r\n[]\n"[..]));
    /// assert_eq!(lines.next_lines(), None);
    /// ```
    pub fn next_lines(&mut self) -> Option<Bytes> {
        if self.skipping.is_some() {
            return None;
        }
        let last = memrchr(b'\n', &self.buffer[self.searched..])?;
        let mut end = self.searched + last + 1;
        if end > self.limit {
            // Together they may be too long though each of them is not.
            end = memchr(b'\n', &self.buffer)? + 1;
            if end > self.limit {
                return None;
            }
        }
        self.searched = 0;
        if !self.started {
            self.started = true;
            self.bom = self.buffer.starts_with(BOM);
        }
        Some(self.buffer.split_to(end).freeze())
    }

    /// The last line, when the stream ended without a line ending. Call it once, after [`Splitter::next_line`]
    /// has returned `None`.
    pub fn finish(&mut self) -> Option<Line> {
        if self.skipping.is_some() {
            self.skip(self.buffer.len());
            return self.end_skip(false);
        }
        self.searched = 0;
        let line = self.buffer.split().freeze();
        let line = (!line.is_empty()).then(|| self.hand_out(line))?;
        // Nothing but a byte order mark is no line.
        (!line.bytes().is_empty()).then_some(line)
    }

    /// Whether the stream began with a byte order mark.
    #[must_use]
    pub fn saw_bom(&self) -> bool {
        self.bom
    }

    /// How many lines ended with `\r\n`.
    #[must_use]
    pub fn crlf_lines(&self) -> u64 {
        self.crlf
    }

    /// How many bytes of an unfinished line are held.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    fn hand_out(&mut self, mut line: Bytes) -> Line {
        if !self.started {
            self.started = true;
            if line.starts_with(BOM) {
                self.bom = true;
                line.advance(BOM.len());
            }
        }
        if line.len() > self.limit {
            return Line::Oversized { len: line.len() as u64, head: head(&line) };
        }
        Line::new(line)
    }

    /// No line ending in the buffer: remember that, and stop keeping a line that can only be too long.
    fn wait_for_more(&mut self) {
        self.searched = self.buffer.len();
        if self.skipping.is_none() && self.buffer.len() > self.limit.saturating_add(SLACK) {
            self.skipping = Some(Skip { head: Vec::new(), len: 0, last: 0 });
        }
        if self.skipping.is_some() {
            self.skip(self.buffer.len());
            self.searched = 0;
            // Give back what the long line made the buffer grow to.
            if self.buffer.capacity() > CHUNK {
                self.buffer = BytesMut::new();
            }
        }
    }

    fn skip(&mut self, count: usize) {
        if let (Some(skip), Some(&last)) = (&mut self.skipping, self.buffer[..count].last()) {
            let room = (HEAD + BOM.len()).saturating_sub(skip.head.len());
            skip.head.extend_from_slice(&self.buffer[..count.min(room)]);
            skip.len += count as u64;
            skip.last = last;
        }
        self.buffer.advance(count);
    }

    fn end_skip(&mut self, newline: bool) -> Option<Line> {
        let mut skip = self.skipping.take()?;
        if newline && skip.last == b'\r' {
            skip.len -= 1;
            self.crlf += 1;
        }
        let mut kept = skip.head.as_slice();
        if !self.started {
            self.started = true;
            if let Some(behind) = kept.strip_prefix(BOM) {
                self.bom = true;
                skip.len -= BOM.len() as u64;
                kept = behind;
            }
        }
        let kept = &kept[..kept.len().min(usize::try_from(skip.len).unwrap_or(usize::MAX))];
        Some(Line::Oversized { len: skip.len, head: head(kept) })
    }
}

fn head(line: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&line[..line.len().min(HEAD)])
}
