//! One publisher per session: it numbers what happens, writes it to the spool, and sends it in order with a window of
//! unacknowledged messages.
//!
//! ```text
//!            sync ok                first ack               window empty and PROOF_AGE gone,
//! Unclaimed ─────────► Probing ───────────────► Streaming ──────────or MAX_UNPROVED gone──────────► Probing
//!     ▲                   │                          │
//!     └── connection lost ┴──────────────────────────┘        someone else's event is the last ──► Fenced
//!                                                             an event is larger than NATS takes ──► Fenced
//! ```
//!
//! Probing sends one message with the sequence that the subject must have, and waits for its acknowledgement: a second
//! proxy on the same session is found out before anything more is sent.
//!
//! NATS and the spool's disk have pauses of their own, because what NATS takes makes room on the disk: neither may wait
//! for the other.

mod flight;
mod intake;
mod takeover;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use acp_relay::Gate;
use tokio::sync::{mpsc, oneshot, watch};

use super::claim::Ended;
use super::connect::ConnectionState;
use super::hub::Shared;
use super::spool::{Left, Line, Read, Spool};
use super::subject::token;
use crate::aggregate::Aggregator;
use acp_proxy::event::{Body, TurnEnd};
use flight::{Answer, Flight};
use intake::Batch;
use tracing::Level;

/// A proof that the session is still our own holds so long; then the next one is due when nothing is on its way.
const PROOF_AGE: Duration = Duration::from_millis(10);
/// So long a publisher may go on without a proof while its window never runs empty.
const MAX_UNPROVED: Duration = Duration::from_secs(1);
/// Bytes that are held in memory for one session; the rest waits on disk.
const MAX_MEMORY_BYTES: usize = 2 * 1024 * 1024;
/// The pause after a failed look at the stream.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Something that happened, on its way to the publisher.
pub(super) struct PublisherItem {
    pub(super) at: Instant,
    pub(super) what: PublisherInput,
    pub(super) gate: Option<Arc<Gate>>,
}

pub(super) enum PublisherInput {
    Body(Body),
    /// Turns from here on are this task's.
    Task {
        id: String,
        trace: Option<Arc<str>>,
        ended: oneshot::Sender<Ended>,
    },
    /// If a turn that was told of has not ended, it never will.
    GiveUp(String),
    /// Another conversation has the session: how a turn that was told of ends is not seen here.
    Taken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unclaimed,
    Probing,
    Streaming,
    Fenced,
}

pub(super) struct Publisher {
    shared: Arc<Shared>,
    session: Arc<str>,
    subject: String,
    epoch: u64,
    seq: u64,
    /// When the last event was, in milliseconds since 1970.
    at: u64,
    aggregator: Aggregator,
    spool: Spool,
    /// Numbered and not known to be stored; the first `flight.len()` of them are sent.
    pending: VecDeque<Line>,
    held: usize,
    flight: Flight,
    state: State,
    /// Whether anything of this epoch is stored.
    claimed: bool,
    /// The stream's sequence of the last event of the session that is known to be stored.
    last: u64,
    /// Whether something of this epoch may be stored though nobody knows of it.
    tried: bool,
    /// Whether the events are another process's, which a crash has left.
    resumed: bool,
    /// Whether it is known where in the stream the events stand.
    placed: bool,
    /// Everything up to this number was found in the stream; what the spool still has of it is not sent again.
    found: u64,
    /// Which connection this is.
    connection: u64,
    proved: Instant,
    /// NATS has failed: it is not asked again before.
    retry: Option<Instant>,
    /// The disk has failed: it is not tried again before. What NATS takes meanwhile is what makes room on it.
    disk: Option<Instant>,
    task: Option<(String, Option<Arc<str>>)>,
    waiter: Option<oneshot::Sender<Ended>>,
    /// Whether the turn that is waited for has begun: the agent may have its prompt.
    begun: bool,
    /// Ends of turns that are not stored yet, by their number.
    ends: VecDeque<(u64, oneshot::Sender<Ended>, TurnEnd)>,
    closed: bool,
    standing: watch::Receiver<ConnectionState>,
    /// Numbered, but there is no room for it: not on disk, and not in memory because others come first.
    unwritten: VecDeque<Batch>,
    /// How many events are numbered and not known to be stored.
    unstored: u64,
    said_full: bool,
}

