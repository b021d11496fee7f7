//! The judge: frames in, findings and coverage out.
//!
//! A frame that is broken but clear is reported and then judged by what it says. Only where nobody can know what is
//! meant (shared ids, unreadable lines) does the judge keep silent.

use std::time::Duration;

use acp_proto::{Side, error_code, method};
use acp_rpc::{Direction, Frame, Id, Reply, View};

use crate::coverage::Coverage;
use crate::cx::{Cx, Report};
use crate::finding::Finding;
use crate::grade::Grade;
use crate::history::SessionHistory;
use crate::json::{Json, Tape};
use crate::rule::{passive, rules};
use crate::rules::schema::{Part, Subject, Verdict, check};
use crate::rules::{
    codes, config, elicitation, end, envelope, extension, files, handshake, ids, listing, load, modes,
    permissions, sessions, terminals, turns, updates,
};
use crate::state::{Ask, Open, Phase, State};

/// How a conversation ended, which decides who can be blamed for what is left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConversationEnd {
    /// The client closed the connection after it had waited for what it had asked for.
    #[default]
    ClientClosed,
    /// The client left without waiting: the agent is not blamed for answers that are missing.
    ClientLeft,
    /// The agent went away.
    AgentExited,
    /// Nobody knows: what is missing warns.
    Unknown,
    /// The recording was cut: nobody is blamed for what is missing.
    Cut,
}

/// How to judge.
#[derive(Debug, Clone)]
pub struct JudgeConfig {
    /// How many findings of one rule and side are kept; the rest is counted.
    pub per_rule: u64,
    /// How the conversation ends, unless [`Judge::set_ending`] says otherwise later.
    pub ending: ConversationEnd,
    /// A request that was open for less time than this when the client closed is not held against the agent.
    pub patience: Duration,
}

impl Default for JudgeConfig {
    fn default() -> Self {
        Self { per_rule: 20, ending: ConversationEnd::default(), patience: Duration::from_millis(200) }
    }
}

/// Judges one conversation. Show it every frame of both directions in order, then close it.
///
/// What one side sends badly is only ever held against that side: an agent may answer nonsense with an error or
/// not at all, and is not blamed for it beyond a warning.
#[derive(Debug)]
pub struct Judge {
    config: JudgeConfig,
    state: State,
    report: Report,
    tape: Tape,
    index: u64,
    told: usize,
    closed: bool,
    input_ended: Option<Duration>,
    marked: [bool; 2],
}

impl Judge {
    /// A judge for a new conversation.
    #[must_use]
    pub fn new(config: JudgeConfig) -> Self {
        let report = Report::new(config.per_rule);
        Self {
            config,
            state: State::new(),
            report,
            tape: Tape::default(),
            index: 0,
            told: 0,
            closed: false,
            input_ended: None,
            marked: [false; 2],
        }
    }

    /// A judge for a further connection to the same agent, with what the earlier ones left.
    #[must_use]
    pub fn after(config: JudgeConfig, history: SessionHistory) -> Self {
        let mut judge = Self::new(config);
        history.put(&mut judge.state);
        judge
    }

    /// What this connection leaves for the next one, once it is over.
    pub fn take_history(&mut self) -> SessionHistory {
        SessionHistory::of(&mut self.state)
    }

    /// The next frame. `at` is the time since the conversation began.
    pub fn observe(&mut self, at: Duration, dir: Direction, frame: &Frame) {
        let index = self.index;
        self.index += 1;
        let mut cx = Cx { report: &mut self.report, frame: Some(frame), index, at, dir };
        let state = &mut self.state;
        let marked = envelope::has_mark(frame);
        if marked {
            envelope::mark(state, &mut cx);
        }
        match frame.view() {
            View::Malformed(flaw) => {
                envelope::malformed(state, &mut cx, frame, flaw);
                if let Some(view) = envelope::readable(cx.sender(), frame, flaw) {
                    said(state, &mut cx, &mut self.tape, view, true);
                }
            }
            View::Batch(frames) => envelope::batch(state, &mut cx, frames),
            view => {
                envelope::good(state, &mut cx, frame);
                said(state, &mut cx, &mut self.tape, view, marked);
            }
        }
    }

