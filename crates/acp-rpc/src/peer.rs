mod recent;
mod violation;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use acp_proto::method;
use serde::Serialize;

use crate::frame::Sort;
use crate::pending::{NotAdded, Pending};
use crate::scan::Scanner;
use crate::{Frame, Id, RpcError};
use recent::Recent;
pub use violation::Violation;

/// How much a peer remembers. A side that floods cannot make it remember more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerLimits {
    /// Requests of ours that wait for an answer.
    pub outstanding: usize,
    /// Requests of theirs that wait for ours.
    pub owed: usize,
    /// Settled ids, kept to tell a late or second answer from one that nobody asked for.
    pub remembered: usize,
    /// The longest id of theirs, in bytes.
    pub id_len: usize,
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self { outstanding: 65_536, owed: 65_536, remembered: 1024, id_len: 1024 }
    }
}

/// One end of a conversation: which answers it waits for, and which it owes.
///
/// It builds the frames to send and sorts the frames that came; moving them is the caller's business. Call
/// [`Peer::tick`] with the time before [`Peer::receive`] with the same time, and again at
/// [`Peer::next_deadline`].
///
/// It also holds what the caller has to remember about open requests: `Ours` for each of our own, given back with the
/// answer or when the time is up, and `Theirs` for each of theirs, until it is answered. A plain `Peer` holds nothing.
///
/// ```
/// use std::time::Duration;
/// use acp_rpc::{Frame, Peer, Received};
/// let mut peer = Peer::default();
/// let now = Duration::ZERO;
/// let (id, frame) = peer.request(now, "ping", &(), Some(Duration::from_secs(5)))?;
/// assert_eq!(frame.to_string(), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
///
/// let answer = Frame::response(&id, &"pong");
/// let Received::Answered { method, .. } = peer.receive(now, answer.clone()) else { panic!() };
/// assert_eq!(&*method, "ping");
/// let Received::Violation(violation, _) = peer.receive(now, answer) else { panic!() };
/// assert_eq!(violation.name(), "duplicate-response");
/// # Ok::<(), acp_rpc::RequestError>(())
/// ```
///
/// ```
/// # use std::time::Duration;
/// # use acp_rpc::{Frame, PeerLimits, Peer, Received};
/// let mut peer = Peer::<(), &str>::remembering(PeerLimits::default());
/// let (id, _) = peer.request_with(Duration::ZERO, "ping", &(), None, "for the status line").unwrap();
/// let answer = Frame::response(&id, &"pong");
/// let Received::Answered { ours, .. } = peer.receive(Duration::ZERO, answer) else { panic!() };
/// assert_eq!(ours, "for the status line");
/// ```
#[derive(Debug)]
pub struct Peer<Theirs = (), Ours = ()> {
    limits: PeerLimits,
    last_id: i64,
    outstanding: Pending<Outstanding<Ours>>,
    settled: Recent<Settled>,
    owed: Pending<Owed<Theirs>>,
    replied: Recent<()>,
    /// Deadlines, nearest first. An entry may outlive its request; it counts only while the request agrees.
    deadlines: BinaryHeap<Reverse<(Duration, Id)>>,
}

/// What an incoming frame means to this peer.
#[derive(Debug, Clone, PartialEq)]
pub enum Received<Ours = ()> {
    /// A request: answer it once, with [`Peer::respond`] or [`Peer::fail`].
    Asked {
        /// The id to answer.
        id: Id,
        /// The request.
        frame: Frame,
    },
    /// A notification.
    Notified {
        /// The notification.
        frame: Frame,
    },
    /// They take a request back with `$/cancel_request`. It still has to be answered.
    CancelAsked {
        /// Which request.
        id: Id,
        /// Whether the answer is still owed; if not, it was already sent or never asked for.
        owed: bool,
        /// The notification.
        frame: Frame,
    },
    /// The answer to a request of ours.
    Answered {
        /// The request's id.
        id: Id,
        /// The request's method.
        method: Box<str>,
        /// The answer.
        frame: Frame,
        /// What was remembered about the request.
        ours: Ours,
    },
    /// They broke a rule of JSON-RPC, or sent no frame at all.
    Violation(Violation, Frame),
    /// A batch, element by element.
    Batch(Vec<Received<Ours>>),
}

