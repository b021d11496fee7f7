//! Questions to the client and to the world, and their answers.

use std::time::Duration;

use acp_proto::{method, tool_status};
use acp_rpc::{Frame, Id, RpcError, View};
use serde_json::{Value, json};

use super::Agent;
use super::cx::Cx;
use super::effect::{AgentEffect, Token, ToolOutput, ToolUse};
use super::habits::Means;
use super::job::{Change, Job, Old};
use super::permits::Failure;
use super::session::{ServerState, Session};
use super::step::Step;
use super::tools::{Stage, Work, text_content};
use super::turn::{ActiveTurn, Await, Cancel, Pending, Wait};
use super::{McpKey, McpTool};

impl Agent {
    /// What the client made of a request of this agent. One that nobody waits for any more is passed over.
    pub(super) fn settle(&mut self, id: &Id, answer: Result<Value, RpcError>) {
        let Id::Int(id) = id else { return };
        let Some(Pending { session, serial, then, .. }) = self.cx.pending.remove(id) else { return };
        if let Some(mut turn) = self.turn(&session).filter(|active| active.turn.serial == serial) {
            turn.answered(then, answer);
        }
    }

    /// The answer to [`AgentEffect::Own`].
    pub fn own_answered(&mut self, now: Duration, response: &Frame) {
        self.pass_time(now);
        if let View::Response { id, reply } = response.view() {
            self.on_response(id, &reply);
        }
    }

    /// The outcome of an [`AgentEffect::McpCall`].
    pub fn mcp_answered(&mut self, token: Token, answer: Result<Value, String>) {
        if let Some((mut turn, work)) = self.awaiting_tool(token) {
            turn.work(*work, Stage::Called, answer.map_err(RpcError::internal));
            turn.schedule();
        }
    }

    /// The outcome of an [`AgentEffect::Tool`].
    pub fn tool_answered(&mut self, token: Token, answer: Result<ToolOutput, String>) {
        if let Some((mut turn, work)) = self.awaiting_tool(token) {
            turn.tool_answered(*work, answer);
            turn.schedule();
        }
    }

    /// The turn that waits for a tool, and its tool call.
    fn awaiting_tool(&mut self, token: Token) -> Option<(ActiveTurn<'_>, Box<Work>)> {
        let turn =
            self.waiting(|wait| matches!(wait, Wait::Tool { token: waited, .. } if *waited == token))?;
        match turn.turn.wait.take() {
            Some(Wait::Tool { work, .. }) => Some((turn, work)),
            _ => None,
        }
    }

    /// The outcome of [`AgentEffect::McpConnect`].
    pub fn mcp_connected(&mut self, key: McpKey, outcome: Result<Vec<McpTool>, String>) {
        let found = self.sessions.values_mut().find_map(|open| {
            let at = open.session.servers.iter().position(|server| server.key == key)?;
            Some((open, at))
        });
        let Some((open, at)) = found else { return };
        if open.session.server_connected(&mut self.cx, at, outcome)
            && let Some(mut turn) = open.active(&mut self.cx)
            && matches!(turn.turn.wait, Some(Wait::Servers { .. }))
        {
            turn.turn.wait = None;
            turn.schedule();
        }
    }

    /// Wakes the turns whose time has come.
    pub(super) fn wake(&mut self) {
        let now = self.cx.now;
        let due = self.turns().filter(|(_, turn)| turn.wake_at().is_some_and(|at| at <= now));
        let mut due: Vec<String> = due.map(|(session, _)| session.clone()).collect();
        due.sort_unstable();
        for session in due {
            // Another one may have ended it meanwhile.
            if let Some(mut turn) = self.turn(&session) {
                turn.wake();
            }
        }
    }
}

impl Session {
    /// The MCP server at this place of the list is there, or will not come. Whether that is news.
    fn server_connected(&mut self, cx: &mut Cx, at: usize, outcome: Result<Vec<McpTool>, String>) -> bool {
        let server = &mut self.servers[at];
        if matches!(server.state, ServerState::Failed(_)) {
            // Each of its calls finds out, and it is said once.
            return false;
        }
        match outcome {
            Ok(tools) => server.state = ServerState::Ready(tools),
            Err(reason) => {
                let title = format!("MCP server {:?} cannot be used", server.name);
                server.state = ServerState::Failed(reason.clone());
                self.warn(cx, &title, &reason);
            }
        }
        true
    }
}

