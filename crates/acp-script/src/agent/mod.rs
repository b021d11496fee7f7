//! The conforming agent: the whole of stable ACP v1 as a state machine.
//!
//! Frames, answers of the world and the time go in ([`Agent::receive`], [`Agent::tick`], [`Agent::mcp_connected`],
//! …); [`Agent::poll_effect`] gives out what is to be done, one effect at a time, so that a slow reader slows the
//! agent instead of filling memory.
//!
//! The agent only routes: it finds the session or the turn that a frame is for. An `ActiveTurn` borrows the turn, its
//! session, and what all sessions share (`Cx`), so no step can find its turn gone. A session owns those that work on
//! its delegated tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_policy::{Policy, ToolPatterns};
use acp_proto::{error_code, method};
use acp_rpc::{Flaw, Frame, Id, Reply, RpcError, View};
use serde_json::Value;

mod asking;
mod calls;
mod cancel;
mod chunks;
mod client;
mod compact;
mod config;
mod cx;
mod delegate;
mod digest;
mod edits;
mod effect;
mod elicit;
mod fulfil;
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
mod quirks;
mod record;
mod scripted;
mod session;
mod sessions;
mod step;
mod terminal;
mod think;
mod tools;
mod turn;

pub use client::ClientCaps;
pub use config::{
    AgentAbilities, AgentConfig, AgentLimits, Auth, Declarations, Fence, FormNeeds, MessagePace, PromptError,
    ToolRules, UserHints,
};
pub use effect::{
    AgentEffect, Counted, McpKey, McpTool, ModelQuestion, QuestionKind, Thought, ThoughtEnd, Token,
    ToolOutput, ToolUse,
};
pub use habits::{
    Asking, Chunks, Connecting, Feature, Habits, Keeping, LoginGate, Means, SecondPrompt, SessionIds,
};
pub use job::TOOL_NAMES;
pub use journal::{ClientJournal, JournalEntry};
pub(crate) use methods::unknown_session;
pub use persona::{ConfigOption, Help, Login, Mode, OptionKind, Persona, SlashCommand, UnknownModeError};
pub(crate) use quirks::Quirks;
pub use record::{Cut, Digest, Later, Round, SealedThought, SessionRecord, refused, timestamp};

use crate::script::ScriptState;
use cx::Cx;
use params::Params;
use session::OpenSession;
use sessions::Parked;
use turn::{ActiveTurn, Turn, Wait};

/// One connection's agent.
///
/// ```text
///          initialize              session/new, load, resume
///  Fresh ─────────────► Ready ◄──────────────────────────────► Session: Idle ◄─► Turn
/// ```
///
/// It only routes: a frame goes to its session or to the turn that waits for it ([`turn::ActiveTurn`]), which share what
/// [`cx::Cx`] has.
pub struct Agent {
    cx: Cx,
    settled: bool,
    signed_in: bool,
    /// Whether the connection has shown the token.
    admitted: bool,
    sessions: BTreeMap<String, OpenSession>,
    parked: BTreeMap<Token, (Option<Duration>, Parked)>,
    journal: ClientJournal,
}

impl Agent {
    /// An agent that has heard nothing yet. It behaves well: only [`crate::MockAgent`] makes agents with defects.
    ///
    /// ```compile_fail,E0624
    /// # use acp_script::agent::{Agent, AgentConfig};
    /// Agent::new(AgentConfig::default()).set_quirks(todo!());
    /// ```
    pub fn new(mut config: AgentConfig) -> Self {
        config.persona.give_up(&config.habits);
        let signed_in = config.auth == Auth::SignedIn && config.habits.login != LoginGate::Required;
        Self {
            cx: Cx::new(config),
            settled: false,
            signed_in,
            admitted: false,
            sessions: BTreeMap::new(),
            parked: BTreeMap::new(),
            journal: ClientJournal::default(),
        }
    }

    /// Makes it wrong in these ways.
    pub(crate) fn set_quirks(&mut self, quirks: Box<dyn Quirks>) {
        self.cx.quirks = quirks;
    }