    /// The stream of one side began with a byte order mark, which its first frame no longer has. Told as often as one
    /// likes before that frame.
    pub fn saw_mark(&mut self, at: Duration, dir: Direction) {
        if !std::mem::replace(&mut self.marked[dir.sender() as usize], true) {
            let mut cx = Cx { report: &mut self.report, frame: None, index: self.index, at, dir };
            envelope::mark(&mut self.state, &mut cx);
        }
    }

    /// Says how the conversation ended, before [`close`](Self::close).
    pub fn set_ending(&mut self, ending: ConversationEnd) {
        self.config.ending = ending;
    }

    /// The conversation is over: judges what had to happen by its end. Once.
    pub fn close(&mut self, at: Duration) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let index = self.index.saturating_sub(1);
        self.report.closing = true;
        let mut cx = Cx { report: &mut self.report, frame: None, index, at, dir: Direction::AgentToClient };
        let end = end::End {
            ending: self.config.ending,
            patience: self.config.patience,
            waited_until: self.input_ended.map_or(at, |ended| ended.min(at)),
        };
        end::close(&mut self.state, &mut cx, end);
    }

    /// Everything found so far, in the order it was found.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.report.findings
    }

    /// What was found since this was last called; for watching a conversation live.
    pub fn news(&mut self) -> &[Finding] {
        let from = std::mem::replace(&mut self.told, self.report.findings.len());
        &self.report.findings[from..]
    }

    /// The client closed its end of the connection and may go on reading. What it had asked just before need not be
    /// answered any more, and a turn that runs may be broken off in any way.
    pub fn input_ended(&mut self, at: Duration) {
        self.input_ended.get_or_insert(at);
        self.state.client_leaves();
    }

    /// How many findings of a grade there are about a side, kept or not.
    #[must_use]
    pub fn count(&self, side: Side, grade: Grade) -> u64 {
        self.report.totals[side as usize][grade as usize]
    }

    /// Findings that were counted but not kept: rule, side, how many.
    #[must_use]
    pub fn not_kept(&self) -> Vec<(&'static str, Side, u64)> {
        let mut out = Vec::new();
        for (info, counts) in rules().iter().zip(&self.report.counts) {
            for side in [Side::Agent, Side::Client] {
                let more = counts[side as usize].saturating_sub(self.config.per_rule);
                if more > 0 {
                    out.push((info.name, side, more));
                }
            }
        }
        out
    }

    /// How each requirement fared.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        self.report.marks.coverage(passive())
    }

    /// Whether common frames may go the short way; for comparing both ways.
    #[cfg(test)]
    pub(crate) fn set_fast(&mut self, fast: bool) {
        self.state.fast = fast;
    }

    /// How many frames were shown.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.index
    }

    /// The protocol version both sides agreed on.
    #[must_use]
    pub fn version(&self) -> Option<i64> {
        match self.state.phase {
            Phase::Agreed(version) => Some(version),
            _ => None,
        }
    }
}

/// What came back for a request.
#[derive(Clone, Copy)]
pub(crate) enum Answer<'a> {
    Good(Json<'a>),
    Bad(Option<i64>),
}

impl Answer<'_> {
    pub(crate) fn code(self) -> Option<i64> {
        match self {
            Self::Bad(code) => code,
            Self::Good(_) => None,
        }
    }

    pub(crate) fn is_good(self) -> bool {
        matches!(self, Self::Good(_))
    }
}

/// What a frame says; `broken` when its envelope is not as it should be.
fn said(state: &mut State, cx: &mut Cx<'_>, tape: &mut Tape, view: View<'_>, broken: bool) {
    match view {
        View::Notification { method, params } => notification(state, cx, tape, method, params),
        View::Request { id, method, params } => {
            request(state, cx, tape, id, method, params);
            if broken && let Some(open) = state.asked(cx.sender()).open.get_mut(id) {
                open.broken = true;
            }
        }
        View::Response { id, reply } => response(state, cx, tape, id, reply),
        View::Batch(_) | View::Malformed(_) => {}
    }
}