impl Publisher {
    pub(super) fn new(
        shared: Arc<Shared>,
        session: Arc<str>,
        epoch: u64,
        standing: watch::Receiver<ConnectionState>,
    ) -> Publisher {
        let spool = Spool::new(&shared.spool, &session, epoch);
        let subject = shared.subjects.event(&session);
        let id_prefix = format!("{}:{epoch}:", token(&session));
        Publisher {
            flight: Flight::new(shared.client.clone(), subject.clone(), id_prefix),
            subject,
            aggregator: Aggregator::new(shared.limits),
            shared,
            session,
            epoch,
            seq: 0,
            at: 0,
            spool,
            pending: VecDeque::new(),
            held: 0,
            state: State::Unclaimed,
            claimed: false,
            last: 0,
            tried: false,
            resumed: false,
            placed: false,
            found: 0,
            connection: 0,
            proved: Instant::now(),
            retry: None,
            disk: None,
            task: None,
            waiter: None,
            begun: false,
            ends: VecDeque::new(),
            closed: false,
            standing,
            unwritten: VecDeque::new(),
            unstored: 0,
            said_full: false,
        }
    }

    /// Goes on with what a crash has left: these events have their numbers, and lie in the spool.
    pub(super) fn resume(&mut self, left: &Left) {
        self.claimed = left.first > 1;
        self.resumed = true;
        self.seq = left.last;
        self.spool.adopt(left);
        self.count(left.count);
    }

    /// Sends what there is and returns when all of it is stored, or never can be.
    pub(super) async fn drain(&mut self, stop: &mut watch::Receiver<bool>) -> bool {
        while (!self.pending.is_empty() || self.spool.has_more()) && self.state != State::Fenced {
            self.step(None).await;
            if *stop.borrow_and_update() {
                return false;
            }
        }
        self.state != State::Fenced
    }

    /// Works until the session is closed and all of it is stored, and `leave` agrees.
    pub(super) async fn run(
        mut self,
        mut inbox: mpsc::UnboundedReceiver<PublisherItem>,
        leave: impl Fn(&mut mpsc::UnboundedReceiver<PublisherItem>) -> bool,
    ) {
        loop {
            self.step(Some(&mut inbox)).await;
            let idle = self.pending.is_empty()
                && self.unwritten.is_empty()
                && self.aggregator.next_deadline().is_none()
                && inbox.is_empty();
            // Somebody may still have to be told that a turn never ends.
            let awaited = self.waiter.as_ref().is_some_and(|waiter| !waiter.is_closed());
            let over = idle && !awaited && !self.spool.has_more() || self.state == State::Fenced;
            if (self.closed || inbox.is_closed()) && over && leave(&mut inbox) {
                break;
            }
        }
        match self.state {
            State::Fenced => drop(self.spool.put_aside()),
            _ => self.spool.remove(),
        }
    }

