//! Observers of a conversation between a client and an agent: a journal, a judge, counters, NATS.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use acp_dialect::{Note, Side};
use acp_rpc::Frame;
use bytes::Bytes;

use crate::gate::Gate;
use crate::relay::RelayEnd;

/// What an observer had to record is not recorded: nothing may be passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecordError(String);

impl RecordError {
    /// For this reason.
    pub fn new(reason: impl std::fmt::Display) -> RecordError {
        RecordError(reason.to_string())
    }
}

/// Observes one conversation. Methods are called in the order in which things happen, and must not block: an observer
/// that cannot follow closes its [`gate`](Observer::gate).
pub trait Observer: Send {
    /// What this observer looks at. Lines that nobody wants as frames are not even parsed.
    fn interest(&self) -> Interest {
        Interest::default()
    }

    /// Whole lines of one side, in its own form, a read at a time, before anything is done with them. A WebSocket
    /// message, or a last line without its line ending, comes alone and without one. An error ends the conversation, and
    /// the lines are not passed on.
    fn lines(&mut self, from: Side, at: Instant, lines: &Bytes) -> Result<(), RecordError> {
        let _ = (from, at, lines);
        Ok(())
    }

    /// One frame in its canonical form, and the side that sent it.
    fn frame(&mut self, from: Side, at: Instant, frame: &Frame) {
        let _ = (from, at, frame);
    }

    /// A step of a translation that is more than renaming, and the side whose form it is about.
    fn note(&mut self, side: Side, note: &Note) {
        let _ = (side, note);
    }

    /// A frame that we sent to a side in the other one's place, and why: an error for a request that will not be
    /// answered, a cancel.
    fn spoke(&mut self, to: Side, frame: &Frame, why: &str) {
        let _ = (to, frame, why);
    }

    /// A request that was answered or changed on its way. An error ends the conversation before anything goes out.
    fn decided(&mut self, decision: &Decision<'_>) -> Result<(), RecordError> {
        let _ = decision;
        Ok(())
    }

    /// Nothing passes any more, and why; `None` when we were told to stop.
    fn over(&mut self, ended: Option<&RelayEnd>) {
        let _ = ended;
    }

    /// Both sides are gone; `outcome` says in words how it ended.
    fn closed(&mut self, outcome: &str) {
        let _ = outcome;
    }

    /// While this is closed, the agent is not read.
    fn gate(&self) -> Option<Arc<Gate>> {
        None
    }
}

/// Which of the frequent calls an [`Observer`] wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// [`Observer::lines`].
    pub lines: bool,
    /// [`Observer::frame`].
    pub frames: bool,
}

/// What became of a request that was not just passed on.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// When.
    pub at: Instant,
    /// Who sent the request.
    pub from: Side,
    /// The request as it came.
    pub request: &'a Frame,
    /// The answer that its sender gets; for a changed request, what is passed on instead.
    pub answer: &'a Frame,
    /// One word for records.
    pub verdict: &'a str,
    /// Which rule or setting decided.
    pub reason: &'a str,
    /// How many lines of the agent had been passed on before.
    pub passed: u64,
}

/// The observers of one conversation, in the order in which they are called. Clones share them.
#[derive(Clone, Default)]
pub struct Observers {
    all: Arc<[Observing]>,
    interest: Interest,
    gate: Option<Arc<Gate>>,
}

struct Observing {
    interest: Interest,
    observer: Mutex<Box<dyn Observer>>,
}

impl Observing {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Observer>> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observers {
    /// These, in this order. The first gate among them holds the agent back.
    #[must_use]
    pub fn new(observers: Vec<Box<dyn Observer>>) -> Observers {
        let gate = observers.iter().find_map(|observer| observer.gate());
        let all: Arc<[Observing]> = observers
            .into_iter()
            .map(|observer| Observing { interest: observer.interest(), observer: Mutex::new(observer) })
            .collect();
        let interest = Interest {
            lines: all.iter().any(|one| one.interest.lines),
            frames: all.iter().any(|one| one.interest.frames),
        };
        Observers { all, interest, gate }
    }

    /// One that is told of translations only.
    pub fn of_notes(note: impl FnMut(Side, &Note) + Send + 'static) -> Observers {
        Observers::new(vec![Box::new(Notes(note))])
    }

    /// The same observers for a place where frames are not observed, because they are observed elsewhere.
    #[must_use]
    pub fn without_frames(&self) -> Observers {
        let interest = Interest { frames: false, ..self.interest };
        Observers { all: self.all.clone(), interest, gate: None }
    }

    /// What is to be shown here.
    #[must_use]
    pub fn interest(&self) -> Interest {
        self.interest
    }

    /// While this is closed, the agent is not read.
    #[must_use]
    pub fn gate(&self) -> Option<&Arc<Gate>> {
        self.gate.as_ref()
    }

    /// See [`Observer::lines`]. The first error counts.
    pub fn lines(&self, from: Side, at: Instant, lines: &Bytes) -> Result<(), RecordError> {
        if !self.interest.lines {
            return Ok(());
        }
        self.all.iter().filter(|one| one.interest.lines).try_for_each(|one| one.lock().lines(from, at, lines))
    }

    /// See [`Observer::frame`].
    pub fn frame(&self, from: Side, at: Instant, frame: &Frame) {
        if self.interest.frames {
            self.all
                .iter()
                .filter(|one| one.interest.frames)
                .for_each(|one| one.lock().frame(from, at, frame));
        }
    }

    /// See [`Observer::note`].
    pub fn note(&self, side: Side, note: &Note) {
        self.all.iter().for_each(|one| one.lock().note(side, note));
    }

    /// See [`Observer::spoke`].
    pub fn spoke(&self, to: Side, frame: &Frame, why: &str) {
        self.all.iter().for_each(|one| one.lock().spoke(to, frame, why));
    }

    /// See [`Observer::decided`]. Those after one that fails are not told.
    pub fn decided(&self, decision: &Decision<'_>) -> Result<(), RecordError> {
        self.all.iter().try_for_each(|one| one.lock().decided(decision))
    }

    /// See [`Observer::over`].
    pub fn over(&self, ended: Option<&RelayEnd>) {
        self.all.iter().for_each(|one| one.lock().over(ended));
    }

    /// See [`Observer::closed`].
    pub fn closed(&self, outcome: &str) {
        self.all.iter().for_each(|one| one.lock().closed(outcome));
    }
}

impl std::fmt::Debug for Observers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observers").field("count", &self.all.len()).field("interest", &self.interest).finish()
    }
}

struct Notes<F>(F);

impl<F: FnMut(Side, &Note) + Send> Observer for Notes<F> {
    fn note(&mut self, side: Side, note: &Note) {
        (self.0)(side, note);
    }
}
