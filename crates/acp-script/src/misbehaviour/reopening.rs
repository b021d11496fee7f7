//! Wrong when a session is opened again.

use std::collections::{BTreeMap, BTreeSet};

use acp_proto::method;
use acp_rpc::{Frame, View};
use serde_json::{Value, json};

use super::{Around, Misbehaviour, read, session_of};
use crate::agent::{AgentEffect, SessionRecord, Token};

/// Which sessions are to be loaded, and which to be resumed.
#[derive(Default)]
struct Loads(BTreeSet<String>);

impl Loads {
    fn note(&mut self, frame: &Frame) {
        self.0.extend(session_of(frame, &[method::SESSION_LOAD]));
        if let Some(session) = session_of(frame, &[method::SESSION_RESUME]) {
            self.0.remove(&session);
        }
    }

    fn has(&self, record: &SessionRecord) -> bool {
        self.0.contains(&record.id)
    }
}

/// Stores the session without its history.
fn store_emptied(record: &SessionRecord, around: &mut Around<'_>) {
    let emptied = SessionRecord { history: Vec::new(), ..record.clone() };
    around.effects.push_back(AgentEffect::StoreSession(Box::new(emptied)));
}

/// Empties a session's history when it is loaded.
#[derive(Default)]
pub(super) struct EraseOnLoad(Loads);

impl Misbehaviour for EraseOnLoad {
    fn incoming(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        self.0.note(&frame);
        Some(frame)
    }

    fn fetched(&mut self, _: Token, record: Option<&mut SessionRecord>, around: &mut Around<'_>) -> bool {
        let Some(record) = record else { return true };
        if self.0.has(record) {
            record.history.clear();
            store_emptied(record, around);
        }
        true
    }
}

/// Keeps nothing of a session's history once it was replayed.
#[derive(Default)]
pub(super) struct ForgetsAfterLoad {
    loads: Loads,
    /// How many entries of a session's history are forgotten.
    forgotten: BTreeMap<String, usize>,
}

impl Misbehaviour for ForgetsAfterLoad {
    fn incoming(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        self.loads.note(&frame);
        Some(frame)
    }

    fn fetched(&mut self, _: Token, record: Option<&mut SessionRecord>, around: &mut Around<'_>) -> bool {
        let Some(record) = record else { return true };
        let forgotten = if self.loads.has(record) { record.history.len() } else { 0 };
        self.forgotten.insert(record.id.clone(), forgotten);
        if self.loads.has(record) {
            store_emptied(record, around);
        }
        true
    }

    fn outgoing(&mut self, mut effect: AgentEffect, _: &mut Around<'_>) -> Option<AgentEffect> {
        if let AgentEffect::StoreSession(record) = &mut effect
            && let Some(forgotten) = self.forgotten.get(&record.id)
        {
            record.history.drain(..(*forgotten).min(record.history.len()));
        }
        Some(effect)
    }
}

/// A resumed session has forgotten the word that it was told.
#[derive(Default)]
pub(super) struct ResumeForgets(Loads);

impl Misbehaviour for ResumeForgets {
    fn incoming(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        self.0.note(&frame);
        Some(frame)
    }

    fn fetched(&mut self, _: Token, record: Option<&mut SessionRecord>, _: &mut Around<'_>) -> bool {
        let Some(record) = record else { return true };
        if !self.0.has(record) {
            record.word = None;
        }
        true
    }
}

/// Keeps nothing of what happens in a session after it was loaded or resumed.
#[derive(Default)]
pub(super) struct KeepsNothing(BTreeSet<String>);

impl Misbehaviour for KeepsNothing {
    fn fetched(&mut self, _: Token, record: Option<&mut SessionRecord>, _: &mut Around<'_>) -> bool {
        let Some(record) = record else { return true };
        self.0.insert(record.id.clone());
        true
    }

    fn outgoing(&mut self, effect: AgentEffect, _: &mut Around<'_>) -> Option<AgentEffect> {
        match &effect {
            AgentEffect::StoreSession(record) if self.0.contains(&record.id) => None,
            _ => Some(effect),
        }
    }
}

/// Keeps additional roots that a later load or resume does not list: the request waits until the session was looked up,
/// and reaches the agent with the roots of before.
#[derive(Default)]
pub(super) struct KeepsRoots {
    waiting: BTreeMap<Token, Frame>,
}

impl Misbehaviour for KeepsRoots {
    fn incoming(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let Some(session) = session_of(&frame, &[method::SESSION_LOAD, method::SESSION_RESUME]) else {
            return Some(frame);
        };
        let listed = &read(frame.params())["additionalDirectories"];
        if listed.as_array().is_some_and(|roots| !roots.is_empty()) {
            return Some(frame);
        }
        let token = Token::MAX - self.waiting.len() as Token;
        self.waiting.insert(token, frame);
        around.effects.push_back(AgentEffect::FetchSession { token, id: session });
        None
    }

    fn fetched(&mut self, token: Token, record: Option<&mut SessionRecord>, around: &mut Around<'_>) -> bool {
        let Some(frame) = self.waiting.remove(&token) else { return true };
        if let View::Request { id, method, params } = frame.view() {
            let mut params: Value = read(params);
            if let Some(record) = record.filter(|record| !record.roots.is_empty()) {
                params["additionalDirectories"] = json!(record.roots);
            }
            around.agent.receive(around.now, &Frame::request(id, method, &params));
        }
        false
    }
}