impl ActiveTurn<'_> {
    /// Sends a request to the client and waits for its answer.
    pub(super) fn ask(&mut self, method: &str, params: &Value, then: Await, patience: Option<Duration>) {
        let id = self.cx.next_request;
        self.cx.next_request += 1;
        let mut params = params.clone();
        if let Some(named) = params.get_mut("sessionId") {
            *named = json!(self.session.outward());
        }
        let frame = Frame::request(&Id::Int(id), method, &params);
        let own = self.is_own(method);
        self.cx.outbox.push_back(if own { AgentEffect::Own(frame) } else { AgentEffect::Send(frame) });
        if let Some(script) = &mut self.cx.script {
            script.asks(&Id::Int(id), method);
        }
        let (session, serial) = (self.session.id().to_owned(), self.turn.serial);
        self.cx.pending.insert(id, Pending { session, serial, then, own });
        let until = patience.map(|time| self.cx.now + time);
        self.wait(Wait::Reply { id, until });
    }

    /// Whether we do this ourselves because the client cannot.
    fn is_own(&self, method: &str) -> bool {
        let (caps, habits) = (self.cx.caps(), &self.cx.config.habits);
        let (offered, means) = match method {
            method::FS_READ_TEXT_FILE => (caps.read, habits.reads),
            method::FS_WRITE_TEXT_FILE => (caps.write, habits.writes),
            other if other.starts_with("terminal/") => (caps.terminal, habits.runs),
            _ => return false,
        };
        means == Means::Own || (self.cx.config.abilities.local_tools && !offered)
    }

    /// Takes a request of ours back.
    pub(super) fn take_back(&mut self, id: i64, own: bool) {
        let frame = Frame::notification(method::CANCEL_REQUEST, &json!({ "requestId": id }));
        self.cx.outbox.push_back(if own { AgentEffect::Own(frame) } else { AgentEffect::Send(frame) });
    }

    /// Takes the answer to a request of ours.
    fn answered(&mut self, then: Await, answer: Result<Value, RpcError>) {
        self.turn.wait = None;
        match then {
            Await::Cleanup => {}
            Await::Work(work, stage) if self.turn.cancel.is_some() => {
                self.late(*work, stage, answer);
                self.wind_down();
            }
            Await::Work(work, stage) => self.work(*work, stage, answer),
            Await::Script { r#as } => self.script_answered(r#as, answer),
            Await::Form { key } => self.form_answered(&key, &answer),
            Await::Page { elicitation } => self.page_answered(elicitation, &answer),
        }
        self.schedule();
    }

    /// Its time has come.
    fn wake(&mut self) {
        let now = self.cx.now;
        if self.turn.limit.is_some_and(|limit| limit <= now) {
            self.turn.limit = None;
            return self.cancel(Cancel::Overdue);
        }
        match self.turn.wait.take() {
            Some(Wait::Reply { id, .. }) => self.unanswered(id),
            Some(Wait::Servers { .. }) => self.turn.waited_for_servers = true,
            _ => {}
        }
        self.schedule();
    }

    /// A request of ours was not answered in time.
    fn unanswered(&mut self, id: i64) {
        let Some(pending) = self.cx.pending.remove(&id) else { return };
        let is_cancelled = self.turn.cancel.is_some();
        match pending.then {
            Await::Cleanup => {}
            Await::Work(work, Stage::Exited) if !is_cancelled => self.overdue(*work),
            _ if is_cancelled => {
                self.take_back(id, pending.own);
                self.wind_down();
            }
            Await::Work(work, stage) => {
                self.take_back(id, pending.own);
                self.work(*work, stage, Err(RpcError::internal("nobody answered in time")));
            }
            _ => self.take_back(id, pending.own),
        }
    }

    /// Lets the edge use a tool.
    pub(super) fn use_tool(&mut self, work: Work, name: String, arguments: Value) {
        let token = self.cx.number();
        let record = &self.session.record;
        let tool = ToolUse {
            token,
            session: self.session.outward().to_owned(),
            name,
            arguments,
            cwd: record.cwd.clone(),
            roots: record.roots.clone(),
            verbose: self.is_verbose(),
            deny: self.cx.config.rules.deny.clone(),
        };
        self.cx.outbox.push_back(AgentEffect::Tool(Box::new(tool)));
        self.wait(Wait::Tool { token, work: Box::new(work) });
    }

    /// Takes what a tool of the edge answered.
    fn tool_answered(&mut self, work: Work, answer: Result<ToolOutput, String>) {
        let output = match answer {
            Ok(output) => output,
            Err(reason) => {
                let reason = format!("{}: {reason}", work.job.name());
                return self.fail_as(&work, &reason, Failure::Broken);
            }
        };
        let status = if output.failed { tool_status::FAILED } else { tool_status::COMPLETED };
        let mut done = json!({ "status": status, "content": text_content(&output.text) });
        if !output.raw.is_null() {
            done["rawOutput"] = output.raw;
        }
        if !output.locations.is_empty() {
            done["locations"] = output.locations.into();
        }
        self.report(&work.call, &done);
        if let Some((path, text)) = output.write {
            // A file of the working folder is written next.
            let path = self.session.resolve(&path);
            let job = Job::Write { path, change: Change::Whole(text), old: Old::Unknown };
            self.insert([Step::Begin(job)]);
        }
        let said = output.said.unwrap_or_else(|| self.shorten(&output.text));
        let otherwise = match work.job {
            Job::Tool { otherwise, .. } if output.failed && !output.denied => otherwise,
            _ => None,
        };
        if let Some(other) = otherwise {
            self.insert([Step::Begin(*other)]);
            self.say(format!("{said} So I search for it.\n\n"));
        } else if output.failed {
            let why = if output.denied { Failure::Denied } else { Failure::Broken };
            self.after_failure(&said, why);
        } else {
            self.tell(said);
        }
    }
}