/// A request of ours that got no answer in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired<Ours = ()> {
    /// The request's id.
    pub id: Id,
    /// The request's method.
    pub method: Box<str>,
    /// When it was sent.
    pub sent: Duration,
    /// When the answer was due.
    pub deadline: Duration,
    /// What was remembered about it.
    pub ours: Ours,
}

/// A request of ours that cannot be sent; what was to be remembered about it is given back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotSent<Ours> {
    /// Why.
    pub why: RequestError,
    /// What was to be remembered.
    pub ours: Ours,
}

/// Why a request of ours cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The id is still waiting for its answer.
    #[error("cannot send a request: the id {0} is still waiting for its answer; use another id")]
    IdInUse(Id),
    /// Too many requests wait.
    #[error("cannot send a request: {0} are waiting for their answers already; wait for some")]
    TooMany(usize),
    /// The frame is no request, or its params could not be written.
    #[error("cannot send a request: {0}")]
    NotARequest(String),
}

/// Why an answer of ours cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The answer was sent before.
    #[error("cannot answer {0} again: a request is answered once")]
    AlreadyAnswered(Id),
    /// No such request came.
    #[error("cannot answer {0}: no such request is open")]
    NotOwed(Id),
    /// The result could not be written; the answer is still owed.
    #[error("cannot answer {0}: {1}")]
    NotSerializable(Id, String),
}

/// The id given to [`Peer::cancel`] has no open request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot cancel {0}: no such request of ours is open")]
pub struct NotOutstanding(pub Id);

#[derive(Debug)]
struct Outstanding<Ours> {
    method: Box<str>,
    sent: Duration,
    deadline: Option<Duration>,
    ours: Ours,
}

#[derive(Debug)]
struct Owed<Theirs> {
    since: Duration,
    theirs: Theirs,
}

/// How a request of ours ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    Answered,
    Expired,
}

impl Default for Peer {
    fn default() -> Self {
        Self::new(PeerLimits::default())
    }
}

impl Peer {
    /// A peer with its own bounds that remembers nothing for its caller.
    #[must_use]
    pub fn new(limits: PeerLimits) -> Self {
        Self::remembering(limits)
    }

    /// Builds a request under the next free integer id, to be answered within `timeout`.
    ///
    /// # Errors
    /// When too many requests wait, or the params cannot be written as JSON.
    pub fn request(
        &mut self,
        now: Duration,
        method: &str,
        params: &(impl Serialize + ?Sized),
        timeout: Option<Duration>,
    ) -> Result<(Id, Frame), RequestError> {
        self.request_with(now, method, params, timeout, ()).map_err(|not_sent| not_sent.why)
    }

    /// Remembers a request that was built elsewhere, under the id it carries. See [`Peer::sent_with`].
    ///
    /// # Errors
    /// When the id waits for an answer already, too many requests wait, or the frame has no id or no method.
    pub fn sent(
        &mut self,
        now: Duration,
        frame: &Frame,
        timeout: Option<Duration>,
    ) -> Result<(), RequestError> {
        self.sent_with(now, frame, timeout, ()).map_err(|not_sent| not_sent.why)
    }
}

impl<Theirs: Default, Ours> Peer<Theirs, Ours> {
    /// A peer that remembers `Ours` about each of our open requests and `Theirs` about each of theirs.
    #[must_use]
    pub fn remembering(limits: PeerLimits) -> Self {
        Self {
            limits,
            last_id: 0,
            outstanding: Pending::new(limits.outstanding),
            settled: Recent::default(),
            owed: Pending::new(limits.owed),
            replied: Recent::default(),
            deadlines: BinaryHeap::new(),
        }
    }