fn notification(state: &mut State, cx: &mut Cx<'_>, tape: &mut Tape, method: &str, params: Option<&str>) {
    ids::notification(state, cx, method);
    if method == method::SESSION_UPDATE
        && let Some(text) = params
        && updates::fast(state, cx, text)
    {
        return;
    }
    let params = params.and_then(|text| tape.read(text));
    let edition = state.edition();
    if method == method::SESSION_UPDATE && cx.dir == Direction::AgentToClient {
        let subject = Subject { asked: cx.dir, method, part: Part::Params, edition };
        let verdict = check(cx, subject, params);
        if state.is_v1()
            && let Some(params) = params
        {
            updates::update(state, cx, params, verdict);
        }
        return;
    }
    let subject = Subject { asked: cx.dir, method, part: Part::Params, edition };
    let verdict = check(cx, subject, params);
    handshake::gate(state, cx, method);
    extension::method(state, cx, method, verdict, false);
    if let Some(params) = params {
        extension::meta(cx, params, "/params");
    }
    if !state.is_v1() {
        return;
    }
    match (cx.dir, method) {
        (_, method::CANCEL_REQUEST) => turns::cancel_request(state, cx, params),
        (Direction::ClientToAgent, method::SESSION_CANCEL) => turns::cancel(state, cx, params),
        (Direction::AgentToClient, method::ELICITATION_COMPLETE) => elicitation::complete(state, cx, params),
        _ => {}
    }
}

fn request(state: &mut State, cx: &mut Cx<'_>, tape: &mut Tape, id: &Id, method: &str, params: Option<&str>) {
    ids::request(state, cx, id);
    let params = params.and_then(|text| tape.read(text));
    let edition = match method {
        method::INITIALIZE => handshake::edition_of(params),
        _ => state.edition(),
    };
    let subject = Subject { asked: cx.dir, method, part: Part::Params, edition };
    let verdict = check(cx, subject, params);
    let early = handshake::gate(state, cx, method);
    extension::method(state, cx, method, verdict, true);
    if let Some(params) = params {
        extension::meta(cx, params, "/params");
    }
    let mut open = Open::new(method, cx.mark());
    open.early = early;
    open.bad_params = verdict == Verdict::Bad;
    if state.is_v1()
        && let Some(params) = params
    {
        open.session = params.get_str("sessionId").map(Into::into);
        if open.bad_params {
            turns::bad_prompt(state, cx, &open, id);
            load::bad(state, cx, &open);
        } else {
            open.ask = ask(state, cx, id, method, params);
            sessions::known(state, cx, &mut open);
        }
    }
    state.asked(cx.sender()).ask(id.clone(), open);
}

fn ask(state: &mut State, cx: &mut Cx<'_>, id: &Id, method: &str, params: Json<'_>) -> Ask {
    match (cx.dir, method) {
        (Direction::ClientToAgent, method) => match method {
            method::INITIALIZE => handshake::initialize(state, cx, params),
            method::AUTHENTICATE => handshake::authenticate(state, cx, params),
            method::LOGOUT => handshake::logout(state, cx),
            method::SESSION_NEW => sessions::new(state, cx, params),
            method::SESSION_FORK => Ask::Fork,
            method::SESSION_LOAD => load::load(state, cx, params),
            method::SESSION_RESUME => load::resume(state, cx, params),
            method::SESSION_LIST => listing::list(state, cx, params),
            method::SESSION_CLOSE => sessions::close(state, cx, params),
            method::SESSION_DELETE => listing::delete(state, cx, params),
            method::SESSION_SET_MODE => modes::set_mode(state, cx, params),
            method::SESSION_SET_CONFIG_OPTION => config::set_option(state, cx, params),
            method::SESSION_PROMPT => turns::prompt(state, cx, id, params),
            _ => Ask::Other,
        },
        (Direction::AgentToClient, method) => match method {
            method::SESSION_REQUEST_PERMISSION => permissions::ask(state, cx, params),
            method::FS_READ_TEXT_FILE => files::read(state, cx, params),
            method::FS_WRITE_TEXT_FILE => files::write(state, cx, params),
            method::TERMINAL_CREATE => terminals::create(state, cx, params),
            method::ELICITATION_CREATE => elicitation::create(state, cx, params),
            method if method.starts_with("terminal/") => terminals::operate(state, cx, method, params),
            _ => Ask::Other,
        },
    }
}

