//! From frames to what happened: the canonical frames of one conversation, both ways, become the events of its sessions.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use acp_proto::{method, update};
use acp_rpc::{Direction, Exchange, Flaw, Frame, Id, Reply, View};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::{
    Body, Decider, DecisionEvent, Passed, Permission, Role, SessionClosed, SessionOpened, Text, TurnEnd,
    TurnStart, Update,
};
use crate::turn::Tally;

/// What happened, and in which session.
pub type NarratedEvent = (Arc<str>, Body);

/// Requests that are open at once; more than any client or agent has. What is asked beyond it has no answer here.
const MOST_OPEN: usize = 4096;

/// Reads a conversation and tells what happens in its sessions. Pure: it keeps what it must remember, and no time.
#[derive(Debug, Default)]
pub struct Narrator {
    open: Exchange<Open>,
    sessions: HashMap<Arc<str>, Session>,
    /// The session of the last update: mostly it is the next one's too.
    last: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct Session {
    /// Updates that the agent tells again while the session is being loaded.
    loading: Option<u64>,
    turn: Option<Tally>,
    footing: Footing,
    /// The agent has closed it while a turn was open: it is over with the turn.
    closing: bool,
}

/// Who knows of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Footing {
    /// Nobody but the client, if anyone: nothing is told of it.
    #[default]
    Unknown,
    /// The client has prompted in it, and the agent has not said a word.
    Prompted,
    /// The agent has opened it, or has spoken in it.
    Known,
}

