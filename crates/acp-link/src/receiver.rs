//! The receiving half of a link.
//!
//! It reads straight into its splitter, without a task or a channel between: when you stop receiving, the other side
//! stops, and at most one read is taken ahead of you. An agent that gets ahead of us is given a larger pipe, but only
//! then, because the system counts what a user's pipes may hold.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use acp_rpc::{Line, Splitter};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use memchr::memchr;
use tokio::io::AsyncRead;

use crate::outbox::{Batch, Outbox};
use crate::tap::Recorder;

/// Receives lines, in order, each with the moment its last bytes were read.
///
/// Nothing is read ahead of the caller beyond one read (about 64 KiB): who stops receiving stops the other side.
pub struct Receiver {
    source: Source,
    /// What the last read brought and was not handed out yet.
    held: VecDeque<Held>,
    at: Instant,
    end: Option<LinkEnd>,
    recorder: Option<Recorder>,
}

/// One line from the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it was read.
    pub at: Instant,
    /// The line itself.
    pub line: Line,
}

/// What came together, in one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Burst {
    /// Whole lines as they came: each with its line ending, and a byte order mark where the stream began with one.
    Lines {
        /// When they were read.
        at: Instant,
        /// All of them.
        bytes: Bytes,
    },
    /// One line by itself: a message, a line over the limit, or the last one of a stream that ended without a line
    /// ending.
    One(Arrival),
}

/// What was read, on its way to the caller.
#[derive(Debug)]
enum Held {
    Line(Line),
    /// Whole lines with their line endings.
    Lines(Bytes),
}

/// Why nothing more will be received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// The other side ended its output.
    Eof,
    /// The connection broke, or the other side broke the rules of the transport.
    Broken(Arc<str>),
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkEnd::Eof => f.write_str("the other side ended its output"),
            LinkEnd::Broken(why) => write!(f, "the connection broke: {why}"),
        }
    }
}

/// Where lines come from.
pub(crate) enum Source {
    /// A descriptor.
    Bytes(Box<dyn AsyncRead + Send + Unpin>, Splitter),
    /// The other half of a memory pair.
    Memory(MemorySource, Splitter),
    /// Whole messages.
    Messages(Box<dyn Stream<Item = Result<Line, LinkEnd>> + Send + Unpin>),
}

/// Takes what the other side's senders have queued; tells them when it is gone.
pub(crate) struct MemorySource {
    outbox: Arc<Outbox>,
    batch: Batch,
}

impl MemorySource {
    pub(crate) fn new(outbox: Arc<Outbox>) -> MemorySource {
        MemorySource { outbox, batch: Batch::default() }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, splitter: &mut Splitter) -> Poll<usize> {
        let Some(()) = ready!(self.outbox.poll_take(cx, &mut self.batch)) else {
            self.outbox.end(crate::outbox::CLOSED_BY_US);
            return Poll::Ready(0);
        };
        let count = self.batch.buf.len();
        splitter.push(&self.batch.buf);
        self.outbox.wrote(&mut self.batch);
        Poll::Ready(count)
    }
}

impl Drop for MemorySource {
    fn drop(&mut self) {
        self.outbox.end("the other side no longer reads");
    }
}

impl Receiver {
    pub(crate) fn new(source: Source) -> Receiver {
        Receiver { source, held: VecDeque::new(), at: Instant::now(), end: None, recorder: None }
    }

