//! What the sessions of a connection share.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use acp_proto::method;
use acp_rpc::{Frame, Id, RpcError};
use serde_json::{Value, json};

use super::effect::AgentEffect;
use super::persona::UnknownModeError;
use super::quirks::{NoQuirks, Quirks};
use super::turn::Pending;
use super::{AgentConfig, ClientCaps, SessionIds};
use crate::script::ScriptState;

/// Settings, client, clock, ids and outgoing effects of one connection.
pub(super) struct Cx {
    pub(super) config: AgentConfig,
    pub(super) now: Duration,
    pub(super) outbox: VecDeque<AgentEffect>,
    /// What the client can do, once it has said so.
    pub(super) client: Option<ClientCaps>,
    /// Sessions whose turn may have something to do, oldest first.
    pub(super) runnable: VecDeque<String>,
    /// The requests of this agent that the client has not answered.
    pub(super) pending: BTreeMap<i64, Pending>,
    pub(super) next_request: i64,
    next_number: u64,
    /// How many prompts began.
    pub(super) prompts: u64,
    pub(super) script: Option<ScriptState>,
    pub(super) quirks: Box<dyn Quirks>,
}

impl Cx {
    pub(super) fn new(config: AgentConfig) -> Self {
        let script = config.script.clone().map(ScriptState::new);
        Self {
            config,
            now: Duration::ZERO,
            outbox: VecDeque::new(),
            client: None,
            runnable: VecDeque::new(),
            pending: BTreeMap::new(),
            next_request: 0,
            next_number: 0,
            prompts: 0,
            script,
            quirks: Box::new(NoQuirks),
        }
    }

    pub(super) fn send(&mut self, frame: Frame) {
        self.outbox.push_back(AgentEffect::Send(frame));
    }

    pub(super) fn respond(&mut self, id: &Id, result: &Value) {
        self.send(Frame::response(id, result));
    }

    pub(super) fn refuse(&mut self, id: &Id, error: &RpcError) {
        self.send(Frame::failure(id, error));
    }

    pub(super) fn notify(&mut self, method: &str, params: &Value) {
        self.send(Frame::notification(method, params));
    }

    /// Sends a `session/update`.
    pub(super) fn update(&mut self, session: &str, update: &Value) {
        self.notify(method::SESSION_UPDATE, &json!({ "sessionId": session, "update": update }));
    }

    /// What the client can do; nothing before `initialize`.
    pub(super) fn caps(&self) -> ClientCaps {
        self.client.unwrap_or_default()
    }

    /// The id of the mode that a client calls so; an error with the names of all modes when there is none.
    pub(super) fn mode_called(&self, name: &str) -> Result<&str, UnknownModeError> {
        let persona = &self.config.persona;
        let found = match self.config.form.mode_aliases {
            true => persona.mode(name),
            false => persona.modes.iter().find(|mode| mode.id == name),
        };
        found.map(|mode| mode.id.as_str()).ok_or_else(|| UnknownModeError(persona.no_mode(name)))
    }

    /// Lets the turn of this session go on.
    pub(super) fn schedule(&mut self, session: &str) {
        if !self.runnable.iter().any(|id| id == session) {
            self.runnable.push_back(session.to_owned());
        }
    }

    /// A number that this agent never gave before.
    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(super) fn fresh_id(&mut self, kind: &str) -> String {
        let number = self.number();
        format!("{kind}_{}_{number}", self.config.id_prefix)
    }

    /// The id of a new session.
    pub(super) fn session_id(&mut self) -> String {
        let next_number = &mut self.next_number;
        let mut number = || {
            *next_number += 1;
            *next_number
        };
        if let Some(id) = self.quirks.session_id(&mut number) {
            return id;
        }
        let usual = self.fresh_id("sess");
        match self.config.habits.session_ids {
            SessionIds::Usual => usual,
            SessionIds::Uuid => {
                let number = self.next_number;
                let mark = usual
                    .bytes()
                    .fold(0u64, |mark, byte| mark.wrapping_mul(31).wrapping_add(u64::from(byte)));
                format!("{:08x}-7a31-4c55-9b3e-{:012x}", mark & 0xffff_ffff, number)
            }
            SessionIds::Odd => format!("{usual}:{}/\u{e4} \"'%2F{}", "~".repeat(40), "x".repeat(120)),
        }
    }

    /// Milliseconds of the Unix epoch.
    pub(super) fn wall_clock(&self) -> u64 {
        u64::try_from((self.config.started + self.now).as_millis()).unwrap_or(u64::MAX)
    }

    /// When a request that comes now has waited too long.
    pub(super) fn request_deadline(&self) -> Option<Duration> {
        self.config.limits.request.map(|limit| self.now + limit)
    }
}
