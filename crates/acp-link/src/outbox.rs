//! What waits to be written: one bounded buffer per link, filled by every [`Sender`](crate::Sender) clone and
//! emptied as a whole by its writer, so that a burst of frames costs one system call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::sync::Notify;

use crate::gauge::Gauge;
use crate::tap::Recorder;

/// A buffer that grew past this for one large frame is given back to the allocator afterwards.
const KEEP_CAPACITY: usize = 512 * 1024;

/// How the frames in the buffer are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A newline ends each frame; boundaries are not remembered.
    Lines,
    /// A newline ends each frame, and the boundaries are remembered: one write per frame.
    LinesOneByOne,
    /// No newline: each frame is a message of its own.
    Messages,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) bytes: usize,
    pub(crate) frames: usize,
}

/// Shared by senders and the writer.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    framing: Framing,
    bound: Bound,
    /// Room in the buffer, progress of the writer, or the end.
    moved: Notify,
    /// Where it can be seen whether the other side has read what was written.
    gauge: OnceLock<Gauge>,
}

#[derive(Debug)]
struct State {
    buf: Vec<u8>,
    /// Lengths of the frames in `buf`; only kept when the framing needs them.
    lengths: VecDeque<usize>,
    frames: usize,
    /// Frames accepted and frames written since the beginning: what `flush` compares.
    accepted: u64,
    written: u64,
    closing: bool,
    /// Why nothing more can be written, once the writer has ended.
    ended: Option<Arc<str>>,
    writer: Option<Waker>,
    /// How many wait for `moved`; nobody is told when nobody waits.
    waiting: usize,
    recorder: Option<Recorder>,
}

/// A batch on its way from the outbox to the descriptor.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) buf: Vec<u8>,
    pub(crate) lengths: VecDeque<usize>,
    frames: u64,
}

/// Whole lines, each with its line ending, on their way into an outbox.
pub(crate) enum Lines<'a> {
    /// To be copied.
    Borrowed(&'a [u8]),
    /// To be taken over where that saves the copy.
    Owned(&'a mut Vec<u8>),
}

/// What came of offering a frame.
pub(crate) enum Offer {
    Taken,
    Full,
    Ended(Arc<str>),
}

pub(crate) const CLOSED_BY_US: &str = "our side has already ended its output";

impl Outbox {
    pub(crate) fn new(framing: Framing, bound: Bound) -> Arc<Outbox> {
        Arc::new(Outbox {
            state: Mutex::new(State {
                buf: Vec::new(),
                lengths: VecDeque::new(),
                frames: 0,
                accepted: 0,
                written: 0,
                closing: false,
                ended: None,
                writer: None,
                waiting: 0,
                recorder: None,
            }),
            framing,
            bound,
            moved: Notify::new(),
            gauge: OnceLock::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record_with(&self, recorder: Recorder) {
        self.lock().recorder = Some(recorder);
    }

    /// Takes the frame if there is room. `newline` is whether the frame gets its line end from us.
    pub(crate) fn offer(&self, frame: &[u8], newline: bool) -> Offer {
        let wake = {
            let mut state = self.lock();
            if let Some(refusal) = state.refusal(self.bound) {
                return refusal;
            }
            state.push(frame, newline, self.framing);
            state.writer.take()
        };
        if let Some(writer) = wake {
            writer.wake();
        }
        Offer::Taken
    }

    /// Takes whole lines, each with its line ending, if there is room; `lines` is empty afterwards.
    pub(crate) fn offer_lines(&self, lines: &mut Lines<'_>) -> Offer {
        let wake = {
            let mut state = self.lock();
            if let Some(refusal) = state.refusal(self.bound) {
                return refusal;
            }
            state.push_lines(lines, self.framing, self.bound.frames != usize::MAX);
            state.writer.take()
        };
        if let Some(writer) = wake {
            writer.wake();
        }
        Offer::Taken
    }

    pub(crate) fn measure_with(&self, gauge: Option<Gauge>) {
        if let Some(gauge) = gauge {
            let _ = self.gauge.set(gauge);
        }
    }

    pub(crate) fn is_read(&self) -> Option<bool> {
        self.gauge.get().and_then(Gauge::is_empty)
    }

    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// Waits for room, then takes the frame.
    pub(crate) async fn put(&self, frame: &[u8], newline: bool) -> Result<(), Arc<str>> {
        loop {
            match self.offer(frame, newline) {
                Offer::Taken => return Ok(()),
                Offer::Ended(why) => return Err(why),
                Offer::Full => self.ready().await?,
            }
        }
    }

    /// Waits until a frame would be taken.
    pub(crate) async fn ready(&self) -> Result<(), Arc<str>> {
        self.until(|state, bound| match state.refusal(bound) {
            None => Some(Ok(())),
            Some(Offer::Ended(why)) => Some(Err(why)),
            Some(Offer::Full | Offer::Taken) => None,
        })
        .await
    }

    /// Waits until every frame accepted so far has been handed to the operating system.
    pub(crate) async fn flush(&self) -> Result<(), Arc<str>> {
        let goal = self.lock().accepted;
        self.until(|state, _| {
            if state.written >= goal {
                return Some(Ok(()));
            }
            state.ended.as_ref().map(|why| Err(why.clone()))
        })
        .await
    }

    /// Waits until the writer has written everything and ended.
    pub(crate) async fn ended(&self) -> Arc<str> {
        self.until(|state, _| state.ended.clone()).await
    }

    async fn until<T>(&self, mut check: impl FnMut(&State, Bound) -> Option<T>) -> T {
        let mut waiting = Waiting { outbox: self, counted: false };
        loop {
            let moved = self.moved.notified();
            {
                let mut state = self.lock();
                if let Some(value) = check(&state, self.bound) {
                    return value;
                }
                if !waiting.counted {
                    state.waiting += 1;
                    waiting.counted = true;
                }
            }
            moved.await;
        }
    }

    /// Ends the output once the frames already taken are written.
    pub(crate) fn close(&self) {
        let wake = {
            let mut state = self.lock();
            state.closing = true;
            if let Some(recorder) = &mut state.recorder {
                recorder.finish(Instant::now());
            }
            state.writer.take()
        };
        if let Some(writer) = wake {
            writer.wake();
        }
        self.moved.notify_waiters();
    }

    /// Nothing more can be written, and what waits is dropped: `why` is what later senders are told.
    pub(crate) fn end(&self, why: &str) {
        let wake = {
            let mut state = self.lock();
            if state.ended.is_none() {
                state.ended = Some(why.into());
            }
            state.buf = Vec::new();
            state.lengths = VecDeque::new();
            state.frames = 0;
            state.writer.take()
        };
        if let Some(writer) = wake {
            writer.wake();
        }
        self.moved.notify_waiters();
    }

    /// The batch has been written: empties it and swaps everything that waits meanwhile into it.
    /// `None`: closed and empty.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<Option<()>> {
        batch.buf.clear();
        batch.lengths.clear();
        if batch.buf.capacity() > KEEP_CAPACITY {
            batch.buf = Vec::new();
        }
        let mut state = self.lock();
        let written = std::mem::take(&mut batch.frames);
        state.written += written;
        let taken = state.take(cx, batch);
        if state.waiting > 0 && (written > 0 || taken.is_ready()) {
            drop(state);
            self.moved.notify_waiters();
        }
        taken
    }

    /// The batch has arrived, though nothing more is taken yet.
    pub(crate) fn wrote(&self, batch: &mut Batch) {
        let mut state = self.lock();
        state.written += std::mem::take(&mut batch.frames);
        if state.waiting > 0 {
            drop(state);
            self.moved.notify_waiters();
        }
    }
}

/// Counts one who waits, also when the waiting is given up.
struct Waiting<'a> {
    outbox: &'a Outbox,
    counted: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.outbox.lock().waiting -= 1;
        }
    }
}

