//! Two links joined: what the client says goes to the agent and the other way round, translated where their forms of
//! the protocol differ, as the original bytes where they do not.

mod queue;
mod requests;
mod take;
mod translated;
mod wind_down;

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use acp_dialect::{Bridge, Side};
use acp_link::{Burst, GLANCE, Link};
use acp_rpc::{Frame, RpcError};
use tokio::time::sleep_until;

use crate::gate::Gate;
use crate::observer::Observers;
use queue::Queue;
use requests::OpenRequests;

pub use translated::{translated, translated_resuming};

/// How many bytes may wait for a peer that asks and does not read the answers.
const MAX_UNREAD_BYTES: usize = 512 * 1024;

/// Why [`Relay::run`] came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayEnd {
    /// The client ended its output. All of it has been passed on, and the agent's input has ended too. Run on for what
    /// the agent still has to say.
    ClientDone,
    /// The client no longer takes anything.
    ClientGone,
    /// The agent is gone. The client's open requests have been answered with errors; its link is still open.
    AgentGone,
    /// Who hears the conversation cannot go on, and says why. The client's open requests have been answered with that;
    /// the links are still open.
    Stopped(String),
    /// It was closed by [`Relay::close`], and this is why. The client has been told, and its open requests have been
    /// answered with that; its link is still open.
    Closed(String),
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
pub struct Relay {
    client: Link,
    agent: Link,
    bridge: Bridge,
    identity: bool,
    /// Whether `requests` says which requests are open. A translator knows that by itself, except for v1, which it does
    /// not read.
    reads_requests: bool,
    observers: Observers,
    requests: OpenRequests,
    /// What each side has not taken yet.
    to_client: Queue,
    to_agent: Queue,
    /// Whether the client, and the agent, have said something: a byte order mark can only come before it.
    begun: [bool; 2],
    /// The rest after each frame to the client, if it must get them one by one.
    pace: Option<Duration>,
    pacing: Pacing,
    client_ended: bool,
    client_done: bool,
    agent_deaf: Option<Instant>,
    agent_introduced: bool,
    ending: Option<RelayEnd>,
    moved: u64,
    sessions: Option<SessionAliases>,
    /// Why no more work is taken, once that is so.
    winding: Option<String>,
}

/// Session ids that differ on the two sides of a translation, (the agent's, ours), for a later connection to the same
/// agent.
pub type SessionAliases = Arc<Mutex<Vec<(String, String)>>>;

/// Where a client that gets its frames one by one stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pacing {
    Ready,
    Writing,
    Resting(Instant),
}

/// How long an agent may go on talking that does not listen any more.
const DEAF: Duration = Duration::from_secs(2);

impl Relay {
    /// Joins two links. The bridge says which form each side speaks.
    #[must_use]
    pub fn new(client: Link, agent: Link, mut bridge: Bridge, observers: Observers) -> Relay {
        let identity = bridge.is_identity();
        Relay {
            client,
            agent,
            identity,
            reads_requests: identity || bridge.at(Side::Client).dialect().is_canonical(),
            bridge,
            observers,
            requests: OpenRequests::default(),
            to_client: Queue::default(),
            to_agent: Queue::default(),
            begun: [false; 2],
            pace: None,
            pacing: Pacing::Ready,
            client_ended: false,
            client_done: false,
            agent_deaf: None,
            agent_introduced: false,
            ending: None,
            moved: 0,
            sessions: None,
            winding: None,
        }
    }

    /// Gives the client one frame per write, with a rest after each, for clients that take one read for one message.
    pub fn pace(&mut self, rest: Duration) {
        self.pace = Some(rest);
    }

    /// Takes lines that the client sent before the links were joined.
    pub fn begin_with(&mut self, first: impl IntoIterator<Item = Burst>) {
        first.into_iter().for_each(|burst| self.take(Side::Client, burst));
    }

