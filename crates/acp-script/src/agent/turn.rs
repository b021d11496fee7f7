//! A prompt turn: its steps, what it waits for, how it ends.

use std::collections::VecDeque;
use std::time::Duration;

use acp_rpc::{Frame, Id, RpcError};
use serde_json::{Value, json};

use super::Agent;
use super::effect::{Effect, Token};
use super::job::Job;
use super::params::{self, Params};
use super::reports::Chunk;
use super::step::{Step, Stop, Stream, Voice};
use super::tools::{Stage, Work};
use crate::switch::Switch;

/// A running turn.
///
/// ```text
///            ┌───────────── answer, deadline ─────────────┐
///  steps ──► running ──► waiting (reply │ time │ MCP) ─────┘
///               │ cancel: steps are replaced by the winding down
///               ▼
///             ended: the prompt is answered once
/// ```
pub(super) struct Turn {
    pub(super) request: Id,
    pub(super) serial: u64,
    pub(super) steps: VecDeque<Step>,
    pub(super) wait: Option<Wait>,
    pub(super) tools: Vec<Tool>,
    pub(super) terminals: Vec<String>,
    pub(super) cancel: Option<Cancel>,
    pub(super) waited_for_servers: bool,
    /// Whether it has begun something new after it was cancelled.
    pub(super) encore: bool,
}

/// What a turn waits for.
pub(super) enum Wait {
    Until(Duration),
    Reply {
        id: i64,
        until: Option<Duration>,
    },
    Mcp {
        token: Token,
        work: Box<Work>,
    },
    Servers {
        until: Duration,
    },
    /// Until it is cancelled.
    Forever,
}

/// A tool call of the turn, as the client knows it.
pub(super) struct Tool {
    pub(super) body: Value,
    pub(super) done: bool,
}

/// Who cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancel {
    /// `session/cancel`, or the end of the session: answered with `cancelled`.
    Session,
    /// `$/cancel_request`: answered with -32800.
    Request,
}

/// A request of ours that the client has not answered yet.
pub(super) struct Pending {
    pub(super) session: String,
    pub(super) serial: u64,
    pub(super) then: Await,
}

/// What to do with an answer.
pub(super) enum Await {
    Work(Box<Work>, Stage),
    Form { key: String },
    Page { elicitation: String },
    Script { r#as: Option<String> },
    Cleanup,
}

/// What a prompt is answered with.
enum Outcome {
    Stop(Stop),
    Result(Value),
}

/// How long a cancelled turn waits for answers that the client owes it.
const PATIENCE: Duration = Duration::from_secs(2);

impl Turn {
    pub(super) fn wake_at(&self) -> Option<Duration> {
        match self.wait.as_ref()? {
            Wait::Until(at) | Wait::Servers { until: at } => Some(*at),
            Wait::Reply { until, .. } => *until,
            Wait::Mcp { .. } | Wait::Forever => None,
        }
    }
}

impl Agent {
    pub(super) fn prompt(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?.to_owned();
        let blocks = params.list("prompt")?;
        params::content_blocks(blocks)?;
        self.known(&session)?;
        if let Some(open) = self.sessions.get(&session) {
            open.idle()?;
        }
        if let Some(code) = self.config.fail_on_prompt {
            return Err(RpcError::new(code, "this agent was started to fail on every prompt"));
        }
        let steps = self.plan_turn(&session, blocks);
        self.begin_turn(id, &session, blocks, steps);
        Ok(())
    }

    pub(super) fn begin_turn(&mut self, id: &Id, session: &str, blocks: &[Value], steps: VecDeque<Step>) {
        let message = self.fresh_id("msg");
        let serial = self.number();
        let Some(open) = self.sessions.get_mut(session) else { return };
        for block in blocks {
            open.remember(
                json!({ "sessionUpdate": "user_message_chunk", "content": block, "messageId": message }),
            );
        }
        open.turn = Some(Turn {
            request: id.clone(),
            serial,
            steps,
            wait: None,
            tools: Vec::new(),
            terminals: Vec::new(),
            cancel: None,
            waited_for_servers: false,
            encore: false,
        });
        self.schedule(session);
    }

    pub(super) fn turn(&mut self, session: &str) -> Option<&mut Turn> {
        self.sessions.get_mut(session)?.turn.as_mut()
    }

