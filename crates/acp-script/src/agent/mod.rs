//! The conforming agent: the whole of stable ACP v1 as a state machine.
//!
//! Frames, answers of the world and the time go in ([`Agent::receive`], [`Agent::tick`], [`Agent::mcp_connected`],
//! …); [`Agent::poll_effect`] gives out what is to be done, one effect at a time, so that a slow reader slows the
//! agent instead of filling memory.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use acp_policy::{Policy, ToolPatterns};
use acp_proto::{error_code, method};
use acp_rpc::{Flaw, Frame, Id, Reply, RpcError, View};
use serde_json::{Value, json};

mod asking;
mod calls;
mod cancel;
mod client;
mod compact;
mod config;
mod delegate;
mod digest;
mod edits;
mod effect;
mod elicit;
mod habits;
mod job;
mod journal;
mod mcp;
mod methods;
mod offers;
mod params;
mod permits;
mod persona;
mod plain;
mod plan;
mod record;
mod reports;
mod scripted;
mod session;
mod sessions;
mod step;
mod terminal;
mod think;
mod tools;
mod turn;

pub use client::ClientCaps;
pub use config::{AgentConfig, Auth, Declarations, Fence};
pub use effect::{
    Counted, Effect, McpKey, McpTool, Question, Thought, ThoughtEnd, Token, ToolOutput, ToolUse, Wanted,
};
pub use habits::{
    Asking, Chunks, Connecting, Feature, Habits, Keeping, LoginGate, Means, SecondPrompt, SessionIds,
};
pub use job::TOOL_NAMES;
pub use journal::{Journal, JournalEntry};
pub use persona::{ConfigOption, Help, Login, Mode, OptionKind, Persona, SlashCommand};
pub use record::{Cut, Digest, Later, Record, Round, Seal, refused, timestamp};

use crate::script::ScriptState;
use crate::switch::Switch;
use params::Params;
use session::Session;
use sessions::Parked;
use turn::Pending;

/// One connection's agent.
///
/// ```text
///          initialize              session/new, load, resume
///  Fresh ─────────────► Ready ◄──────────────────────────────► Session: Idle ◄─► Turn
/// ```
pub struct Agent {
    config: AgentConfig,
    now: Duration,
    outbox: VecDeque<Effect>,
    client: Option<ClientCaps>,
    settled: bool,
    signed_in: bool,
    /// Whether the connection has shown the token.
    admitted: bool,
    sessions: BTreeMap<String, Session>,
    /// Sessions whose turn may have something to do, oldest first.
    runnable: VecDeque<String>,
    pending: BTreeMap<i64, Pending>,
    parked: BTreeMap<Token, (Option<Duration>, Parked)>,
    next_request: i64,
    next_number: u64,
    /// How many prompts began.
    prompts: u64,
    journal: Journal,
    script: Option<ScriptState>,
    /// The word that an agent with a shared memory tells everyone.
    gossip: Option<String>,
}

impl Agent {
    /// An agent that has heard nothing yet.
    pub fn new(mut config: AgentConfig) -> Self {
        config.persona.give_up(&config.habits);
        let signed_in = config.auth == Auth::SignedIn && config.habits.login != LoginGate::Required;
        let script = config.script.clone().map(ScriptState::new);
        Self {
            config,
            now: Duration::ZERO,
            outbox: VecDeque::new(),
            client: None,
            settled: false,
            signed_in,
            admitted: false,
            sessions: BTreeMap::new(),
            runnable: VecDeque::new(),
            pending: BTreeMap::new(),
            parked: BTreeMap::new(),
            next_request: 0,
            next_number: 0,
            prompts: 0,
            journal: Journal::default(),
            script,
            gossip: None,
        }
    }

    /// Takes one frame from the client.
    pub fn receive(&mut self, now: Duration, frame: &Frame) {
        self.now = self.now.max(now);
        self.journal.note(self.now, frame);
        if self.script.is_some() && self.follow_script(frame) {
            return;
        }
        match frame.view() {
            View::Request { id, method, params } => self.asked(id, method, params),
            View::Notification { method, params } => self.told(method, params),
            View::Response { id, reply } => self.heard(id, &reply),
            View::Batch(_) => self.refuse(&Id::Null, &invalid_request("batches are not supported")),
            View::Malformed(flaw) => self.malformed(frame, flaw),
        }
    }