    /// How many bytes were taken so far, from both sides.
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
        let answers = if self.reads_requests { self.open_answers(why) } else { self.bridged_answers(why) };
        for answer in answers {
            self.observers.spoke(Side::Client, &answer, why);
            self.queue(Side::Client).line(answer.raw());
        }
    }

    /// Passes lines until one side ends. Cancel safe: call it again to go on.
    pub async fn run(&mut self) -> RelayEnd {
        loop {
            if let Some(ended) = self.write() {
                return ended;
            }
            let room = self.ending.is_none();
            let hear_client = room
                && !self.client_ended
                && self.to_agent.is_empty()
                && self.to_client.bytes() < MAX_UNREAD_BYTES
                && self.agent_deaf.is_none();
            let shut = self.observers.gate().filter(|gate| !gate.is_open()).cloned();
            let hear_agent = room
                && shut.is_none()
                && self.to_client.is_empty()
                && self.to_agent.bytes() < MAX_UNREAD_BYTES;
            let client_waits = !self.to_client.is_empty() && self.pacing == Pacing::Ready;
            let (client, agent) = (&mut self.client, &mut self.agent);
            tokio::select! {
                biased;
                _ = client.tx.ready(), if client_waits => {}
                _ = agent.tx.ready(), if !self.to_agent.is_empty() => {}
                flushed = client.tx.flush(), if self.pacing == Pacing::Writing => {
                    if flushed.is_err() {
                        return RelayEnd::ClientGone;
                    }
                    self.pacing = self.paced(self.pace.unwrap_or_default());
                }
                () = until(rest(self.pacing)), if rest(self.pacing).is_some() => {
                    self.pacing = self.paced(Duration::ZERO);
                }
                burst = client.rx.recv_burst(), if hear_client => match burst {
                    Some(burst) => self.take_all(Side::Client, burst),
                    None => self.client_ended = true,
                },
                burst = agent.rx.recv_burst(), if hear_agent => match burst {
                    Some(burst) => self.take_all(Side::Agent, burst),
                    None => {
                        let end = self.agent.rx.end().map_or_else(String::new, ToString::to_string);
                        self.agent_gone(&end);
                    }
                },
                () = opened(shut.as_deref()), if shut.is_some() => {}
                () = until(self.agent_deaf), if self.agent_deaf.is_some() && hear_agent => {
                    self.agent_gone("it no longer reads");
                }
            }
        }
    }

    fn agent_gone(&mut self, why: &str) {
        self.answer_open(&format!("the agent is gone: {why}"));
        self.ending = Some(RelayEnd::AgentGone);
    }

    /// Hands over what waits, as far as there is room.
    fn write(&mut self) -> Option<RelayEnd> {
        if self.drain_client().is_err() {
            return Some(RelayEnd::ClientGone);
        }
        if self.drain_agent().is_err() {
            self.to_agent = Queue::default();
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
            return Some(RelayEnd::ClientDone);
        }
        None
    }

    fn drain_client(&mut self) -> Result<(), ()> {
        if self.pace.is_none() {
            return self.to_client.drain(&self.client.tx);
        }
        if self.pacing == Pacing::Ready && self.to_client.send_one(&self.client.tx)? {
            self.pacing = Pacing::Writing;
        }
        Ok(())
    }

    /// Where a client stands that gets its frames one by one: the next one may come when the last one was read, or after
    /// a rest where that cannot be seen.
    fn paced(&self, rest: Duration) -> Pacing {
        match self.client.tx.is_read() {
            Some(false) => Pacing::Resting(Instant::now() + GLANCE),
            None if rest > Duration::ZERO => Pacing::Resting(Instant::now() + rest),
            Some(true) | None => Pacing::Ready,
        }
    }

    fn drain_agent(&mut self) -> Result<(), ()> {
        self.to_agent.drain(&self.agent.tx)
    }

    fn queue(&mut self, to: Side) -> &mut Queue {
        match to {
            Side::Client => &mut self.to_client,
            Side::Agent => &mut self.to_agent,
        }
    }

    /// The error for what is not done any more, in the client's own code. To most clients -32000 is no such thing: they
    /// would log in.
    fn unavailable(&mut self, why: &str) -> RpcError {
        RpcError::new(self.bridge.at(Side::Client).dialect().closed_code(), why)
    }

    fn open_answers(&mut self, why: &str) -> Vec<Frame> {
        let error = self.unavailable(why);
        self.requests.take().iter().map(|id| Frame::failure(id, &error)).collect()
    }

    fn bridged_answers(&mut self, why: &str) -> Vec<Frame> {
        let routed = self.bridge.closed(Side::Agent);
        for (side, note) in &routed.notes {
            self.observers.note(*side, note);
        }
        let frames = routed.frames.into_iter().map(|(_, frame)| frame);
        frames.map(|frame| with_reason(&frame, why).unwrap_or(frame)).collect()
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("identity", &self.identity)
            .field("moved", &self.moved)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
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

async fn opened(gate: Option<&Gate>) {
    match gate {
        Some(gate) => gate.open().await,
        None => pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => pending().await,
    }
}
