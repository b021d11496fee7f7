//! The proxy's conversations, on their way to NATS, and what their sessions are told from there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use acp_dialect::Side;
use acp_proto::method;
use acp_relay::{Gate, RecordError, RelayEnd};
use acp_rpc::Frame;
use async_nats::Message;
use futures_util::StreamExt as _;
use tokio::sync::oneshot;

use super::error::NatsRefusal;
use super::hub::Nats;
use super::ledger::json;
use super::owners::{Claimed, Hold};
use super::payload::{Control, Controlled, Op};
use super::publisher::{PublisherInput, PublisherItem};
use acp_proxy::event::{Body, Decider, VERSION};
use acp_proxy::narrate::{NarratedEvent, Narrator};
use acp_proxy::{
    ClientInfo, ConversationHandle, Decision, DecisionReasons, Interest, Observer, ObserverFactory, why_over,
};
use tracing::Level;

/// Events of one conversation that may wait for their publishers before the agent is held back.
const MAX_WAITING_EVENTS: usize = 1024;
/// Sessions of one conversation that are listened for; more than any client has.
const MAX_SESSIONS: usize = 1024;

impl ObserverFactory for Nats {
    fn observe(&self, client: &ClientInfo, handle: ConversationHandle) -> Box<dyn Observer> {
        let origin = match &client.reasons {
            Some(reasons) => ClientOrigin::Queue { reasons: reasons.clone(), asked: HashMap::new() },
            None => ClientOrigin::Outside { handle, sessions: HashMap::new() },
        };
        Box::new(NatsObserver {
            nats: self.clone(),
            narrator: Narrator::default(),
            told: Vec::new(),
            gate: Arc::new(Gate::new(MAX_WAITING_EVENTS)),
            origin,
            holds: HashMap::new(),
            over: false,
        })
    }
}

/// Publishes what happens in one conversation.
struct NatsObserver {
    nats: Nats,
    narrator: Narrator,
    told: Vec<NarratedEvent>,
    gate: Arc<Gate>,
    origin: ClientOrigin,
    /// Sessions that this conversation has, and with nothing those that are another's.
    holds: HashMap<Arc<str>, Option<Hold>>,
    over: bool,
}

/// Where the client of a conversation comes from.
enum ClientOrigin {
    /// It is our own, for tasks. The task's runner listens for commands to its session, and leaves the reasons for answers
    /// to permission requests, which are known by their ids and tool calls.
    Queue { reasons: DecisionReasons, asked: HashMap<String, String> },
    /// It has connected to the proxy: commands to its sessions are listened for here.
    Outside { handle: ConversationHandle, sessions: HashMap<Arc<str>, CommandListener> },
}

impl NatsObserver {
    fn tell(&mut self, at: Instant) {
        self.gate.enter(self.told.len());
        let mut told = std::mem::take(&mut self.told);
        for (session, mut body) in told.drain(..) {
            // Before the agent can have it: what is seen here is not written to it yet.
            if matches!((&self.origin, &body), (ClientOrigin::Queue { .. }, Body::TurnStart(_))) {
                self.nats.shared.prompt_passes(&session);
            }
            let Some(hold) = self.hold(&session, &body) else {
                self.gate.leave(1);
                continue;
            };
            let closed = matches!(body, Body::Closed(_));
            match &mut self.origin {
                ClientOrigin::Queue { reasons, asked } => explain(reasons, asked, &mut body),
                ClientOrigin::Outside { sessions, .. } if closed => {
                    sessions.remove(&session);
                    sessions.values().for_each(|listening| listening.count_sessions(sessions.len()));
                }
                ClientOrigin::Outside { handle, sessions } => {
                    // One that was lost and taken back is listened for anew.
                    let listens = sessions.get(&session).is_some_and(|listening| listening.hold.is(&hold));
                    let known = sessions.contains_key(&session);
                    if !listens && (known || sessions.len() < MAX_SESSIONS) {
                        let listening =
                            CommandListener::begin(&self.nats, session.clone(), handle.clone(), hold.clone());
                        sessions.insert(session.clone(), listening);
                        sessions.values().for_each(|listening| listening.count_sessions(sessions.len()));
                    }
                }
            }
            let item = PublisherItem { at, what: PublisherInput::Body(body), gate: Some(self.gate.clone()) };
            self.nats.put(&session, item);
            if closed {
                self.nats.shared.owners.release(&session, &hold);
                self.holds.remove(&session);
            }
        }
        self.told = told;
    }

