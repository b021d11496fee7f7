//! Hands a machine's output to the link, one piece at a time.

use std::time::{Duration, Instant};

use acp_link::{LinkClosed, Sender, TrySendError};
use acp_rpc::Frame;
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::time::timeout_at;

use crate::machine::{Machine, Output};

/// How many outputs are taken before the other side, events and the clock have their turn.
pub(crate) const BURST: usize = 256;

/// The rest after each line to a peer that takes one read for one message, where it cannot be seen that it read.
const PACE: Duration = Duration::from_millis(2);

/// How long such a peer may take to read a line after it has ended its output: it may be waiting for our end.
const LAST_READ: Duration = Duration::from_secs(2);

/// What the machine is waiting for, once it has been asked for output.
pub(crate) enum Progress<E> {
    /// Nothing to do.
    Idle,
    /// There is more, but others must have their turn.
    More,
    /// An event must happen first.
    Blocked,
    /// The link must take what waits.
    Writing,
    /// It is over.
    Over(E),
}

/// What has been taken from the machine and not been written.
enum Pending {
    Frame(Frame),
    Line(Bytes),
    Raw(Bytes),
}

/// What must happen before the next write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// The last line must be read.
    Read,
    /// What was queued must be written.
    Flush,
}

/// The writing half of a driven connection.
pub(crate) struct Writer {
    pending: Option<Pending>,
    before: Before,
    /// Whether the link has no room for what is pending.
    full: bool,
    /// Whether it had none before.
    has_waited: bool,
    /// With the input ended: until when the last line may be read.
    last_read: Option<Instant>,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer { pending: None, before: Before::Nothing, full: false, has_waited: false, last_read: None }
    }

    /// The input has ended: from now on a peer that does not read is not waited for any longer.
    pub(crate) fn input_ended(&mut self) {
        self.last_read = Some(Instant::now() + LAST_READ);
    }

    /// Writes what the machine says until it has nothing more, the link is full, or others must have their turn.
    pub(crate) fn advance<M: Machine>(&mut self, machine: &mut M, tx: &Sender) -> Progress<M::Ending> {
        for _ in 0..BURST {
            if self.pending.is_some() {
                match self.write(tx, machine.is_one_by_one()) {
                    Ok(true) => {}
                    Ok(false) => return Progress::Writing,
                    Err(closed) => {
                        self.pending = None;
                        let has_waited = std::mem::take(&mut self.has_waited);
                        if let Some(ending) = machine.unwritable(closed, has_waited) {
                            return Progress::Over(ending);
                        }
                    }
                }
            }
            self.pending = match machine.poll() {
                Output::Frame(frame) => Some(Pending::Frame(frame)),
                Output::Line(line) => Some(Pending::Line(line)),
                Output::Raw(bytes) => Some(Pending::Raw(bytes)),
                Output::Done => None,
                Output::Idle => return Progress::Idle,
                Output::Blocked => return Progress::Blocked,
                Output::End(ending) => return Progress::Over(ending),
            };
        }
        Progress::More
    }

    /// Waits until [`advance`](Writer::advance) can write again. Cancel safe.
    pub(crate) async fn writable(&mut self, tx: &Sender) {
        if self.full {
            // A link that has ended says so to the next write.
            let _ = tx.ready().await;
            self.full = false;
            return;
        }
        match self.before {
            Before::Nothing => {}
            Before::Flush => {
                let _ = tx.flush().await;
            }
            Before::Read => match self.last_read {
                None => {
                    let _ = tx.drained(PACE).await;
                }
                Some(until) => {
                    if timeout_at(until.into(), tx.drained(PACE)).await.is_ok() {
                        self.input_ended();
                    }
                }
            },
        }
        self.before = Before::Nothing;
    }

    /// Hands over what is pending; false if it must wait.
    fn write(&mut self, tx: &Sender, is_one_by_one: bool) -> Result<bool, LinkClosed> {
        if self.before != Before::Nothing {
            return Ok(false);
        }
        let sent = match &self.pending {
            None => return Ok(true),
            Some(Pending::Frame(frame)) => tx.try_send(frame.raw()),
            Some(Pending::Line(line)) => tx.try_send(line),
            // Rare enough for a try that costs a future.
            Some(Pending::Raw(bytes)) => match tx.send_raw(bytes).now_or_never() {
                None => Err(TrySendError::Full),
                Some(sent) => sent.map_err(TrySendError::Closed),
            },
        };
        match sent {
            Ok(()) => self.has_waited = false,
            Err(TrySendError::Full) => {
                (self.full, self.has_waited) = (true, true);
                return Ok(false);
            }
            Err(TrySendError::Closed(closed)) => return Err(closed),
        }
        self.before = match self.pending.take() {
            Some(Pending::Raw(_)) => Before::Flush,
            _ if is_one_by_one => Before::Read,
            _ => Before::Nothing,
        };
        Ok(true)
    }
}
