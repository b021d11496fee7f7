//! Two links joined: what the client says goes to the agent and the other way round, translated where their forms of
//! the protocol differ, as the original bytes where they do not.

mod ledger;

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use acp_dialect::{Bridge, Detection, Dialect, Note, NoteKind, Options, Side, detect};
use acp_link::{Arrival, Link, Sender, TrySendError};
use acp_rpc::{Frame, Id, Line, RpcError, View};
use bytes::Bytes;
use tokio::time::sleep_until;

use ledger::Ledger;

/// Lines taken from a link at once.
const BURST: usize = 256;
/// How many frames may wait for a peer that asks and does not read the answers.
const PATIENCE: usize = 1024;
/// The code of the `go` form for a connection that is gone.
const GO_CLOSED: i64 = -32000;

/// Is told of a step of a translation, and the side whose form it is about.
pub type NoteListener = Box<dyn FnMut(Side, &Note) + Send>;
/// Is shown a canonical frame, the side that it comes from, and when it came.
pub type FrameListener = Box<dyn FnMut(Side, Instant, &Frame) + Send>;

/// Who wants to know what happens between two joined links.
pub struct Watch {
    /// Told of each step of a translation that is more than renaming.
    pub note: NoteListener,
    /// Shown each frame of the conversation in its canonical form, with the side that it comes from. Without it, lines
    /// between peers of the same form are not even read.
    pub seen: Option<FrameListener>,
}

impl Watch {
    /// Nobody.
    #[must_use]
    pub fn nobody() -> Watch {
        Watch { note: Box::new(|_, _| {}), seen: None }
    }

    /// Someone who is told of notes.
    pub fn notes(note: impl FnMut(Side, &Note) + Send + 'static) -> Watch {
        Watch { note: Box::new(note), seen: None }
    }
}

/// Why [`Joint::run`] came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The client ended its output. All of it has been passed on, and the agent's input has ended too. Run on for what
    /// the agent still has to say.
    ClientDone,
    /// The client no longer takes anything.
    ClientGone,
    /// The agent is gone. The client's open requests have been answered with errors; its link is still open.
    AgentGone,
    /// One side said something that the other can never understand. It and the client's open requests have been
    /// answered with the reason; the links are still open.
    Refused {
        /// Who.
        side: Side,
        /// What it said, and what to do about it.
        reason: String,
    },
}

/// A client and an agent, joined.
///
/// A side is read only as fast as the other side takes it: nothing is dropped, and nothing grows.
pub struct Joint {
    client: Link,
    agent: Link,
    bridge: Bridge,
    identity: bool,
    /// Whether the ledger says which requests are open. A translator knows that by itself, except for v1, which it does
    /// not read.
    ledgered: bool,
    watch: Watch,
    ledger: Ledger,
    /// What each side has not taken yet.
    to_client: VecDeque<Bytes>,
    to_agent: VecDeque<Bytes>,
    /// What was just read, from the client and from the agent.
    from_client: Vec<Arrival>,
    from_agent: Vec<Arrival>,
    /// The rest after each frame to the client, if it must get them one by one.
    pace: Option<Duration>,
    pacing: Pacing,
    client_ended: bool,
    client_done: bool,
    agent_deaf: Option<Instant>,
    agent_introduced: bool,
    ending: Option<Ended>,
    moved: u64,
    sessions: Option<Sessions>,
}

/// Session ids that differ on the two sides of a translation, (the agent's, ours), for a later connection to the same
/// agent.
pub type Sessions = Arc<Mutex<Vec<(String, String)>>>;

/// Where a client that gets its frames one by one stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pacing {
    Ready,
    Writing,
    Resting(Instant),
}

/// How long an agent may go on talking that does not listen any more.
const DEAF: Duration = Duration::from_secs(2);

