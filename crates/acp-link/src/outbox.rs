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
        loop {
            let moved = self.moved.notified();
            if let Some(value) = check(&self.lock(), self.bound) {
                return value;
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

    /// Swaps everything that waits into the (empty) batch. `None`: closed and empty.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<Option<()>> {
        {
            let mut state = self.lock();
            if state.frames == 0 {
                if state.closing || state.ended.is_some() {
                    return Poll::Ready(None);
                }
                match &mut state.writer {
                    Some(waker) => waker.clone_from(cx.waker()),
                    empty => *empty = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
            if batch.buf.capacity() > KEEP_CAPACITY {
                batch.buf = BytesMut::new();
            }
            std::mem::swap(&mut state.buf, &mut batch.buf);
            std::mem::swap(&mut state.lengths, &mut batch.lengths);
            batch.frames = std::mem::take(&mut state.frames) as u64;
        }
        self.moved.notify_waiters();
        Poll::Ready(Some(()))
    }

    /// The batch has been written: empties it and lets `flush` return.
    pub(crate) fn wrote(&self, batch: &mut Batch) {
        batch.buf.clear();
        batch.lengths.clear();
        self.lock().written += std::mem::take(&mut batch.frames);
        self.moved.notify_waiters();
    }
}

impl State {
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