    /// Builds a request under the next free integer id, to be answered within `timeout`. `ours` comes back with its
    /// answer.
    ///
    /// # Errors
    /// When too many requests wait, or the params cannot be written as JSON.
    pub fn request_with(
        &mut self,
        now: Duration,
        method: &str,
        params: &(impl Serialize + ?Sized),
        timeout: Option<Duration>,
        ours: Ours,
    ) -> Result<(Id, Frame), NotSent<Ours>> {
        let mut id = Id::Int(self.last_id.wrapping_add(1));
        while self.outstanding.contains(&id) {
            self.last_id = self.last_id.wrapping_add(1);
            id = Id::Int(self.last_id.wrapping_add(1));
        }
        let frame = Frame::request(&id, method, params);
        self.sent_with(now, &frame, timeout, ours)?;
        self.last_id = self.last_id.wrapping_add(1);
        Ok((id, frame))
    }

    /// Remembers a request that was built elsewhere, under the id it carries. It may be flawed, as long as it has
    /// an id and a method: the answer to a bad request is worth waiting for.
    ///
    /// # Errors
    /// When the id waits for an answer already, too many requests wait, or the frame has no id or no method.
    pub fn sent_with(
        &mut self,
        now: Duration,
        frame: &Frame,
        timeout: Option<Duration>,
        ours: Ours,
    ) -> Result<(), NotSent<Ours>> {
        let (Some(id), Some(method)) = (frame.id(), frame.method()) else {
            let why =
                frame.flaw().map_or_else(|| "it has no id or no method".to_owned(), ToString::to_string);
            return Err(NotSent { why: RequestError::NotARequest(why), ours });
        };
        let deadline = timeout.and_then(|timeout| now.checked_add(timeout));
        let outstanding = Outstanding { method: method.into(), sent: now, deadline, ours };
        self.outstanding.add(id, outstanding).map_err(|not_added| match not_added {
            NotAdded::InUse(given) => NotSent { why: RequestError::IdInUse(id.clone()), ours: given.ours },
            NotAdded::Full(given) => {
                NotSent { why: RequestError::TooMany(self.limits.outstanding), ours: given.ours }
            }
        })?;
        if let Some(deadline) = deadline {
            self.drop_stale_deadlines();
            self.deadlines.push(Reverse((deadline, id.clone())));
        }
        Ok(())
    }

    /// Builds a notification.
    pub fn notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Frame {
        Frame::notification(method, params)
    }