    /// What this conversation has of a session that something happens in; nothing when the session is another's.
    fn hold(&mut self, session: &Arc<str>, body: &Body) -> Option<Hold> {
        match self.holds.get(session) {
            Some(Some(hold)) if !hold.is_lost() => return Some(hold.clone()),
            // It may be free again when something begins.
            Some(_) if !matches!(body, Body::Session(_) | Body::TurnStart(_)) => return None,
            _ => {}
        }
        let queue = match &self.origin {
            ClientOrigin::Queue { reasons, .. } => Some(reasons),
            ClientOrigin::Outside { .. } => None,
        };
        // Whoever loads a session means the one that there is.
        let anyones = matches!(body, Body::Session(opened) if opened.method != method::SESSION_NEW && opened.method != method::SESSION_FORK);
        let hold = match self.nats.shared.owners.claim(session, queue, anyones) {
            Claimed::Free(hold) => Some(hold),
            Claimed::From(hold) => {
                self.nats.put(
                    session,
                    PublisherItem { at: Instant::now(), what: PublisherInput::Taken, gate: None },
                );
                Some(hold)
            }
            Claimed::Taken => None,
        };
        if hold.is_none() && !self.holds.contains_key(session) {
            let words = format!(
                "nothing of a session {session:?} is published: another connection has a session of that name. An agent must give each session a name of its own, also in another process"
            );
            self.nats.shared.say(Level::ERROR, &words);
        }
        self.holds.insert(session.clone(), hold.clone());
        hold
    }
}

impl NatsObserver {
    /// Ends the sessions' service, and gives them back.
    fn close(&mut self, reason: &str) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        self.narrator.close(reason, &mut self.told);
        self.tell(Instant::now());
        if let ClientOrigin::Outside { sessions, .. } = &mut self.origin {
            sessions.clear();
        }
        for (session, hold) in self.holds.drain() {
            if let Some(hold) = hold {
                self.nats.shared.owners.release(&session, &hold);
            }
        }
    }
}

impl Observer for NatsObserver {
    fn interest(&self) -> Interest {
        Interest { lines: false, frames: true }
    }

    fn frame(&mut self, from: Side, at: Instant, frame: &Frame) {
        if self.over {
            return;
        }
        let dir = from.sends();
        self.narrator.hear(dir, frame, &mut self.told);
        let live = self.nats.shared.is_live().then(|| self.told.first().cloned()).flatten();
        if let Some((session, body)) = live
            && self.hold(&session, &body).is_some()
        {
            self.nats.shared.publish_live(&session, frame.raw());
        }
        self.tell(at);
    }

    fn decided(&mut self, decision: &Decision<'_>) -> Result<(), RecordError> {
        // What is decided about a client's request passes as a frame, too.
        if !self.over && decision.from == Side::Agent {
            self.narrator.decided(decision.request, decision.answer, decision.reason, &mut self.told);
            self.tell(decision.at);
        }
        Ok(())
    }

    fn over(&mut self, ended: Option<&RelayEnd>) {
        self.close(&why_over(ended));
    }

    fn gate(&self) -> Option<Arc<Gate>> {
        Some(self.gate.clone())
    }
}

impl Drop for NatsObserver {
    fn drop(&mut self) {
        self.close("the proxy stopped");
    }
}

