//! Questions to the client and to the world, and their answers.

use std::time::Duration;

use acp_proto::{method, tool_status};
use acp_rpc::{Frame, Id, RpcError, View};
use serde_json::{Value, json};

use super::Agent;
use super::effect::{Effect, Token, ToolOutput, ToolUse};
use super::habits::Means;
use super::job::{Change, Job, Old};
use super::permits::Failure;
use super::step::Step;
use super::tools::{Stage, Work, text_content};
use super::turn::{Await, Pending, Turn, Wait};

impl Agent {
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
        let mut params = params.clone();
        if let Some(named) = params.get_mut("sessionId") {
            *named = json!(self.outward(session));
        }
        let frame = Frame::request(&Id::Int(id), method, &params);
        let own = self.is_own(method);
        self.outbox.push_back(if own { Effect::Own(frame) } else { Effect::Send(frame) });
        if let Some(script) = &mut self.script {
            script.asks(&Id::Int(id), method);
        }
        self.pending.insert(id, Pending { session: session.to_owned(), serial, then, own });
        let until = patience.map(|time| self.now + time);
        self.wait(session, Wait::Reply { id, until });
    }

    /// Whether we do this ourselves because the client cannot.
    fn is_own(&self, method: &str) -> bool {
        let (caps, habits) = (self.caps(), &self.config.habits);
        let (offered, means) = match method {
            method::FS_READ_TEXT_FILE => (caps.read, habits.reads),
            method::FS_WRITE_TEXT_FILE => (caps.write, habits.writes),
            other if other.starts_with("terminal/") => (caps.terminal, habits.runs),
            _ => return false,
        };
        means == Means::Own || (self.config.own_hands && !offered)
    }

    /// The answer to [`Effect::Own`].
    pub fn own_answered(&mut self, now: Duration, response: &Frame) {
        self.now = self.now.max(now);
        if let View::Response { id, reply } = response.view() {
            self.heard(id, &reply);
        }
    }

    /// Takes a request of ours back.
    pub(super) fn take_back(&mut self, id: i64, own: bool) {
        let frame = Frame::notification(method::CANCEL_REQUEST, &json!({ "requestId": id }));
        self.outbox.push_back(if own { Effect::Own(frame) } else { Effect::Send(frame) });
    }

    /// Takes the answer to a request of ours.
    pub(super) fn reply(&mut self, pending: Pending, answer: Result<Value, RpcError>) {
        let Pending { session, serial, then, .. } = pending;
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
            if turn.limit.is_some_and(|limit| limit <= now) {
                turn.limit = None;
                self.cancel(&session, super::turn::Cancel::Overdue);
                continue;
            }
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
        let own = pending.own;
        match pending.then {
            Await::Cleanup => {}
            Await::Work(work, Stage::Exited) if !cancelled => self.overdue(session, *work),
            _ if cancelled => {
                self.take_back(id, own);
                self.wind_down(session);
            }
            Await::Work(work, stage) => {
                self.take_back(id, own);
                self.work(session, *work, stage, Err(RpcError::internal("nobody answered in time")));
            }
            _ => self.take_back(id, own),
        }
    }

    /// The outcome of an [`Effect::McpCall`].
    pub fn mcp_answered(&mut self, token: Token, answer: Result<Value, String>) {
        let Some((session, work)) = self.awaited(token) else { return };
        self.work(&session, *work, Stage::Called, answer.map_err(RpcError::internal));
        self.schedule(&session);
    }

    /// The turn that waits for a tool, and its tool call.
    fn awaited(&mut self, token: Token) -> Option<(String, Box<Work>)> {
        self.sessions.iter_mut().find_map(|(id, open)| {
            let turn = open.turn.as_mut()?;
            match turn.wait.take() {
                Some(Wait::Tool { token: waited, work }) if waited == token => Some((id.clone(), work)),
                other => {
                    turn.wait = other;
                    None
                }
            }
        })
    }

    /// Lets the edge use a tool.
    pub(super) fn use_tool(&mut self, session: &str, work: Work, name: String, arguments: Value) {
        let token = self.number();
        let folders = self.folders(session).map(|(cwd, roots)| (cwd.to_owned(), roots.to_vec()));
        let (cwd, roots) = folders.unwrap_or_default();
        let verbose = self.is_verbose(session);
        let session_id = self.outward(session).to_owned();
        self.outbox.push_back(Effect::Tool(Box::new(ToolUse {
            token,
            session: session_id,
            name,
            arguments,
            cwd,
            roots,
            verbose,
            deny: self.config.deny.clone(),
        })));
        self.wait(session, Wait::Tool { token, work: Box::new(work) });
    }

    /// The outcome of an [`Effect::Tool`].
    pub fn tool_answered(&mut self, token: Token, answer: Result<ToolOutput, String>) {
        let Some((session, work)) = self.awaited(token) else { return };
        match answer {
            Ok(output) => {
                let status = if output.failed { tool_status::FAILED } else { tool_status::COMPLETED };
                let mut done = json!({ "status": status, "content": text_content(&output.text) });
                if !output.raw.is_null() {
                    done["rawOutput"] = output.raw;
                }
                if !output.locations.is_empty() {
                    done["locations"] = output.locations.into();
                }
                self.report(&session, &work.call, &done);
                if let Some((path, text)) = output.write {
                    self.write_next(&session, &path, text);
                }
                let said = output.said.unwrap_or_else(|| self.shorten(&session, &output.text));
                let otherwise = match work.job {
                    Job::Tool { otherwise, .. } if output.failed && !output.denied => otherwise,
                    _ => None,
                };
                if let Some(other) = otherwise {
                    self.insert(&session, [Step::Begin(*other)]);
                    self.say(&session, format!("{said} So I search for it.\n\n"));
                } else if output.failed {
                    let why = if output.denied { Failure::Denied } else { Failure::Broken };
                    self.after_failure(&session, &said, why);
                } else {
                    self.tell(&session, said);
                }
            }
            Err(reason) => {
                self.fail_as(&session, &work, &format!("{}: {reason}", work.job.name()), Failure::Broken);
            }
        }
        self.schedule(&session);
    }

    /// Writes a file of the working folder as the turn's next step.
    fn write_next(&mut self, session: &str, path: &str, text: String) {
        let Some(open) = self.sessions.get(session) else { return };
        let job = Job::Write { path: open.resolve(path), change: Change::Whole(text), old: Old::Unknown };
        self.insert(session, [Step::Begin(job)]);
    }

    /// An MCP server of this session is there, or will not come.
    pub(super) fn mcp_progress(&mut self, session: &str) {
        let Some(turn) = self.turn(session) else { return };
        if matches!(turn.wait, Some(Wait::Servers { .. })) {
            turn.wait = None;
            self.schedule(session);
        }
    }
}