#[derive(Debug)]
enum Open {
    /// A session comes of it.
    Opening {
        method: String,
        params: Box<RawValue>,
        session: Option<Arc<str>>,
    },
    Prompt(Arc<str>),
    Permission(Arc<str>),
    /// `session/close` or `session/delete`: afterwards the session is no longer served.
    Closing(Arc<str>),
    /// Anything else about a session.
    Other(Arc<str>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scope<'a> {
    #[serde(borrow, default)]
    session_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UpdateParams<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    update: &'a RawValue,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// A chunk that is nothing but text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Chunk<'a> {
    #[serde(borrow)]
    session_update: Cow<'a, str>,
    #[serde(borrow)]
    content: ChunkContent<'a>,
    #[serde(borrow, default)]
    message_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChunkContent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl Narrator {
    /// Reads one frame; what happened is appended to `out`.
    pub fn hear(&mut self, dir: Direction, frame: &Frame, out: &mut Vec<NarratedEvent>) {
        match frame.view() {
            View::Notification { method: method::SESSION_UPDATE, params: Some(params) }
                if dir == Direction::AgentToClient =>
            {
                self.update(params, frame, out);
            }
            View::Notification { params, .. } => {
                if let Some(session) = self.scope(params).filter(|session| self.knows(dir, session)) {
                    out.push((session, passed(dir, frame)));
                }
            }
            View::Request { id, method, params } => self.asked(dir, id, method, params, frame, out),
            View::Response { id, reply } => self.answered(dir, id, reply, frame, out),
            View::Batch(frames) => frames.iter().for_each(|frame| self.hear(dir, frame, out)),
            View::Malformed(Flaw::Blank) => {}
            View::Malformed(_) => match frame.mended() {
                Some(mended) => self.hear(dir, &mended, out),
                None => out.extend(self.talking().map(|session| (session, unreadable(dir, frame)))),
            },
        }
    }

    /// Reads a request of the agent that the proxy answered itself.
    pub fn decided(&mut self, request: &Frame, answer: &Frame, reason: &str, out: &mut Vec<NarratedEvent>) {
        self.hear(Direction::AgentToClient, request, out);
        self.hear(Direction::ClientToAgent, answer, out);
        if let Some((_, Body::Decision(decision))) = out.last_mut() {
            (decision.by, decision.reason) = (Decider::Policy, Some(reason.to_owned()));
        }
    }

    /// The conversation is over: open turns are interrupted, and the sessions are no longer served.
    pub fn close(&mut self, reason: &str, out: &mut Vec<NarratedEvent>) {
        let mut sessions: Vec<_> = std::mem::take(&mut self.sessions).into_iter().collect();
        sessions.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, session) in sessions.into_iter().filter(|(_, session)| session.footing != Footing::Unknown)
        {
            if let Some(turn) = session.turn {
                let error = crate::event::raw(&serde_json::json!({ "message": reason }));
                let end = turn.end(TurnEnd::INTERRUPTED.to_owned(), None, Some(error));
                out.push((name.clone(), Body::TurnEnd(end)));
            }
            out.push((name, Body::Closed(SessionClosed { reason: reason.to_owned() })));
        }
        self.open.clear();
        self.last = None;
    }

    /// Whether a turn of this session is open.
    #[must_use]
    pub fn in_turn(&self, session: &str) -> bool {
        self.sessions.get(session).is_some_and(|session| session.turn.is_some())
    }

    fn update(&mut self, params: &str, frame: &Frame, out: &mut Vec<NarratedEvent>) {
        let Ok(params) = serde_json::from_str::<UpdateParams<'_>>(params) else {
            let dir = Direction::AgentToClient;
            if let Some(session) = self.scope(frame.params()).filter(|session| self.knows(dir, session)) {
                out.push((session, passed(dir, frame)));
            }
            return;
        };
        let name = self.name(&params.session_id);
        let session = self.sessions.entry(name.clone()).or_default();
        if let Some(replayed) = &mut session.loading {
            *replayed += 1;
            return;
        }
        session.footing = Footing::Known;
        if params.meta.is_none()
            && let Some(text) = plain_text(params.update.get())
        {
            if let (Role::Agent, Some(turn)) = (text.role, &mut session.turn) {
                turn.text(&text.text);
            }
            out.push((name, Body::Text(text)));
            return;
        }
        if let Some(turn) = &mut session.turn {
            turn.update(params.update.get());
        }
        let update = Update { update: params.update.to_owned(), meta: params.meta.map(ToOwned::to_owned) };
        out.push((name, Body::Update(update)));
    }

    fn asked(
        &mut self,
        dir: Direction,
        id: &Id,
        method: &str,
        params: Option<&str>,
        frame: &Frame,
        out: &mut Vec<NarratedEvent>,
    ) {
        let session = self.scope(params);
        let open = match (dir, method, session) {
            (
                Direction::ClientToAgent,
                method::SESSION_NEW | method::SESSION_LOAD | method::SESSION_RESUME | method::SESSION_FORK,
                session,
            ) => {
                if let (Some(session), method::SESSION_LOAD) = (&session, method) {
                    self.sessions.entry(session.clone()).or_default().loading = Some(0);
                }
                let params = owned(params.unwrap_or("null"));
                Open::Opening { method: method.to_owned(), params, session }
            }
            // One that comes while a turn runs is told, and its answer, but it is no turn.
            (Direction::ClientToAgent, method::SESSION_PROMPT, Some(session)) if !self.in_turn(&session) => {
                let prompt = member(params, "prompt").unwrap_or_else(|| owned("[]"));
                let known = self.sessions.entry(session.clone()).or_default();
                known.turn = Some(Tally::default());
                if known.footing == Footing::Unknown {
                    known.footing = Footing::Prompted;
                }
                out.push((session.clone(), Body::TurnStart(TurnStart { prompt })));
                Open::Prompt(session)
            }
            (_, _, Some(session)) if !self.knows(dir, &session) => return,
            (Direction::AgentToClient, method::SESSION_REQUEST_PERMISSION, Some(session)) => {
                let params = owned(params.unwrap_or("null"));
                out.push((session.clone(), Body::Permission(Permission { id: id.to_string(), params })));
                Open::Permission(session)
            }
            (Direction::ClientToAgent, method::SESSION_CLOSE | method::SESSION_DELETE, Some(session)) => {
                out.push((session.clone(), passed(dir, frame)));
                Open::Closing(session)
            }
            (_, method, Some(session)) => {
                if let (Direction::AgentToClient, method::FS_WRITE_TEXT_FILE) = (dir, method)
                    && let Some(turn) =
                        self.sessions.get_mut(&session).and_then(|session| session.turn.as_mut())
                {
                    turn.wrote(params);
                }
                out.push((session.clone(), passed(dir, frame)));
                Open::Other(session)
            }
            (_, _, None) => return,
        };
        // A turn ends by its answer, however many requests are open, even if its id is used again.
        let table = self.open.by_mut(dir);
        let is_turn = |open: &Open| matches!(open, Open::Prompt(_));
        if is_turn(&open) || table.len() < MOST_OPEN && !table.get(id).is_some_and(is_turn) {
            let _ = table.replace(id, open);
        }
    }

    /// Whether something about a session is told. Of one that the agent has never opened or spoken of, what the client
    /// says is not, except prompts.
    fn knows(&mut self, dir: Direction, session: &Arc<str>) -> bool {
        if dir == Direction::AgentToClient {
            self.sessions.entry(session.clone()).or_default().footing = Footing::Known;
        }
        self.sessions.get(session).is_some_and(|session| session.footing != Footing::Unknown)
    }

    fn answered(
        &mut self,
        dir: Direction,
        id: &Id,
        reply: Reply<'_>,
        frame: &Frame,
        out: &mut Vec<NarratedEvent>,
    ) {
        let Some(open) = self.open.answered(dir, id) else { return };
        match open {
            Open::Opening { method, params, session } => self.opened(method, params, session, reply, out),
            Open::Prompt(session) => {
                let Some(open) = self.sessions.get_mut(&session) else { return };
                let Some(turn) = open.turn.take() else { return };
                let end = match reply {
                    Reply::Result(result) => {
                        let reason = member(Some(result), "stopReason");
                        let reason = reason.and_then(|reason| serde_json::from_str(reason.get()).ok());
                        turn.end(reason.unwrap_or_else(|| "unknown".to_owned()), Some(owned(result)), None)
                    }
                    Reply::Error(error) => turn.end(TurnEnd::ERROR.to_owned(), None, Some(owned(error))),
                };
                let closing = open.closing;
                let refused = open.footing == Footing::Prompted && end.error.is_some();
                open.footing = Footing::Known;
                out.push((session.clone(), Body::TurnEnd(end)));
                if closing {
                    self.closed(session, "the client closed the session", out);
                } else if refused {
                    self.closed(session, "the agent does not have the session", out);
                }
            }
            Open::Permission(session) => {
                let (result, error) = match reply {
                    Reply::Result(result) => (Some(owned(result)), None),
                    Reply::Error(error) => (None, Some(owned(error))),
                };
                let (id, by) = (id.to_string(), Decider::Client);
                out.push((session, Body::Decision(DecisionEvent { id, by, reason: None, result, error })));
            }
            Open::Closing(session) => {
                out.push((session.clone(), passed(dir, frame)));
                if let Reply::Error(_) = reply {
                    return;
                }
                match self.sessions.get_mut(&session) {
                    Some(open) if open.turn.is_some() => open.closing = true,
                    _ => self.closed(session, "the client closed the session", out),
                }
            }
            Open::Other(session) => out.push((session, passed(dir, frame))),
        }
    }

    fn closed(&mut self, session: Arc<str>, reason: &str, out: &mut Vec<NarratedEvent>) {
        self.sessions.remove(&session);
        self.last.take_if(|last| *last == session);
        out.push((session, Body::Closed(SessionClosed { reason: reason.to_owned() })));
    }

    fn opened(
        &mut self,
        method: String,
        params: Box<RawValue>,
        asked: Option<Arc<str>>,
        reply: Reply<'_>,
        out: &mut Vec<NarratedEvent>,
    ) {
        let replayed = asked
            .as_ref()
            .and_then(|session| self.sessions.get_mut(session))
            .and_then(|session| session.loading.take())
            .unwrap_or_default();
        let Reply::Result(result) = reply else {
            if let Some(session) = asked
                && self.sessions.get(&session).is_some_and(|found| found.footing == Footing::Unknown)
            {
                self.sessions.remove(&session);
            }
            return;
        };
        let Some(session) = self.scope(Some(result)).or(asked) else { return };
        self.sessions.entry(session.clone()).or_default().footing = Footing::Known;
        out.push((session, Body::Session(SessionOpened { method, replayed, params, result: owned(result) })));
    }

    /// The session whose turn is open; of several, the one that was spoken of last.
    fn talking(&self) -> Option<Arc<str>> {
        let last = self.last.as_ref().filter(|last| self.in_turn(last));
        let open = || self.sessions.iter().filter(|(_, session)| session.turn.is_some());
        last.or_else(|| open().map(|(name, _)| name).min()).cloned()
    }

    fn scope(&mut self, params: Option<&str>) -> Option<Arc<str>> {
        let scope: Scope<'_> = serde_json::from_str(params?).ok()?;
        scope.session_id.map(|session| self.name(&session))
    }

    fn name(&mut self, session: &str) -> Arc<str> {
        match &self.last {
            Some(last) if **last == *session => last.clone(),
            _ => {
                let known = self.sessions.get_key_value(session).map(|(name, _)| name.clone());
                let name = known.unwrap_or_else(|| Arc::from(session));
                self.last = Some(name.clone());
                name
            }
        }
    }
}

/// The text of an update that is nothing else.
fn plain_text(update: &str) -> Option<Text> {
    let chunk: Chunk<'_> = serde_json::from_str(update).ok()?;
    let role = match &*chunk.session_update {
        update::AGENT_MESSAGE_CHUNK => Role::Agent,
        update::AGENT_THOUGHT_CHUNK => Role::Thought,
        update::USER_MESSAGE_CHUNK => Role::User,
        _ => return None,
    };
    if chunk.content.kind != "text" {
        return None;
    }
    let message_id = chunk.message_id.map(Cow::into_owned);
    Some(Text { role, message_id, text: chunk.content.text.into_owned(), chunks: 1 })
}

fn passed(dir: Direction, frame: &Frame) -> Body {
    Body::Frame(Passed { dir, frame: owned(frame.text().unwrap_or("null")) })
}

/// A line that is no frame, as text.
fn unreadable(dir: Direction, frame: &Frame) -> Body {
    let text = String::from_utf8_lossy(frame.raw());
    Body::Frame(Passed { dir, frame: crate::event::raw(&serde_json::Value::from(text)) })
}

/// JSON text that was read before, as a value of its own.
fn owned(json: &str) -> Box<RawValue> {
    serde_json::from_str(json).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// One member of an object.
fn member(object: Option<&str>, name: &str) -> Option<Box<RawValue>> {
    let mut members: HashMap<Cow<'_, str>, Box<RawValue>> = serde_json::from_str(object?).ok()?;
    members.remove(name)
}

#[cfg(test)]
mod tests;