impl State {
    /// Why nothing can be taken now, if nothing can.
    fn refusal(&self, bound: Bound) -> Option<Offer> {
        if let Some(why) = &self.ended {
            return Some(Offer::Ended(why.clone()));
        }
        if self.closing {
            return Some(Offer::Ended(CLOSED_BY_US.into()));
        }
        (self.buf.len() >= bound.bytes || self.frames >= bound.frames).then_some(Offer::Full)
    }

    fn push_lines(&mut self, lines: &mut Lines<'_>, framing: Framing, counted: bool) {
        let bytes = match lines {
            Lines::Borrowed(bytes) => *bytes,
            Lines::Owned(bytes) => &bytes[..],
        };
        if framing != Framing::Lines {
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let ended = line.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line));
                match (framing, ended) {
                    (Framing::Messages, Some(line)) => self.push(line, false, framing),
                    _ => self.push(line, false, framing),
                }
            }
        } else {
            if let Some(recorder) = &mut self.recorder {
                recorder.sent_lines(Instant::now(), bytes);
            }
            let frames = if counted { memchr::memchr_iter(b'\n', bytes).count() } else { 1 };
            self.frames += frames.max(1);
            self.accepted += frames.max(1) as u64;
            match lines {
                Lines::Owned(bytes) if self.buf.is_empty() => std::mem::swap(&mut self.buf, bytes),
                Lines::Owned(bytes) => self.buf.extend_from_slice(bytes),
                Lines::Borrowed(bytes) => self.buf.extend_from_slice(bytes),
            }
        }
        if let Lines::Owned(bytes) = lines {
            bytes.clear();
        }
    }

    fn take(&mut self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<Option<()>> {
        if self.frames > 0 {
            std::mem::swap(&mut self.buf, &mut batch.buf);
            std::mem::swap(&mut self.lengths, &mut batch.lengths);
            batch.frames = std::mem::take(&mut self.frames) as u64;
            return Poll::Ready(Some(()));
        }
        if self.closing || self.ended.is_some() {
            return Poll::Ready(None);
        }
        match &mut self.writer {
            Some(waker) => waker.clone_from(cx.waker()),
            empty => *empty = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn push(&mut self, frame: &[u8], newline: bool, framing: Framing) {
        let newline = newline && framing != Framing::Messages;
        if let Some(recorder) = &mut self.recorder {
            match framing {
                Framing::Messages => recorder.sent_message(Instant::now(), frame),
                Framing::Lines | Framing::LinesOneByOne => recorder.sent(Instant::now(), frame, newline),
            }
        }
        self.buf.reserve(frame.len() + usize::from(newline));
        self.buf.extend_from_slice(frame);
        if newline {
            self.buf.push(b'\n');
        }
        if framing != Framing::Lines {
            self.lengths.push_back(frame.len() + usize::from(newline));
        }
        self.frames += 1;
        self.accepted += 1;
    }
}