    /// Lets the time pass.
    pub fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
        self.wake();
        self.give_up();
    }

    /// When [`Agent::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Duration> {
        let turns = self.sessions.values().filter_map(|session| session.turn.as_ref()?.wake_at());
        turns.chain(self.parked_until()).min()
    }

    /// The next thing to do, if there is one.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        loop {
            if let Some(effect) = self.outbox.pop_front() {
                return Some(effect);
            }
            let id = self.runnable.pop_front()?;
            if self.advance(&id) {
                self.runnable.push_back(id);
            }
        }
    }

    /// What the client did so far.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What the client did not do as the script's `verify` says.
    pub fn complaints(&self) -> Vec<String> {
        self.script.as_ref().map(ScriptState::complaints).unwrap_or_default()
    }

    /// Whether somebody is signed in, or nobody has to be.
    pub fn signed_in(&self) -> bool {
        self.signed_in
    }

    /// The token that clients must show, if there is one.
    pub fn token(&self) -> Option<&str> {
        match &self.config.auth {
            Auth::Required(token) => token.as_deref(),
            Auth::Token(token) => Some(token),
            Auth::SignedIn => None,
        }
    }

    /// The client has shown the token before it said anything else: it is signed in, and after `logout` need not show it
    /// again.
    pub fn admit(&mut self) {
        (self.admitted, self.signed_in) = (true, true);
    }

    /// Whether a turn is running in any session.
    pub fn busy(&self) -> bool {
        self.sessions.values().any(|session| session.turn.is_some())
    }

    fn malformed(&mut self, frame: &Frame, flaw: &Flaw) {
        if matches!(flaw, Flaw::Blank) {
            return;
        }
        // An answer is never answered, but it ends the wait for it, however bad it is.
        if frame.method().is_none() && (frame.result().is_some() || frame.error().is_some()) {
            if let Some(id) = frame.id() {
                self.settle(id, Err(RpcError::internal(format!("the answer is malformed: {flaw}"))));
            }
            return;
        }
        // Null only where nobody can tell which id is meant.
        let clear =
            flaw.code() == error_code::INVALID_REQUEST && !matches!(flaw, Flaw::DuplicateMember("id"));
        let id = frame.id().filter(|_| clear).unwrap_or(&Id::Null);
        self.refuse(id, &RpcError::new(flaw.code(), flaw.to_string()));
    }

    fn asked(&mut self, id: &Id, method: &str, params: Option<&str>) {
        let outcome = match Params::parse(params) {
            _ if !methods::is_request(method) => Err(RpcError::method_not_found(method)),
            Err(error) => Err(error),
            Ok(_)
                if self.client.is_none()
                    && method != method::INITIALIZE
                    && !self.wrong(Switch::NoHandshake) =>
            {
                Err(invalid_request("not initialized: send initialize first"))
            }
            Ok(params) => self.serve(id, method, &params),
        };
        if let Err(error) = outcome {
            self.refuse(id, &error);
        }
    }

    fn told(&mut self, method: &str, params: Option<&str>) {
        let Ok(params) = Params::parse(params) else { return };
        match method {
            method::SESSION_CANCEL => {
                if let Ok(session) = params.text("sessionId") {
                    let session = session.to_owned();
                    self.cancel(&session, turn::Cancel::Session);
                }
            }
            method::CANCEL_REQUEST => {
                let Some(id) = params.value().get("requestId").and_then(|id| Id::parse(&id.to_string()))
                else {
                    return;
                };
                self.cancel_request(&id);
            }
            _ => {}
        }
    }

    fn heard(&mut self, id: &Id, reply: &Reply<'_>) {
        let answer = match reply {
            Reply::Result(result) => Ok(serde_json::from_str(result).unwrap_or(Value::Null)),
            Reply::Error(error) => Err(RpcError::parse(error).unwrap_or_else(|_| {
                RpcError::internal(format!("an error that is not an error object: {error}"))
            })),
        };
        self.settle(id, answer);
    }

    /// What the client made of a request of this agent.
    fn settle(&mut self, id: &Id, answer: Result<Value, RpcError>) {
        let Id::Int(id) = id else { return };
        let Some(pending) = self.pending.remove(id) else { return };
        self.reply(pending, answer);
    }

    fn respond(&mut self, id: &Id, result: &Value) {
        self.outbox.push_back(Effect::Send(Frame::response(id, result)));
    }

    fn refuse(&mut self, id: &Id, error: &RpcError) {
        self.outbox.push_back(Effect::Send(Frame::failure(id, error)));
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.outbox.push_back(Effect::Send(Frame::notification(method, params)));
    }

    fn update(&mut self, session: &str, update: &Value) {
        if !self.is_root(session) {
            return self.child_update(session, update);
        }
        self.notify(method::SESSION_UPDATE, &json!({ "sessionId": session, "update": update }));
    }

    /// What the client can do; nothing before `initialize`.
    fn caps(&self) -> ClientCaps {
        self.client.unwrap_or_default()
    }

    /// Whether this wrong behaviour is wished.
    fn wrong(&self, switch: Switch) -> bool {
        self.config.switches.contains(&switch)
    }

    /// A number that this agent never gave before.
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Where an open session works: its folder, and its further roots.
    pub fn folders(&self, session: &str) -> Option<(&str, &[String])> {
        let record = &self.sessions.get(session)?.record;
        Some((&record.cwd, &record.roots))
    }

    /// Whether nothing may be changed in this session.
    pub fn planning(&self, session: &str) -> bool {
        let mode = self.sessions.get(self.outward(session)).map_or("", |open| open.record.mode.as_str());
        self.config.persona.policy(mode) == Policy::Plan
    }

    /// Whether a tool that fails ends the prompt with an error, from now on.
    pub fn set_tool_errors(&mut self, strict: bool) {
        self.config.tool_errors = strict;
    }

    /// Whether the client may call modes by their other names, from now on.
    pub fn set_mode_aliases(&mut self, allowed: bool) {
        self.config.mode_aliases = allowed;
    }

    /// The id of the mode that a client calls so; an error with the names of all modes when there is none.
    pub fn mode_called(&self, name: &str) -> Result<&str, String> {
        let persona = &self.config.persona;
        let found = match self.config.mode_aliases {
            true => persona.mode(name),
            false => persona.modes.iter().find(|mode| mode.id == name),
        };
        found.map(|mode| mode.id.as_str()).ok_or_else(|| persona.no_mode(name))
    }

    /// Calls modes by these of their names, from now on.
    pub fn call_modes(&mut self, names: &[&str]) {
        self.config.persona.call_modes(names);
    }

    /// Closes modes to the client, for this reason, from now on.
    pub fn bar_modes(&mut self, closed: impl Fn(&Mode) -> bool, reason: &str) {
        self.config.persona.bar(closed, reason);
    }

    /// Whether the client can be asked for permission, from now on.
    pub fn set_askable(&mut self, askable: bool) {
        self.config.askable = askable;
    }

    /// Whether plans are said in words too, from now on.
    pub fn set_plans_in_words(&mut self, words: bool) {
        self.config.plans_in_words = words;
    }

    /// Whether nothing may be changed in some open session.
    pub fn planning_anywhere(&self) -> bool {
        self.sessions.keys().any(|session| self.planning(session))
    }

    /// Tools that need no permission, from now on.
    pub fn allow(&mut self, patterns: ToolPatterns) {
        self.config.allow = patterns;
    }

    /// The value of a config option in a session.
    fn option(&self, session: &str, id: &str) -> Option<Value> {
        let record = &self.sessions.get(session)?.record;
        let option = self.config.persona.options.iter().find(|option| option.id == id)?;
        Some(option.value(record))
    }

    /// The id of a new session.
    fn session_id(&mut self) -> String {
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

    fn fresh_id(&mut self, kind: &str) -> String {
        let number = self.number();
        format!("{kind}_{}_{number}", self.config.id_prefix)
    }

    /// Milliseconds of the Unix epoch.
    fn wall_clock(&self) -> u64 {
        u64::try_from((self.config.started + self.now).as_millis()).unwrap_or(u64::MAX)
    }
}

fn invalid_request(message: &str) -> RpcError {
    RpcError::new(error_code::INVALID_REQUEST, message)
}