    /// Waits for one thing and does it.
    async fn step(&mut self, inbox: Option<&mut mpsc::UnboundedReceiver<PublisherItem>>) {
        let ConnectionState { up, turn, .. } = *self.standing.borrow_and_update();
        // The connection may have come back before anybody looked.
        let another = std::mem::replace(&mut self.connection, turn) != turn;
        if (!up || another) && self.state != State::Fenced {
            self.unclaim();
        }
        if self.refill() {
            // Whoever called looks whether that was all.
            return tokio::task::yield_now().await;
        }
        self.write_again();
        if up && self.state == State::Unclaimed && !self.pending.is_empty() && self.retry.is_none() {
            // It may turn out that everything is stored: whoever called looks before anything is waited for. Nobody
            // waits for an answer over a connection that is gone.
            let mut standing = self.standing.clone();
            return tokio::select! {
                biased;
                () = lost(&mut standing) => {}
                () = self.sync() => {}
            };
        }
        if up && self.state != State::Fenced {
            self.send().await;
            if self.state == State::Fenced {
                return;
            }
        }
        let deadline = self.aggregator.next_deadline().map(|at| self.shared.began + at);
        let (room, retry, disk) = (self.room(up), self.retry, self.disk);
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            answer = self.flight.answer(self.pending.front().map(|line| line.seq)) => self.answered(answer),
            changed = self.standing.changed() => if changed.is_err() { tokio::time::sleep(RETRY_PAUSE).await },
            () = until(retry) => self.retry = None,
            () = until(disk) => self.disk = None,
            () = until(deadline) => self.tick(),
            () = abandoned(self.waiter.as_mut()), if self.closed => self.waiter = None,
            count = receive(inbox, &mut batch), if room => {
                if count == 0 {
                    self.closed = true;
                }
                self.take(batch);
            }
        }
    }

    /// Whether more may be taken. While the connection stands the window is the measure, and the agent waits; while it
    /// does not, the spool is.
    fn room(&self, up: bool) -> bool {
        match self.state {
            State::Fenced => true,
            _ if !self.unwritten.is_empty() => false,
            _ if up => {
                self.pending.len() < 2 * self.shared.window
                    && self.held < MAX_MEMORY_BYTES
                    && !self.spool.has_more()
            }
            _ => self.spool.bytes() < self.shared.spool_limit,
        }
    }

    /// The connection is gone: what was sent may be stored or not.
    fn unclaim(&mut self) {
        self.flight.give_up();
        self.state = State::Unclaimed;
    }

    /// Sends as much as the window takes.
    async fn send(&mut self) {
        loop {
            match self.state {
                State::Unclaimed | State::Fenced => return,
                State::Probing if !self.flight.is_empty() => return,
                State::Probing => {}
                State::Streaming if self.proof_is_due() => {
                    if !self.flight.is_empty() || self.pending.is_empty() {
                        return;
                    }
                    self.state = State::Probing;
                }
                State::Streaming => {}
            }
            let Some(line) = self.pending.get(self.flight.len()) else { return };
            if self.flight.len() >= self.shared.window {
                return;
            }
            if line.payload.len() > self.shared.most() {
                // First it has to be known what became of those before it.
                if self.flight.is_empty() {
                    let (size, most) = (line.payload.len(), self.shared.most());
                    let words = format!(
                        "an event of session {:?} has {size} bytes, more than the {most} that NATS takes (max_payload)",
                        self.session
                    );
                    self.put_aside(&words);
                }
                return;
            }
            let after = (self.state == State::Probing).then_some(self.last);
            self.tried = true;
            let sent = tokio::select! {
                biased;
                sent = self.flight.send(line, after) => sent,
                () = lost(&mut self.standing) => return self.unclaim(),
            };
            if let Err(error) = sent {
                self.shared.say_once(Level::WARN, &format!("cannot send an event: {error}; trying again"));
                self.unclaim();
                self.retry = Some(Instant::now() + RETRY_PAUSE);
                return;
            }
        }
    }

    fn proof_is_due(&self) -> bool {
        let age = self.proved.elapsed();
        age > MAX_UNPROVED || self.flight.is_empty() && age > PROOF_AGE
    }

    fn answered(&mut self, answer: Answer) {
        self.settle(answer);
        // Acknowledgements come in bursts.
        while let Some(answer) = self.flight.answered(self.pending.front().map(|line| line.seq)) {
            self.settle(answer);
        }
        if self.pending.is_empty() || self.state != State::Streaming || self.flight.is_empty() {
            self.release();
        }
    }

    fn settle(&mut self, answer: Answer) {
        match answer {
            Answer::Stored(sequence) => {
                self.last = sequence;
                self.claimed = true;
                if self.state == State::Probing {
                    self.state = State::Streaming;
                    self.proved = Instant::now();
                }
                self.shared.counts.stored.fetch_add(1, Ordering::Relaxed);
                if let Some(line) = self.pending.front() {
                    let seq = line.seq;
                    self.forget(seq);
                }
            }
            // What is stored decides.
            Answer::Taken => self.unclaim(),
            Answer::Failed(why) => {
                self.shared.say_once(Level::WARN, &format!("an event was not stored: {why}; trying again"));
                self.shared.look_after_streams();
                self.retry = Some(Instant::now() + RETRY_PAUSE);
                self.unclaim();
            }
        }
    }

    /// Everything up to `seq` was found in the stream.
    fn stored(&mut self, seq: u64) {
        self.found = seq;
        self.forget(seq);
        self.release();
    }

    fn forget(&mut self, seq: u64) {
        while let Some(line) = self.pending.pop_front_if(|line| line.seq <= seq) {
            self.held -= line.payload.len();
            self.discount(1);
        }
        while let Some((_, waiter, end)) = self.ends.pop_front_if(|(number, _, _)| *number <= seq) {
            let _ = waiter.send(Ended::Stored(end));
        }
    }

    /// Lets the spool go of what is stored.
    fn release(&mut self) {
        let first = self.pending.front().map_or(self.seq + 1, |line| line.seq);
        if !self.spool.has_more() || !self.pending.is_empty() {
            self.spool.stored(first - 1);
        }
    }

    /// So many events no longer wait.
    fn discount(&mut self, less: u64) {
        // A file that somebody has written to may have any number of lines.
        let less = less.min(self.unstored);
        self.unstored -= less;
        self.shared.counts.waiting.fetch_sub(less, Ordering::Relaxed);
    }

    /// Takes back from the spool what did not fit into memory. True when it was read and none of it has to be sent.
    fn refill(&mut self) -> bool {
        let full = self.pending.len() >= self.shared.window || self.held >= MAX_MEMORY_BYTES;
        if full || self.disk.is_some() || !self.spool.has_more() {
            return false;
        }
        let Read { mut lines, unread } = match self.spool.more(MAX_MEMORY_BYTES / 2) {
            Ok(read) => read,
            Err(error) => {
                self.shared.say_once(Level::ERROR, &format!("cannot read the spool again: {error}"));
                self.disk = Some(Instant::now() + RETRY_PAUSE);
                return false;
            }
        };
        let read = lines.len();
        lines.retain(|line| line.seq > self.found);
        self.discount((read - lines.len()) as u64 + unread);
        if unread > 0 {
            let words = format!(
                "{unread} lines of session {:?} in the spool in {} are no events and cannot be sent; the file is kept as *.unread",
                self.session,
                self.shared.spool.display()
            );
            self.shared.say(Level::ERROR, &words);
        }
        self.held += lines.iter().map(|line| line.payload.len()).sum::<usize>();
        self.pending.extend(lines);
        self.pending.is_empty()
    }
}

/// Waits until nobody wants to know how the turn ends.
async fn abandoned(waiter: Option<&mut oneshot::Sender<Ended>>) {
    match waiter {
        Some(waiter) => waiter.closed().await,
        None => std::future::pending().await,
    }
}

/// Waits until the connection is gone.
async fn lost(standing: &mut watch::Receiver<ConnectionState>) {
    if standing.wait_for(|standing| !standing.up).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

async fn receive(
    inbox: Option<&mut mpsc::UnboundedReceiver<PublisherItem>>,
    batch: &mut Vec<PublisherItem>,
) -> usize {
    match inbox {
        Some(inbox) => inbox.recv_many(batch, 256).await,
        None => std::future::pending().await,
    }
}