/// Adds to a decision who made it and why. Our own client answers by itself only after a cancel.
fn explain(reasons: &DecisionReasons, asked: &mut HashMap<String, String>, body: &mut Body) {
    match body {
        Body::Permission(permission) => {
            let params: serde_json::Value = serde_json::from_str(permission.params.get()).unwrap_or_default();
            if let Some(call) = params["toolCall"]["toolCallId"].as_str() {
                asked.insert(permission.id.clone(), call.to_owned());
            }
        }
        Body::Decision(decision) => {
            let call = asked.remove(&decision.id);
            match call.and_then(|call| reasons.take(&call)) {
                _ if decision.by == Decider::Policy => {}
                Some(reason) => (decision.by, decision.reason) = (Decider::Nats, Some(reason)),
                None => decision.reason = Some("the turn was cancelled".to_owned()),
            }
        }
        _ => {}
    }
}

/// Hears what a client's session is told, until dropped.
struct CommandListener {
    /// Tells that it was dropped. What it is just being told is answered all the same: that may be why it was.
    _here: oneshot::Sender<()>,
    hold: Hold,
    count: Arc<std::sync::atomic::AtomicUsize>,
}

impl CommandListener {
    fn begin(nats: &Nats, session: Arc<str>, handle: ConversationHandle, hold: Hold) -> CommandListener {
        let (nats, count) = (nats.clone(), Arc::new(std::sync::atomic::AtomicUsize::new(1)));
        let (sessions, held) = (count.clone(), hold.clone());
        let (here, mut gone) = oneshot::channel();
        tokio::spawn(async move {
            let shared = nats.shared.clone();
            let subject = shared.subjects.control(&session);
            let mut told = match shared.client.subscribe(subject).await {
                Ok(told) => told,
                Err(error) => {
                    let words = format!("cannot listen for what session {session:?} is told: {error}");
                    return shared.say(Level::ERROR, &words);
                }
            };
            loop {
                let message = tokio::select! {
                    message = told.next() => message,
                    _ = &mut gone => return,
                };
                let Some(message) = message else { return };
                // Whoever has it now answers.
                if held.is_lost() || nats.is_taken_over(&session).await {
                    return;
                }
                let count = sessions.load(std::sync::atomic::Ordering::Relaxed);
                let done = obey(&session, &handle, count, &message).await;
                shared.controlled(message, None, done).await;
            }
        });
        CommandListener { _here: here, hold, count }
    }

    /// So many sessions are in its conversation.
    fn count_sessions(&self, count: usize) {
        self.count.store(count, std::sync::atomic::Ordering::Relaxed);
    }
}

async fn obey(
    session: &str,
    handle: &ConversationHandle,
    sessions: usize,
    message: &Message,
) -> Result<(), NatsRefusal> {
    let control = Control::parse(&message.payload)?;
    let done = match control.op {
        Op::Who => true,
        Op::Cancel if control.task.is_some() => {
            return Err("a client has the session, and no task runs in it".into());
        }
        Op::Cancel => {
            if !handle.cancel(session).await {
                return Err("no turn is running".into());
            }
            true
        }
        Op::Close if sessions > 1 => {
            return Err(format!(
                "its client has {sessions} sessions with the same agent, and closing one would end them all; cancel works"
            )
            .into());
        }
        Op::Close => handle.close("the session was closed by control").await,
        Op::Answer => {
            return Err("permission for this session is asked of its client, not over NATS".into());
        }
        Op::Task => {
            return Err(
                "the session belongs to a client of the proxy; tasks can go on with it when that has left"
                    .into(),
            );
        }
    };
    if done { Ok(()) } else { Err("the conversation is over".into()) }
}

impl super::hub::Shared {
    /// Answers who told a session something.
    pub(super) async fn controlled(
        &self,
        message: Message,
        task: Option<String>,
        done: Result<(), NatsRefusal>,
    ) {
        let answer = Controlled {
            v: VERSION,
            ok: done.is_ok(),
            proxy: Some(self.proxy.clone()),
            task,
            error: done.err().map(|refusal| refusal.to_string()),
        };
        if let Some(reply) = message.reply {
            let _ = self.client.publish(reply, json(&answer)).await;
        }
    }
}