    /// Builds the `$/cancel_request` for a request of ours. The answer is still awaited.
    ///
    /// # Errors
    /// When no such request of ours is open.
    pub fn cancel(&self, id: &Id) -> Result<Frame, NotOutstanding> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            request_id: &'a Id,
        }
        if !self.outstanding.contains(id) {
            return Err(NotOutstanding(id.clone()));
        }
        Ok(Frame::notification(method::CANCEL_REQUEST, &Params { request_id: id }))
    }

    /// Builds the answer to a request of theirs, once.
    ///
    /// # Errors
    /// When the request was answered before or never came.
    pub fn respond(&mut self, id: &Id, result: &(impl Serialize + ?Sized)) -> Result<Frame, ReplyError> {
        self.reply(id, |id| Frame::response(id, result))
    }

    /// Builds the refusal of a request of theirs, once.
    ///
    /// # Errors
    /// When the request was answered before or never came.
    pub fn fail(&mut self, id: &Id, error: &RpcError) -> Result<Frame, ReplyError> {
        self.reply(id, |id| Frame::failure(id, error))
    }

    /// Sorts an incoming frame. Constant time, whatever came before.
    pub fn receive(&mut self, now: Duration, frame: Frame) -> Received<Ours> {
        match frame.sort() {
            Sort::Notification if frame.method() != Some(method::CANCEL_REQUEST) => {
                Received::Notified { frame }
            }
            Sort::Notification => match frame.params().and_then(cancelled_id) {
                Some(id) => Received::CancelAsked { owed: self.owed.contains(&id), id, frame },
                None => Received::Violation(Violation::BadCancel, frame),
            },
            Sort::Request(id) => match self.owe(now, id) {
                Ok(id) => Received::Asked { id, frame },
                Err(violation) => Received::Violation(violation, frame),
            },
            Sort::Response(id) => match self.settle(id) {
                Ok((id, Outstanding { method, ours, .. })) => Received::Answered { id, method, frame, ours },
                Err(violation) => Received::Violation(violation, frame),
            },
            Sort::Batch(frames) => {
                Received::Batch(frames.iter().map(|frame| self.receive(now, frame.clone())).collect())
            }
            Sort::Malformed(flaw) => Received::Violation(Violation::Malformed(flaw.clone()), frame),
        }
    }

    /// Gives up the requests whose deadline has come; an answer from now on is late.
    pub fn tick(&mut self, now: Duration) -> Vec<Expired<Ours>> {
        let mut expired = Vec::new();
        while let Some(Reverse((deadline, _))) = self.deadlines.peek()
            && *deadline <= now
        {
            let Some(Reverse((deadline, id))) = self.deadlines.pop() else { break };
            if !self.is_live(deadline, &id) {
                continue;
            }
            if let Some(Outstanding { method, sent, ours, .. }) = self.outstanding.remove(&id) {
                self.settled.remember(id.clone(), Settled::Expired, self.limits.remembered);
                expired.push(Expired { id, method, sent, deadline, ours });
            }
        }
        expired
    }

    /// When [`Peer::tick`] has something to do next.
    pub fn next_deadline(&mut self) -> Option<Duration> {
        while let Some(Reverse((deadline, id))) = self.deadlines.peek() {
            if self.is_live(*deadline, id) {
                return Some(*deadline);
            }
            self.deadlines.pop();
        }
        None
    }

    /// Our open requests: id, method, when sent.
    pub fn outstanding(&self) -> impl Iterator<Item = (&Id, &str, Duration)> {
        self.outstanding.iter().map(|(id, open)| (id, &*open.method, open.sent))
    }

    /// Their open requests: id, when received.
    pub fn owed(&self) -> impl Iterator<Item = (&Id, Duration)> {
        self.owed.iter().map(|(id, owed)| (id, owed.since))
    }

    /// Whether we owe an answer under this id.
    #[must_use]
    pub fn owes(&self, id: &Id) -> bool {
        self.owed.contains(id)
    }

    /// What is remembered about an open request of ours.
    #[must_use]
    pub fn ours(&self, id: &Id) -> Option<&Ours> {
        self.outstanding.get(id).map(|open| &open.ours)
    }

    /// What is to be remembered about an open request of theirs, to be read or set. It begins as the default.
    pub fn theirs(&mut self, id: &Id) -> Option<&mut Theirs> {
        self.owed.get_mut(id).map(|owed| &mut owed.theirs)
    }

    /// The conversation is over: all our open requests, which nobody will answer any more.
    pub fn close(&mut self) -> Vec<Expired<Ours>> {
        self.deadlines.clear();
        self.owed.clear();
        let mut open: Vec<_> = self
            .outstanding
            .drain()
            .into_iter()
            .map(|(id, Outstanding { method, sent, deadline, ours })| {
                let deadline = deadline.unwrap_or(Duration::MAX);
                Expired { id, method, sent, deadline, ours }
            })
            .collect();
        open.sort_by(|a, b| (a.sent, &a.id).cmp(&(b.sent, &b.id)));
        open
    }

    fn reply(&mut self, id: &Id, build: impl FnOnce(&Id) -> Frame) -> Result<Frame, ReplyError> {
        if !self.owed.contains(id) {
            return Err(match self.replied.get(id) {
                Some(()) => ReplyError::AlreadyAnswered(id.clone()),
                None => ReplyError::NotOwed(id.clone()),
            });
        }
        let frame = build(id);
        if let Some(flaw) = frame.flaw() {
            return Err(ReplyError::NotSerializable(id.clone(), flaw.to_string()));
        }
        self.owed.remove(id);
        self.replied.remember(id.clone(), (), self.limits.remembered);
        Ok(frame)
    }

    fn owe(&mut self, now: Duration, id: &Id) -> Result<Id, Violation> {
        if id.text_len() > self.limits.id_len {
            return Err(Violation::IdTooLong { len: id.text_len() });
        }
        match self.owed.add(id, Owed { since: now, theirs: Theirs::default() }) {
            Ok(()) => Ok(id.clone()),
            Err(NotAdded::InUse(_)) => Err(Violation::IdInUse { id: id.clone() }),
            Err(NotAdded::Full(_)) => Err(Violation::TooManyRequests { limit: self.limits.owed }),
        }
    }

    fn settle(&mut self, id: &Id) -> Result<(Id, Outstanding<Ours>), Violation> {
        if let Some((id, open)) = self.outstanding.remove_entry(id) {
            self.settled.remember(id.clone(), Settled::Answered, self.limits.remembered);
            return Ok((id, open));
        }
        Err(match self.settled.get(id) {
            Some(Settled::Answered) => Violation::DuplicateResponse { id: id.clone() },
            Some(Settled::Expired) => Violation::LateResponse { id: id.clone() },
            None => self.stranger(id),
        })
    }

    /// A response that belongs to nothing under its own id.
    fn stranger(&self, id: &Id) -> Violation {
        if *id == Id::Null {
            return Violation::NullIdResponse;
        }
        if id.text_len() > self.limits.id_len {
            return Violation::IdTooLong { len: id.text_len() };
        }
        match id.lookalikes().into_iter().find(|other| self.outstanding.contains(other)) {
            Some(sent) => Violation::IdTypeChanged { sent, got: id.clone() },
            None => Violation::UnknownResponse { id: id.clone() },
        }
    }

    fn is_live(&self, deadline: Duration, id: &Id) -> bool {
        self.outstanding.get(id).is_some_and(|open| open.deadline == Some(deadline))
    }

    /// Keeps the heap within a constant factor of what is open.
    fn drop_stale_deadlines(&mut self) {
        if self.deadlines.len() < 2 * self.outstanding.len() + 64 {
            return;
        }
        let deadlines = std::mem::take(&mut self.deadlines);
        self.deadlines = deadlines.into_iter().filter(|Reverse((at, id))| self.is_live(*at, id)).collect();
    }
}

impl<Ours> Received<Ours> {
    /// The frame; a batch has none of its own.
    #[must_use]
    pub fn frame(&self) -> Option<&Frame> {
        match self {
            Self::Asked { frame, .. }
            | Self::Notified { frame }
            | Self::CancelAsked { frame, .. }
            | Self::Answered { frame, .. }
            | Self::Violation(_, frame) => Some(frame),
            Self::Batch(_) => None,
        }
    }

    /// The method of a request or notification of theirs, or of the request of ours that was answered.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::Answered { method, .. } => Some(method),
            other => other.frame().and_then(Frame::method),
        }
    }
}

/// The `requestId` of a cancellation.
fn cancelled_id(params: &str) -> Option<Id> {
    let mut found = None;
    Scanner::new(params.as_bytes())
        .object(|scanner, key| {
            let (start, end) = scanner.value()?;
            if params.get(key.start..key.end) == Some("requestId") {
                found = params.get(start..end).and_then(Id::from_scanned);
            }
            Ok(())
        })
        .ok()?;
    found.filter(|id| *id != Id::Null)
}
