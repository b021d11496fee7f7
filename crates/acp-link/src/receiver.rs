//! The receiving half of a link.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use acp_rpc::{Line, Splitter};
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncRead;

use crate::outbox::{Batch, Outbox};
use crate::tap::Recorder;

/// Receives lines, in order, each with the moment its last bytes were read.
///
/// Nothing is read ahead of the caller beyond one read (about 64 KiB): who stops receiving stops the other side.
pub struct Receiver {
    source: Source,
    /// Lines of the last read that were not handed out yet.
    lines: VecDeque<Line>,
    at: Instant,
    end: Option<End>,
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

/// Why nothing more will be received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The other side ended its output.
    Eof,
    /// The connection broke, or the other side broke the rules of the transport.
    Broken(Arc<str>),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Eof => f.write_str("the other side ended its output"),
            End::Broken(why) => write!(f, "the connection broke: {why}"),
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
    Messages(Box<dyn Stream<Item = Result<Line, End>> + Send + Unpin>),
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
        Receiver { source, lines: VecDeque::new(), at: Instant::now(), end: None, recorder: None }
    }

    pub(crate) fn record_with(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// The next line; `None` when there will be no more (see [`end`](Receiver::end)). Cancel safe.
    pub async fn recv(&mut self) -> Option<Arrival> {
        if self.lines.is_empty() {
            poll_fn(|cx| self.poll_lines(cx)).await;
        }
        let line = self.lines.pop_front()?;
        Some(Arrival { at: self.at, line })
    }

    /// Waits for at least one line, then appends what is there, at most `max` lines, to `buf`. Returns how many;
    /// zero when there will be no more. Cancel safe.
    pub async fn recv_many(&mut self, buf: &mut Vec<Arrival>, max: usize) -> usize {
        if self.lines.is_empty() && max > 0 {
            poll_fn(|cx| self.poll_lines(cx)).await;
        }
        let count = self.lines.len().min(max);
        let at = self.at;
        buf.extend(self.lines.drain(..count).map(|line| Arrival { at, line }));
        count
    }

    /// A line that has already been read, without waiting.
    pub fn try_recv(&mut self) -> Option<Arrival> {
        let line = self.lines.pop_front()?;
        Some(Arrival { at: self.at, line })
    }

    /// Why receiving ended; `None` while it has not.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        if self.lines.is_empty() { self.end.as_ref() } else { None }
    }

    /// Ready when there is a line to hand out, or an end.
    fn poll_lines(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.lines.is_empty() && self.end.is_none() {
            ready!(self.poll_read(cx));
            if let Some(recorder) = &self.recorder {
                recorder.received(self.at, &self.lines);
            }
        }
        Poll::Ready(())
    }

    /// One read and the lines in it; none when it completed none.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
                        Some(Ok(line)) => self.lines.push_back(line),
                        Some(Err(end)) => self.end = Some(end),
                        None => self.end = Some(End::Eof),
                    }
                    if self.end.is_some()
                        || self.lines.len() >= AHEAD
                        || self.lines.back().is_some_and(is_large)
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
            Ok(0) => self.end = Some(End::Eof),
            Ok(_) => {}
            Err(error) => self.end = Some(End::Broken(error.to_string().into())),
        }
        while let Some(line) = splitter.next_line() {
            self.lines.push_back(line);
        }
        if self.end.is_some() {
            self.lines.extend(splitter.finish());
        }
        Poll::Ready(())
    }
}

/// How many messages are taken at once from a transport that delivers them one by one.
const AHEAD: usize = 64;

fn is_large(line: &Line) -> bool {
    line.bytes().len() > 64 * 1024
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("waiting", &self.lines.len())
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