fn response(state: &mut State, cx: &mut Cx<'_>, tape: &mut Tape, id: &Id, reply: Reply<'_>) {
    let Some(open) = ids::response(state, cx, id, reply) else { return };
    let (text, is_result) = match reply {
        Reply::Result(text) => (text, true),
        Reply::Error(text) => (text, false),
    };
    let Some(json) = tape.read(text) else { return };
    let answer = if is_result { Answer::Good(json) } else { Answer::Bad(codes::error(cx, json)) };
    if open.lenient {
        codes::lenient(state, cx, &open, answer);
        sessions::opened_all_the_same(state, cx, &open, answer);
        return;
    }
    if open.shared {
        shared(state, cx, id, &open, answer);
        return;
    }
    if open.broken {
        codes::lenient(state, cx, &open, answer);
        if !answer.is_good() {
            envelope::undone(state, &open, id);
            return;
        }
    }
    // a request with the id null may be refused for that alone
    if *id == Id::Null && answer.code() == Some(error_code::INVALID_REQUEST) {
        envelope::undone(state, &open, id);
        return;
    }
    if &*open.method == method::INITIALIZE {
        handshake::answered(state, cx, &open, answer);
    }
    // what an answer to bad params looks like is not judged, nor is one to a method that the agent does not offer
    let is_offered = open.early || codes::advertised(state, cx.sender(), &open.method) != Some(false);
    let is_judged = !open.bad_params && (is_offered || cx.sender() == Side::Client);
    if let Answer::Good(json) = answer {
        if is_judged {
            let asked = cx.dir.flip();
            let subject =
                Subject { asked, method: &open.method, part: Part::Result, edition: state.edition() };
            check(cx, subject, Some(json));
        }
        extension::meta(cx, json, "/result");
    }
    if !state.is_v1() {
        return;
    }
    codes::answered(state, cx, &open, answer);
    if !is_judged {
        turns::forget(state, &open, id);
        sessions::opened_all_the_same(state, cx, &open, answer);
        return;
    }
    answered(state, cx, id, &open, answer);
}

/// The answer to one of several requests of the same id: only what it says by itself is taken.
fn shared(state: &mut State, cx: &Cx<'_>, id: &Id, open: &Open, answer: Answer<'_>) {
    turns::forget(state, open, id);
    if let Some(session) = open.session.as_deref().and_then(|id| state.session(id)) {
        // the turn may have been another's
        session.ended = None;
    }
    let Answer::Good(result) = answer else { return };
    if cx.sender() == Side::Client {
        return;
    }
    if state.phase == Phase::Asked {
        handshake::taken(state, result);
    }
    if let Some(id) = result.get_str("sessionId") {
        state.open_session(&id, cx.mark());
    }
}

fn answered(state: &mut State, cx: &mut Cx<'_>, id: &Id, open: &Open, answer: Answer<'_>) {
    match &open.ask {
        Ask::Other | Ask::Initialize { .. } | Ask::Write { .. } => files::answered(state, cx, open, answer),
        Ask::Authenticate { .. } => handshake::authenticated(state, cx, open, answer),
        Ask::Logout => handshake::logged_out(state, cx, answer),
        Ask::New { .. } => sessions::created(state, cx, open, answer),
        Ask::Fork => sessions::forked(state, cx, answer),
        Ask::Load { .. } | Ask::Resume { .. } => load::answered(state, cx, open, answer),
        Ask::List { .. } => listing::listed(state, cx, open, answer),
        Ask::Delete { .. } => listing::deleted(state, cx, open, answer),
        Ask::Close => sessions::closed(state, cx, open, answer),
        Ask::SetMode { .. } => modes::mode_set(state, cx, open, answer),
        Ask::SetOption { .. } => config::option_set(state, cx, open, answer),
        Ask::Prompt { .. } => turns::ended(state, cx, id, open, answer),
        Ask::Permission { .. } => permissions::answered(state, cx, open, answer),
        Ask::Read { .. } => files::answered(state, cx, open, answer),
        Ask::TerminalCreate { .. } | Ask::Terminal { .. } => terminals::answered(state, cx, open, answer),
        Ask::Elicit { .. } => elicitation::answered(state, cx, open, answer),
    }
    if open.cancelled {
        turns::request_cancelled(state, cx, open, answer);
    }
}