    pub(crate) fn record_with(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// The next line; `None` when there will be no more (see [`end`](Receiver::end)). Cancel safe.
    pub async fn recv(&mut self) -> Option<Arrival> {
        if self.held.is_empty() {
            poll_fn(|cx| self.poll_held(cx, false)).await;
        }
        self.try_recv()
    }

    /// Whether the stream began with a byte order mark, which lines no longer have.
    #[must_use]
    pub fn saw_bom(&self) -> bool {
        match &self.source {
            Source::Bytes(_, splitter) | Source::Memory(_, splitter) => splitter.saw_bom(),
            Source::Messages(_) => false,
        }
    }

    /// How many of the lines that were read so far ended with a carriage return and a newline, which they no longer have.
    /// Lines that were read in one piece are not counted.
    #[must_use]
    pub fn crlf_lines(&self) -> u64 {
        match &self.source {
            Source::Bytes(_, splitter) | Source::Memory(_, splitter) => splitter.crlf_lines(),
            Source::Messages(_) => 0,
        }
    }

    /// Waits for at least one line, then appends what is there, at most `max` lines, to `buf`. Returns how many;
    /// zero when there will be no more. Cancel safe.
    pub async fn recv_many(&mut self, buf: &mut Vec<Arrival>, max: usize) -> usize {
        if self.held.is_empty() && max > 0 {
            poll_fn(|cx| self.poll_held(cx, false)).await;
        }
        let before = buf.len();
        buf.extend(std::iter::from_fn(|| self.try_recv()).take(max));
        buf.len() - before
    }

    /// What the next read brings, lines in one piece with their line endings; `None` when there will be no more.
    /// For who passes lines on and need not look at each. Cancel safe.
    pub async fn recv_burst(&mut self) -> Option<Burst> {
        if self.held.is_empty() {
            poll_fn(|cx| self.poll_held(cx, true)).await;
        }
        self.try_recv_burst()
    }

    /// A line that has already been read, without waiting.
    pub fn try_recv(&mut self) -> Option<Arrival> {
        let line = match self.held.pop_front()? {
            Held::Line(line) => line,
            Held::Lines(bytes) => self.unpacked(bytes)?,
        };
        Some(Arrival { at: self.at, line })
    }

    /// What has already been read and not been handed out, without waiting.
    pub fn try_recv_burst(&mut self) -> Option<Burst> {
        let at = self.at;
        Some(match self.held.pop_front()? {
            Held::Line(line) => Burst::One(Arrival { at, line }),
            Held::Lines(bytes) => Burst::Lines { at, bytes },
        })
    }

    /// Lines that were read in one piece, for who wants them one by one after all: the first; the others wait.
    fn unpacked(&mut self, mut bytes: Bytes) -> Option<Line> {
        let mut lines = Vec::new();
        while let Some(end) = memchr(b'\n', &bytes) {
            let mut line = bytes.split_to(end + 1);
            let ending = if line[..end].ends_with(b"\r") { 2 } else { 1 };
            line.truncate(line.len() - ending);
            lines.push(Held::Line(Line::new(line)));
        }
        let mut lines = lines.into_iter();
        let first = lines.next();
        lines.rev().for_each(|line| self.held.push_front(line));
        match first? {
            Held::Line(line) => Some(line),
            Held::Lines(_) => None,
        }
    }

    /// Why receiving ended; `None` while it has not.
    #[must_use]
    pub fn end(&self) -> Option<&LinkEnd> {
        if self.held.is_empty() { self.end.as_ref() } else { None }
    }

    /// Ready when there is something to hand out, or an end. `whole`: lines in one piece.
    fn poll_held(&mut self, cx: &mut Context<'_>, whole: bool) -> Poll<()> {
        while self.held.is_empty() && self.end.is_none() {
            ready!(self.poll_read(cx, whole));
            let Some(recorder) = &self.recorder else { continue };
            for held in &self.held {
                match held {
                    Held::Line(line) => recorder.received(self.at, [line]),
                    Held::Lines(bytes) => recorder.received_lines(self.at, bytes),
                }
            }
        }
        Poll::Ready(())
    }

    /// One read and the lines in it; none when it completed none.
    fn poll_read(&mut self, cx: &mut Context<'_>, whole: bool) -> Poll<()> {
        let (splitter, read) = match &mut self.source {
            Source::Bytes(reader, splitter) => {
                let read = ready!(poll_read_into(reader.as_mut(), cx, splitter));
                (splitter, read)
            }
            Source::Memory(memory, splitter) => {
                let read = ready!(memory.poll_read(cx, splitter));
                (splitter, Ok(read))
            }
            Source::Messages(messages) => {
                let first = ready!(messages.poll_next_unpin(cx));
                self.at = Instant::now();
                let mut next = Poll::Ready(first);
                while let Poll::Ready(message) = next {
                    match message {
                        Some(Ok(line)) => self.held.push_back(Held::Line(line)),
                        Some(Err(end)) => self.end = Some(end),
                        None => self.end = Some(LinkEnd::Eof),
                    }
                    if self.end.is_some()
                        || self.held.len() >= AHEAD
                        || self.held.back().is_some_and(is_large)
                    {
                        break;
                    }
                    next = messages.poll_next_unpin(cx);
                }
                return Poll::Ready(());
            }
        };
        self.at = Instant::now();
        match read {
            Ok(0) => self.end = Some(LinkEnd::Eof),
            Ok(_) => {}
            Err(error) => self.end = Some(LinkEnd::Broken(error.to_string().into())),
        }
        loop {
            if whole && let Some(lines) = splitter.next_lines() {
                self.held.push_back(Held::Lines(lines));
                continue;
            }
            let Some(line) = splitter.next_line() else { break };
            self.held.push_back(Held::Line(line));
        }
        if self.end.is_some() {
            self.held.extend(splitter.finish().map(Held::Line));
        }
        Poll::Ready(())
    }
}

/// How many messages are taken at once from a transport that delivers them one by one.
const AHEAD: usize = 64;

fn is_large(held: &Held) -> bool {
    matches!(held, Held::Line(line) if line.bytes().len() > 64 * 1024)
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("waiting", &self.held.len())
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// Reads straight into the splitter's buffer.
fn poll_read_into(
    reader: &mut (dyn AsyncRead + Send + Unpin),
    cx: &mut Context<'_>,
    splitter: &mut Splitter,
) -> Poll<io::Result<usize>> {
    let buffer = splitter.buffer_mut();
    tokio_util::io::poll_read_buf(Pin::new(reader), cx, buffer)
}