impl Joint {
    /// Joins two links. The bridge says which form each side speaks.
    #[must_use]
    pub fn new(client: Link, agent: Link, mut bridge: Bridge, watch: Watch) -> Joint {
        let identity = bridge.is_identity();
        Joint {
            client,
            agent,
            identity,
            ledgered: identity || bridge.at(Side::Client).dialect() == Dialect::V1,
            bridge,
            watch,
            ledger: Ledger::default(),
            to_client: VecDeque::new(),
            to_agent: VecDeque::new(),
            from_client: Vec::new(),
            from_agent: Vec::with_capacity(BURST),
            pace: None,
            pacing: Pacing::Ready,
            client_ended: false,
            client_done: false,
            agent_deaf: None,
            agent_introduced: false,
            ending: None,
            moved: 0,
            sessions: None,
        }
    }

    /// Gives the client one frame per write, with a rest after each, for clients that take one read for one message.
    pub fn pace(&mut self, rest: Duration) {
        self.pace = Some(rest);
    }

    /// Takes lines that the client sent before the links were joined.
    pub fn begin_with(&mut self, first: impl IntoIterator<Item = Arrival>) {
        first.into_iter().for_each(|arrival| self.take(Side::Client, arrival));
    }

    /// How many lines were taken so far, from both sides.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Whether something waits for the client to take it.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        !self.to_client.is_empty()
    }

    /// The translation.
    pub fn bridge(&mut self) -> &mut Bridge {
        &mut self.bridge
    }

    /// Takes the links apart; what waits in between is lost.
    #[must_use]
    pub fn into_links(self) -> (Link, Link) {
        (self.client, self.agent)
    }

    /// Answers the client's open requests with errors that say `why`, as if the agent were gone.
    pub fn answer_open(&mut self, why: &str) {
        let answers = if self.ledgered { self.open_answers(why) } else { self.bridged_answers(why) };
        for answer in answers {
            self.put(Side::Client, answer.raw().clone());
        }
    }

    /// Passes lines until one side ends. Cancel safe: call it again to go on.
    pub async fn run(&mut self) -> Ended {
        loop {
            if let Some(ended) = self.write() {
                return ended;
            }
            let room = self.ending.is_none();
            let hear_client = room
                && !self.client_ended
                && self.to_agent.is_empty()
                && self.to_client.len() < PATIENCE
                && self.agent_deaf.is_none();
            let hear_agent = room && self.to_client.is_empty() && self.to_agent.len() < PATIENCE;
            let client_waits = !self.to_client.is_empty() && self.pacing == Pacing::Ready;
            let (client, agent) = (&mut self.client, &mut self.agent);
            tokio::select! {
                biased;
                _ = client.tx.ready(), if client_waits => {}
                _ = agent.tx.ready(), if !self.to_agent.is_empty() => {}
                flushed = client.tx.flush(), if self.pacing == Pacing::Writing => {
                    if flushed.is_err() {
                        return Ended::ClientGone;
                    }
                    self.pacing = Pacing::Resting(Instant::now() + self.pace.unwrap_or_default());
                }
                () = until(rest(self.pacing)), if rest(self.pacing).is_some() => self.pacing = Pacing::Ready,
                count = client.rx.recv_many(&mut self.from_client, BURST), if hear_client => {
                    self.client_ended = count == 0;
                    self.take_burst(Side::Client);
                }
                count = agent.rx.recv_many(&mut self.from_agent, BURST), if hear_agent => {
                    self.take_burst(Side::Agent);
                    if count == 0 && self.ending.is_none() {
                        let end = self.agent.rx.end().map_or_else(String::new, ToString::to_string);
                        self.agent_gone(&end);
                    }
                }
                () = until(self.agent_deaf), if self.agent_deaf.is_some() && hear_agent => {
                    self.agent_gone("it no longer reads");
                }
            }
        }
    }

    fn agent_gone(&mut self, why: &str) {
        self.answer_open(&format!("the agent is gone: {why}"));
        self.ending = Some(Ended::AgentGone);
    }

    /// Hands over what waits, as far as there is room.
    fn write(&mut self) -> Option<Ended> {
        if self.drain_client().is_err() {
            return Some(Ended::ClientGone);
        }
        if self.drain_agent().is_err() {
            self.to_agent.clear();
            if !self.client_done && self.agent_deaf.is_none() {
                self.agent_deaf = Some(Instant::now() + DEAF);
            }
        }
        if self.to_client.is_empty() && self.ending.is_some() {
            return self.ending.take();
        }
        if self.client_ended && !self.client_done && self.to_agent.is_empty() && self.ending.is_none() {
            self.client_done = true;
            self.agent.tx.close();
            return Some(Ended::ClientDone);
        }
        None
    }

    fn drain_client(&mut self) -> Result<(), ()> {
        if self.pace.is_none() {
            return drain(&self.client.tx, &mut self.to_client);
        }
        if self.pacing == Pacing::Ready
            && let Some(line) = self.to_client.front()
        {
            match self.client.tx.try_send(line) {
                Ok(()) => {
                    self.to_client.pop_front();
                    self.pacing = Pacing::Writing;
                }
                Err(TrySendError::Full) => {}
                Err(TrySendError::Closed(_)) => return Err(()),
            }
        }
        Ok(())
    }

    fn drain_agent(&mut self) -> Result<(), ()> {
        drain(&self.agent.tx, &mut self.to_agent)
    }

    fn take_burst(&mut self, from: Side) {
        let mut burst = std::mem::take(self.read_from(from));
        for arrival in burst.drain(..) {
            if self.ending.is_none() {
                self.take(from, arrival);
            }
        }
        *self.read_from(from) = burst;
    }

    fn read_from(&mut self, side: Side) -> &mut Vec<Arrival> {
        match side {
            Side::Client => &mut self.from_client,
            Side::Agent => &mut self.from_agent,
        }
    }

    /// Takes one line from one side.
    fn take(&mut self, from: Side, arrival: Arrival) {
        self.moved += 1;
        if let Line::Oversized { len, .. } = &arrival.line {
            let reason = format!("a line of {len} bytes is too long to be passed on");
            return self.refuse(from, reason, None);
        }
        if self.identity && self.watch.seen.is_none() {
            let line = arrival.line.bytes();
            self.ledger.passed(from, line);
            return self.put(from.flip(), line.clone());
        }
        let at = arrival.at;
        let frame = Frame::from(arrival.line);
        if self.ledgered && (self.identity || from == Side::Client) {
            self.ledger.read(from, &frame);
        }
        if self.identity {
            // Nothing to translate.
        } else if let Some(reason) = self.stranger(from, &frame) {
            return self.refuse(from, reason, None);
        } else if frame.id().is_some() {
            let now = format!("{:.3}", jiff::Timestamp::now());
            self.bridge.at(Side::Client).set_wall_clock(now.clone());
            self.bridge.at(Side::Agent).set_wall_clock(now);
        }
        let seen = &mut self.watch.seen;
        let routed = self.bridge.receive_seen(from, &frame, &mut |side, frame| {
            if let Some(seen) = seen {
                seen(side, at, frame);
            }
        });
        for (side, note) in &routed.notes {
            (self.watch.note)(*side, note);
        }
        let strange =
            routed.notes.iter().find(|(side, note)| *side == from && note.kind == NoteKind::OtherDialect);
        if let Some((_, note)) = strange {
            return self.refuse(from, note.message.clone().into_owned(), Some(&frame));
        }
        for (to, frame) in routed.frames {
            if self.ledgered && !self.identity && to == Side::Client {
                self.ledger.read(Side::Agent, &frame);
            }
            self.put(to, frame.raw().clone());
        }
        if let (Some(sessions), View::Response { .. }) = (&self.sessions, frame.view()) {
            let mut known = sessions.lock().unwrap_or_else(PoisonError::into_inner);
            *known = self.bridge.at(Side::Agent).session_ids();
        }
    }

    /// An agent shows its form in its first answer: what is wrong with it, if it is not the expected one.
    fn stranger(&mut self, from: Side, frame: &Frame) -> Option<String> {
        if from == Side::Client || self.agent_introduced || !matches!(frame.view(), View::Response { .. }) {
            return None;
        }
        self.agent_introduced = true;
        let expected = self.bridge.at(Side::Agent).dialect();
        match detect([frame]) {
            Detection::Sure(found)
                if found != expected && (found, expected) != (Dialect::V1, Dialect::Go) =>
            {
                Some(format!(
                    "the agent answers in the form {found}, not in {expected}; name its form with --dialect {found}"
                ))
            }
            _ => None,
        }
    }

    /// Ends the conversation because of what `side` said.
    fn refuse(&mut self, side: Side, reason: String, frame: Option<&Frame>) {
        let asked = frame.and_then(|frame| match frame.view() {
            View::Request { id, .. } => Some(id.clone()),
            _ => None,
        });
        let error = RpcError::new(RpcError::INVALID_REQUEST, reason.clone());
        match (side, asked) {
            (Side::Client, id) => {
                let answer = Frame::failure(&id.unwrap_or(Id::Null), &error);
                self.put(Side::Client, answer.raw().clone());
            }
            (Side::Agent, Some(id)) => self.put(Side::Agent, Frame::failure(&id, &error).raw().clone()),
            (Side::Agent, None) => {}
        }
        if side == Side::Agent {
            self.answer_open(&reason);
        }
        self.ending = Some(Ended::Refused { side, reason });
    }

    fn open_answers(&mut self, why: &str) -> Vec<Frame> {
        let code = match self.bridge.at(Side::Client).dialect() {
            Dialect::Go => GO_CLOSED,
            _ => RpcError::INTERNAL_ERROR,
        };
        let error = RpcError::new(code, why);
        self.ledger.take().iter().map(|id| Frame::failure(id, &error)).collect()
    }

    fn bridged_answers(&mut self, why: &str) -> Vec<Frame> {
        let routed = self.bridge.closed(Side::Agent);
        for (side, note) in &routed.notes {
            (self.watch.note)(*side, note);
        }
        let frames = routed.frames.into_iter().map(|(_, frame)| frame);
        frames.map(|frame| with_reason(&frame, why).unwrap_or(frame)).collect()
    }

    fn put(&mut self, to: Side, line: Bytes) {
        match to {
            // What could not be sent is tried again, and then it shows whether the side is slow or gone.
            Side::Client => {
                let at_once = self.pace.is_none() && self.to_client.is_empty();
                if !at_once || self.client.tx.try_send(&line).is_err() {
                    self.to_client.push_back(line);
                }
            }
            Side::Agent => {
                if !self.to_agent.is_empty() || self.agent.tx.try_send(&line).is_err() {
                    self.to_agent.push_back(line);
                }
            }
        }
    }
}