    /// Takes one frame from the client.
    pub fn receive(&mut self, now: Duration, frame: &Frame) {
        self.pass_time(now);
        self.journal.note(self.cx.now, frame);
        if self.cx.script.is_some() && self.follow_script(frame) {
            return;
        }
        match frame.view() {
            View::Request { id, method, params } => self.on_request(id, method, params),
            View::Notification { method, params } => self.on_notification(method, params),
            View::Response { id, reply } => self.on_response(id, &reply),
            View::Batch(_) => self.cx.refuse(&Id::Null, &invalid_request("batches are not supported")),
            View::Malformed(flaw) => self.on_malformed(frame, flaw),
        }
    }

    /// Lets the time pass.
    pub fn tick(&mut self, now: Duration) {
        self.pass_time(now);
        self.wake();
        self.give_up();
    }

    fn pass_time(&mut self, now: Duration) {
        self.cx.now = self.cx.now.max(now);
    }

    /// When [`Agent::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Duration> {
        let turns = self.turns().filter_map(|(_, turn)| turn.wake_at());
        turns.chain(self.parked_until()).min()
    }

    /// The next thing to do, if there is one.
    pub fn poll_effect(&mut self) -> Option<AgentEffect> {
        loop {
            if let Some(effect) = self.cx.outbox.pop_front() {
                return Some(effect);
            }
            let id = self.cx.runnable.pop_front()?;
            if self.advance(&id) {
                self.cx.runnable.push_back(id);
            }
        }
    }

    /// What the client did so far.
    pub fn journal(&self) -> &ClientJournal {
        &self.journal
    }

    /// What the client did not do as the script's `verify` says.
    pub fn complaints(&self) -> Vec<String> {
        self.cx.script.as_ref().map(ScriptState::complaints).unwrap_or_default()
    }

    /// Whether somebody is signed in, or nobody has to be.
    pub fn signed_in(&self) -> bool {
        self.signed_in
    }

    /// The token that clients must show, if there is one.
    pub fn token(&self) -> Option<&str> {
        match &self.cx.config.auth {
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
        self.sessions.values().any(|open| open.turn.is_some())
    }

    /// Whether a turn is running in this session.
    pub(crate) fn is_running(&self, session: &str) -> bool {
        self.sessions.get(session).is_some_and(|open| open.turn.is_some())
    }

    /// The sessions in which a turn is running.
    pub(crate) fn running_sessions(&self) -> Vec<String> {
        let running = self.sessions.iter().filter(|(_, open)| open.turn.is_some());
        running.map(|(id, _)| id.clone()).collect()
    }

    /// Milliseconds of the Unix epoch.
    pub(crate) fn wall_clock(&self) -> u64 {
        self.cx.wall_clock()
    }

    /// The running turns, those of delegated tasks among them, by their sessions.
    fn turns(&self) -> impl Iterator<Item = (&String, &Turn)> {
        let all =
            self.sessions.iter().flat_map(|(id, open)| std::iter::once((id, open)).chain(&open.children));
        all.filter_map(|(id, open)| Some((id, open.turn.as_ref()?)))
    }

    /// The running turn of this session, which may be one that works on a delegated task.
    fn turn(&mut self, session: &str) -> Option<ActiveTurn<'_>> {
        if self.sessions.contains_key(session) {
            return self.sessions.get_mut(session)?.active(&mut self.cx);
        }
        let (parent, cx) = self.parent_of(session)?;
        parent.active_child(cx, session)
    }

    /// The session that delegated a task to this one.
    fn parent_of(&mut self, child: &str) -> Option<(&mut OpenSession, &mut Cx)> {
        let parent = self.sessions.values_mut().find(|open| open.children.contains_key(child))?;
        Some((parent, &mut self.cx))
    }

    /// The turn that waits for this.
    fn waiting(&mut self, is_it: impl Fn(&Wait) -> bool) -> Option<ActiveTurn<'_>> {
        let mut turns = self.turns();
        let found = turns.find(|(_, turn)| turn.wait.as_ref().is_some_and(&is_it));
        let session = found?.0.clone();
        drop(turns);
        self.turn(&session)
    }

    fn on_malformed(&mut self, frame: &Frame, flaw: &Flaw) {
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
        self.cx.refuse(id, &RpcError::new(flaw.code(), flaw.to_string()));
    }

    fn on_request(&mut self, id: &Id, method: &str, params: Option<&str>) {
        let outcome = match Params::parse(params) {
            _ if !methods::is_request(method) => Err(RpcError::method_not_found(method)),
            Err(error) => Err(error),
            Ok(_) if self.cx.client.is_none() && method != method::INITIALIZE => {
                Err(invalid_request("not initialized: send initialize first"))
            }
            Ok(params) => self.serve(id, method, &params),
        };
        if let Err(error) = outcome {
            self.cx.refuse(id, &error);
        }
    }

    fn on_notification(&mut self, method: &str, params: Option<&str>) {
        let Ok(params) = Params::parse(params) else { return };
        match method {
            method::SESSION_CANCEL => {
                if let Ok(session) = params.text("sessionId") {
                    self.cancel(session, turn::Cancel::Session);
                }
            }
            method::CANCEL_REQUEST => {
                let id = params.value().get("requestId").and_then(|id| Id::parse(&id.to_string()));
                if let Some(id) = id {
                    self.cancel_request(&id);
                }
            }
            _ => {}
        }
    }

    fn on_response(&mut self, id: &Id, reply: &Reply<'_>) {
        let answer = match reply {
            Reply::Result(result) => Ok(serde_json::from_str(result).unwrap_or(Value::Null)),
            Reply::Error(error) => Err(RpcError::parse(error).unwrap_or_else(|_| {
                RpcError::internal(format!("an error that is not an error object: {error}"))
            })),
        };
        self.settle(id, answer);
    }

    /// Where an open session works: its folder, and its further roots.
    pub fn folders(&self, session: &str) -> Option<(&str, &[String])> {
        let record = &self.sessions.get(session)?.session.record;
        Some((&record.cwd, &record.roots))
    }

    /// Whether nothing may be changed in this session.
    pub fn planning(&self, session: &str) -> bool {
        let mode = self.sessions.get(session).map_or("", |open| open.session.record.mode.as_str());
        self.cx.config.persona.policy(mode) == Policy::Plan
    }

    /// Tells the person about something that went wrong beside the turn: as a notice, or with the next answer.
    pub fn warn(&mut self, session: &str, title: &str, description: &str) {
        if let Some(open) = self.sessions.get_mut(session) {
            open.session.warn(&mut self.cx, title, description);
        }
    }

    /// Whether a tool that fails ends the prompt with an error, from now on.
    pub fn set_tool_errors(&mut self, strict: bool) {
        self.cx.config.form.tool_errors = strict;
    }

    /// Whether the client may call modes by their other names, from now on.
    pub fn set_mode_aliases(&mut self, allowed: bool) {
        self.cx.config.form.mode_aliases = allowed;
    }

    /// The id of the mode that a client calls so; an error with the names of all modes when there is none.
    pub fn mode_called(&self, name: &str) -> Result<&str, UnknownModeError> {
        self.cx.mode_called(name)
    }

    /// Calls modes by these of their names, from now on.
    pub fn call_modes(&mut self, names: &[&str]) {
        self.cx.config.persona.call_modes(names);
    }

    /// Closes modes to the client, for this reason, from now on.
    pub fn bar_modes(&mut self, closed: impl Fn(&Mode) -> bool, reason: &str) {
        self.cx.config.persona.bar(closed, reason);
    }

    /// Whether the client can be asked for permission, from now on.
    pub fn set_askable(&mut self, askable: bool) {
        self.cx.config.form.askable = askable;
    }

    /// Whether plans are said in words too, from now on.
    pub fn set_plans_in_words(&mut self, words: bool) {
        self.cx.config.form.plans_in_words = words;
    }

    /// Whether nothing may be changed in some open session.
    pub fn planning_anywhere(&self) -> bool {
        self.sessions.keys().any(|session| self.planning(session))
    }

    /// Tools that need no permission, from now on.
    pub fn allow(&mut self, patterns: ToolPatterns) {
        self.cx.config.rules.allow = patterns;
    }
}

fn invalid_request(message: &str) -> RpcError {
    RpcError::new(error_code::INVALID_REQUEST, message)
}
