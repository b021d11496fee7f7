//! The sending half of a link.

use std::sync::Arc;
use std::time::Duration;

use crate::outbox::{Framing, Lines, Offer, Outbox};

/// How often it is looked whether the other side has read.
pub const GLANCE: Duration = Duration::from_millis(1);

/// Sends frames. Clones share one bounded queue; when the last one is dropped, the output ends as after
/// [`close`](Sender::close).
#[derive(Clone, Debug)]
pub struct Sender {
    handle: Arc<Handle>,
}

/// The other side can no longer be written to.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("cannot send: {why}")]
pub struct LinkClosed {
    /// What ended the output, in plain words.
    pub why: Arc<str>,
}

/// What [`Sender::try_send`] says when it did not take the frame.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TrySendError {
    /// The queue is full: wait for [`Sender::ready`], and keep receiving meanwhile.
    #[error("cannot send now: the queue is full because the other side reads too slowly")]
    Full,
    /// The output has ended.
    #[error(transparent)]
    Closed(#[from] LinkClosed),
}

#[derive(Debug)]
struct Handle {
    outbox: Arc<Outbox>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

impl Sender {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Sender {
        Sender { handle: Arc::new(Handle { outbox }) }
    }

    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.handle.outbox
    }

    /// Queues one line (without its newline) and waits only while the queue is full.
    ///
    /// A loop that both receives and sends should not wait here between two receives: when both sides burst,
    /// each would wait for the other to read. Make [`ready`](Sender::ready) an arm of its `select!` instead.
    pub async fn send(&self, line: impl AsRef<[u8]>) -> Result<(), LinkClosed> {
        self.put(line.as_ref(), true).await
    }

    /// Queues bytes exactly as they are: nothing is added, no newline either. On a WebSocket they are one message
    /// (a binary one if they are not UTF-8).
    pub async fn send_raw(&self, bytes: impl AsRef<[u8]>) -> Result<(), LinkClosed> {
        self.put(bytes.as_ref(), false).await
    }

    /// Like [`send`](Sender::send), but never waits.
    pub fn try_send(&self, line: &[u8]) -> Result<(), TrySendError> {
        came_of(self.outbox().offer(line, true))
    }

    /// Queues whole lines, each with its line ending, as they are and all at once; never waits. Where frames are
    /// messages, each line is one, without its line ending.
    pub fn try_send_lines(&self, lines: &[u8]) -> Result<(), TrySendError> {
        came_of(self.outbox().offer_lines(&mut Lines::Borrowed(lines)))
    }

    /// Like [`try_send_lines`](Sender::try_send_lines), and takes the buffer over instead of copying it where it can.
    /// It is empty afterwards, unless nothing was taken.
    pub fn try_hand_over(&self, lines: &mut Vec<u8>) -> Result<(), TrySendError> {
        came_of(self.outbox().offer_lines(&mut Lines::Owned(lines)))
    }

    /// Whether each frame is a message of its own, in which a newline is like any other byte.
    #[must_use]
    pub fn sends_messages(&self) -> bool {
        self.outbox().framing() == Framing::Messages
    }

    /// Waits until the queue has room (which another clone may use first).
    pub async fn ready(&self) -> Result<(), LinkClosed> {
        self.outbox().ready().await.map_err(|why| LinkClosed { why })
    }

    /// Waits until all that was queued so far has been handed to the operating system.
    pub async fn flush(&self) -> Result<(), LinkClosed> {
        self.outbox().flush().await.map_err(|why| LinkClosed { why })
    }

    /// Whether the other side has read all that was handed to the operating system, or never will because it has closed
    /// its end; `None` where that cannot be known.
    /// It can on own standard output, when that is a pipe or a local socket.
    #[must_use]
    pub fn is_read(&self) -> Option<bool> {
        self.outbox().is_read()
    }

    /// Waits until the other side has read all that was queued so far, for peers that take one read for one message.
    /// Where that cannot be known, rests for a while after it was written. One that does not read is waited for without
    /// end: go on receiving meanwhile.
    pub async fn drained(&self, rest: Duration) -> Result<(), LinkClosed> {
        self.flush().await?;
        loop {
            match self.is_read() {
                Some(true) => return Ok(()),
                Some(false) => tokio::time::sleep(GLANCE).await,
                None => {
                    tokio::time::sleep(rest).await;
                    return Ok(());
                }
            }
        }
    }

    /// Ends the output after what is queued: the other side sees the end of its input.
    pub fn close(&self) {
        self.outbox().close();
    }

    /// [`close`](Sender::close), then waits until everything queued is written and the output has ended.
    /// Programs call this before they exit.
    pub async fn finish(&self) -> Result<(), LinkClosed> {
        self.close();
        let flushed = self.flush().await;
        self.outbox().ended().await;
        flushed
    }

    async fn put(&self, bytes: &[u8], newline: bool) -> Result<(), LinkClosed> {
        self.outbox().put(bytes, newline).await.map_err(|why| LinkClosed { why })
    }
}

fn came_of(offer: Offer) -> Result<(), TrySendError> {
    match offer {
        Offer::Taken => Ok(()),
        Offer::Full => Err(TrySendError::Full),
        Offer::Ended(why) => Err(LinkClosed { why }.into()),
    }
}