impl std::fmt::Debug for Joint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joint")
            .field("identity", &self.identity)
            .field("moved", &self.moved)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

/// The link to an agent that speaks a foreign form, as a link to one that speaks v1. The translation runs in a task of
/// its own until both sides have ended; must be called inside a tokio runtime.
#[must_use]
pub fn translated(link: Link, dialect: Dialect, options: Options, watch: Watch) -> Link {
    translated_again(link, dialect, options, watch, &Sessions::default())
}

/// Like [`translated`], for several connections to one agent, one after another: `sessions` is what each leaves to the
/// next.
#[must_use]
pub fn translated_again(
    link: Link,
    dialect: Dialect,
    mut options: Options,
    watch: Watch,
    sessions: &Sessions,
) -> Link {
    if dialect == Dialect::V1 {
        return link;
    }
    options.sessions.extend(sessions.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
    let (ours, theirs) = acp_link::memory(BURST);
    let mut joint = Joint::new(theirs, link, Bridge::new(Dialect::V1, dialect, options), watch);
    joint.sessions = Some(sessions.clone());
    tokio::spawn(async move { while joint.run().await == Ended::ClientDone {} });
    ours
}

fn drain(tx: &Sender, held: &mut VecDeque<Bytes>) -> Result<(), ()> {
    while let Some(line) = held.front() {
        match tx.try_send(line) {
            Ok(()) => {
                held.pop_front();
            }
            Err(TrySendError::Full) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(()),
        }
    }
    Ok(())
}

/// The same answer, and why.
fn with_reason(frame: &Frame, why: &str) -> Option<Frame> {
    let mut error = RpcError::parse(frame.error()?).ok()?;
    error.message = format!("{}: {why}", error.message);
    Some(Frame::failure(frame.id()?, &error))
}

fn rest(pacing: Pacing) -> Option<Instant> {
    match pacing {
        Pacing::Resting(until) => Some(until),
        Pacing::Ready | Pacing::Writing => None,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => pending().await,
    }
}