    pub(super) fn schedule(&mut self, session: &str) {
        if !self.runnable.iter().any(|id| id == session) {
            self.runnable.push_back(session.to_owned());
        }
    }

    /// Puts steps before those that are left.
    pub(super) fn insert(
        &mut self,
        session: &str,
        steps: impl IntoIterator<Item = Step, IntoIter: DoubleEndedIterator>,
    ) {
        if let Some(turn) = self.turn(session) {
            for step in steps.into_iter().rev() {
                turn.steps.push_front(step);
            }
        }
    }

    /// Says something next.
    pub(super) fn say(&mut self, session: &str, text: impl Into<String>) {
        let stream = Stream::text(Voice::Agent, text, self.config.chunk_size);
        self.insert(session, [Step::Stream(stream)]);
    }

    /// Performs one step; whether the turn can go on at once.
    pub(super) fn advance(&mut self, session: &str) -> bool {
        let Some(turn) = self.turn(session) else { return false };
        if turn.wait.is_some() {
            return false;
        }
        let step = turn.steps.pop_front().unwrap_or(Step::End(Stop::EndTurn));
        self.perform(session, step);
        self.turn(session).is_some_and(|turn| turn.wait.is_none())
    }

    fn perform(&mut self, session: &str, step: Step) {
        match step {
            Step::Stream(stream) => self.stream(session, stream),
            Step::Update(update, keep) => {
                self.update(session, &update);
                if keep {
                    self.keep(session, update);
                }
            }
            Step::Show(block) => {
                let message = self.fresh_id("msg");
                let update =
                    json!({ "sessionUpdate": "agent_message_chunk", "content": block, "messageId": message });
                self.update(session, &update);
                self.keep(session, update);
            }
            Step::Pause(time) => self.wait(session, Wait::Until(self.now + time)),
            Step::Begin(job) => self.begin(session, job),
            Step::Mcp { server, tool, arguments } => self.begin_mcp(session, server, tool, arguments),
            Step::McpList => self.list_mcp(session),
            Step::Form(what) => self.ask_form(session, what.as_deref()),
            Step::Page => self.ask_page(session),
            Step::PageDone(elicitation) => {
                self.notify("elicitation/complete", &json!({ "elicitationId": elicitation }));
            }
            Step::Remember(word) => {
                let forgets = self.wrong(Switch::ForgetsTurns);
                if self.wrong(Switch::SharedMemory) {
                    self.sessions.values_mut().for_each(|open| open.record.word = Some(word.clone()));
                    self.gossip = Some(word);
                } else if let Some(open) = self.sessions.get_mut(session).filter(|_| !forgets) {
                    open.record.word = Some(word);
                }
            }
            Step::Mode(mode) => self.change_mode(session, &mode),
            Step::Config { option, value } => self.change_config(session, option, &value),
            Step::Title(title) => self.retitle(session, title),
            Step::Usage => self.report_usage(session),
            Step::Info => self.report_info(session),
            Step::Kill(terminal) => self.kill_terminal(session, &terminal),
            Step::Release(terminal) => self.release_terminal(session, &terminal),
            Step::Finish(work) => self.finish_run(session, &work),
            Step::CloseTools => self.close_tools(session),
            Step::Act(act) => self.act(session, act),
            Step::Respond(result) => self.finish(session, Ok(Outcome::Result(result))),
            Step::End(stop) => self.finish(session, Ok(Outcome::Stop(stop))),
            Step::Fail(error) => self.finish(session, Err(error)),
        }
    }

    pub(super) fn keep(&mut self, session: &str, update: Value) {
        if let Some(open) = self.sessions.get_mut(session) {
            open.remember(update);
        }
    }

    pub(super) fn wait(&mut self, session: &str, wait: Wait) {
        if let Some(turn) = self.turn(session) {
            turn.wait = Some(wait);
        }
    }

    fn stream(&mut self, session: &str, mut stream: Stream) {
        let Some((piece, more)) = stream.piece() else {
            return;
        };
        let message = match stream.message.take() {
            Some(message) => message,
            None => self.fresh_id("msg"),
        };
        self.outbox.push_back(Effect::Send(Frame::notification(
            "session/update",
            &Chunk::new(session, stream.voice, &piece, &message),
        )));
        stream.said.push_str(&piece);
        stream.message = Some(message);
        if !more {
            self.keep_said(session, stream);
            return;
        }
        let delay = stream.delay.max(self.config.streaming_delay);
        let until = self.now + delay;
        let Some(turn) = self.turn(session) else { return };
        turn.steps.push_front(Step::Stream(stream));
        if !delay.is_zero() {
            turn.wait = Some(Wait::Until(until));
        }
    }

