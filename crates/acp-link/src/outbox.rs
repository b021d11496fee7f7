//! What waits to be written: one bounded buffer per link, filled by every [`Sender`](crate::Sender) clone and
//! emptied as a whole by its writer, so that a burst of frames costs one system call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use tokio::sync::Notify;

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
}

#[derive(Debug)]
struct State {
    buf: BytesMut,
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
    pub(crate) buf: BytesMut,
    pub(crate) lengths: VecDeque<usize>,
    frames: u64,
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
                buf: BytesMut::new(),
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
            if let Some(why) = &state.ended {
                return Offer::Ended(why.clone());
            }
            if state.closing {
                return Offer::Ended(CLOSED_BY_US.into());
            }
            if state.buf.len() >= self.bound.bytes || state.frames >= self.bound.frames {
                return Offer::Full;
            }
            state.push(frame, newline, self.framing);
            state.writer.take()
        };
        if let Some(writer) = wake {
            writer.wake();
        }
        Offer::Taken
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
        self.until(|state, bound| {
            if let Some(why) = &state.ended {
                return Some(Err(why.clone()));
            }
            if state.closing {
                return Some(Err(CLOSED_BY_US.into()));
            }
            (state.buf.len() < bound.bytes && state.frames < bound.frames).then_some(Ok(()))
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
            state.buf = BytesMut::new();
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
            batch.buf = BytesMut::new();
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
        self.buf.put_slice(frame);
        if newline {
            self.buf.put_u8(b'\n');
        }
        if framing != Framing::Lines {
            self.lengths.push_back(frame.len() + usize::from(newline));
        }
        self.frames += 1;
        self.accepted += 1;
    }
}