    /// Keeps what was said of a message as one entry of the history.
    fn keep_said(&mut self, session: &str, stream: Stream) {
        let Some(message) = stream.message else { return };
        let used = stream.said.len() as u64 / 4 + 1;
        let update = json!({
            "sessionUpdate": stream.voice.update(),
            "content": { "type": "text", "text": stream.said },
            "messageId": message,
        });
        if let Some(open) = self.sessions.get_mut(session) {
            open.record.used += used;
            open.remember(update);
        }
    }

    /// Sends a request to the client and waits for its answer.
    pub(super) fn ask(
        &mut self,
        session: &str,
        method: &str,
        params: &Value,
        then: Await,
        patience: Option<Duration>,
    ) {
        let Some(serial) = self.turn(session).map(|turn| turn.serial) else { return };
        let id = self.next_request;
        self.next_request += 1;
        self.outbox.push_back(Effect::Send(Frame::request(&Id::Int(id), method, params)));
        if let Some(script) = &mut self.script {
            script.asks(Id::Int(id), method);
        }
        self.pending.insert(id, Pending { session: session.to_owned(), serial, then });
        let until = patience.map(|time| self.now + time);
        self.wait(session, Wait::Reply { id, until });
    }

    /// Takes the answer to a request of ours.
    pub(super) fn reply(&mut self, pending: Pending, answer: Result<Value, RpcError>) {
        let Pending { session, serial, then } = pending;
        let Some(turn) = self.turn(&session).filter(|turn| turn.serial == serial) else { return };
        turn.wait = None;
        let cancelled = turn.cancel.is_some();
        match then {
            Await::Cleanup => {}
            Await::Work(work, stage) if cancelled => {
                self.late(&session, *work, stage, answer);
                self.wind_down(&session);
            }
            Await::Work(work, stage) => self.work(&session, *work, stage, answer),
            Await::Script { r#as } => self.script_answered(r#as, answer),
            Await::Form { key } => self.form_answered(&session, &key, &answer),
            Await::Page { elicitation } => self.page_answered(&session, elicitation, &answer),
        }
        self.schedule(&session);
    }

    /// Wakes the turns whose time has come.
    pub(super) fn wake(&mut self) {
        let now = self.now;
        let due: Vec<String> = self
            .sessions
            .iter()
            .filter(|(_, open)| open.turn.as_ref().and_then(Turn::wake_at).is_some_and(|at| at <= now))
            .map(|(id, _)| id.clone())
            .collect();
        for session in due {
            let Some(turn) = self.turn(&session) else { continue };
            match turn.wait.take() {
                Some(Wait::Reply { id, .. }) => self.unanswered(&session, id),
                Some(Wait::Servers { .. }) => turn.waited_for_servers = true,
                _ => {}
            }
            self.schedule(&session);
        }
    }

    /// A request of ours was not answered in time.
    fn unanswered(&mut self, session: &str, id: i64) {
        let Some(pending) = self.pending.remove(&id) else { return };
        let cancelled = self.turn(session).is_some_and(|turn| turn.cancel.is_some());
        match pending.then {
            Await::Cleanup => {}
            Await::Work(work, Stage::Exited) if !cancelled => self.overdue(session, *work),
            _ if cancelled => {
                self.notify("$/cancel_request", &json!({ "requestId": id }));
                self.wind_down(session);
            }
            Await::Work(work, stage) => {
                self.notify("$/cancel_request", &json!({ "requestId": id }));
                self.work(session, *work, stage, Err(RpcError::internal("nobody answered in time")));
            }
            _ => self.notify("$/cancel_request", &json!({ "requestId": id })),
        }
    }

    /// The outcome of an [`Effect::McpCall`].
    pub fn mcp_answered(&mut self, token: Token, answer: Result<Value, String>) {
        let found = self.sessions.iter_mut().find_map(|(id, open)| {
            let turn = open.turn.as_mut()?;
            match turn.wait.take() {
                Some(Wait::Mcp { token: waited, work }) if waited == token => Some((id.clone(), work)),
                other => {
                    turn.wait = other;
                    None
                }
            }
        });
        let Some((session, work)) = found else { return };
        self.work(&session, *work, Stage::Called, answer.map_err(RpcError::internal));
        self.schedule(&session);
    }

    /// An MCP server of this session is there, or will not come.
    pub(super) fn mcp_progress(&mut self, session: &str) {
        let Some(turn) = self.turn(session) else { return };
        if matches!(turn.wait, Some(Wait::Servers { .. })) {
            turn.wait = None;
            self.schedule(session);
        }
    }

    /// Cancels the session's turn, if one is running.
    pub(super) fn cancel(&mut self, session: &str, how: Cancel) {
        if self.wrong(Switch::CancelsAll) {
            let others: Vec<String> =
                self.sessions.keys().filter(|other| *other != session).cloned().collect();
            others.iter().for_each(|other| self.cancel_turn(other, how));
        }
        self.cancel_turn(session, how);
    }

    fn cancel_turn(&mut self, session: &str, how: Cancel) {
        let now = self.now;
        let Some(turn) = self.turn(session) else { return };
        if turn.cancel.is_some() {
            return;
        }
        turn.cancel = Some(how);
        if let Some(Wait::Reply { id, .. }) = turn.wait.take() {
            if self.owed(id) {
                self.wait(session, Wait::Reply { id, until: Some(now + PATIENCE) });
                return;
            }
            if self.pending.remove(&id).is_some() {
                self.notify("$/cancel_request", &json!({ "requestId": id }));
            }
        }
        self.wind_down(session);
        self.schedule(session);
    }

    /// Whether the answer to this request still matters to a cancelled turn: the client must answer a pending
    /// permission request with `cancelled`, and a terminal on its way must be released.
    fn owed(&self, id: i64) -> bool {
        matches!(
            self.pending.get(&id).map(|pending| &pending.then),
            Some(Await::Work(_, Stage::Permission | Stage::Created) | Await::Cleanup)
        )
    }

    /// `$/cancel_request` from the client.
    pub(super) fn cancel_request(&mut self, id: &Id) {
        let found = self
            .sessions
            .iter()
            .find(|(_, open)| open.turn.as_ref().is_some_and(|turn| turn.request == *id))
            .map(|(session, _)| session.clone());
        if let Some(session) = found {
            self.cancel(&session, Cancel::Request);
        }
    }

    /// Replaces what is left of the turn by what must still be done.
    pub(super) fn wind_down(&mut self, session: &str) {
        let keeps_working = self.wrong(Switch::KeepsWorking);
        let Some(turn) = self.turn(session) else { return };
        let left = std::mem::take(&mut turn.steps);
        let mut steps: VecDeque<Step> = VecDeque::new();
        if keeps_working && !std::mem::replace(&mut turn.encore, true) {
            steps.push_back(Step::Begin(Job::run("true", None)));
        }
        for terminal in &turn.terminals {
            steps.push_back(Step::Kill(terminal.clone()));
            steps.push_back(Step::Release(terminal.clone()));
        }
        steps.extend([Step::CloseTools, Step::Usage, Step::End(Stop::Cancelled)]);
        turn.steps = steps;
        for step in left {
            if let Step::Stream(stream) = step {
                self.keep_said(session, stream);
            }
        }
    }

    fn finish(&mut self, session: &str, outcome: Result<Outcome, RpcError>) {
        let Some(turn) = self.sessions.get_mut(session).and_then(|open| open.turn.take()) else { return };
        self.pending.retain(|_, pending| pending.session != session || pending.serial != turn.serial);
        self.touch(session);
        match (outcome, turn.cancel) {
            (Ok(_), Some(Cancel::Request)) => {
                self.refuse(&turn.request, &RpcError::new(RpcError::CANCELLED, "request cancelled"));
            }
            (Ok(Outcome::Stop(stop)), _) => {
                self.respond(&turn.request, &json!({ "stopReason": stop.as_str() }));
            }
            (Ok(Outcome::Result(result)), _) => self.respond(&turn.request, &result),
            (Err(error), _) => self.refuse(&turn.request, &error),
        }
        self.ended(session);
    }
}
