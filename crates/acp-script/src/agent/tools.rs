//! Tool calls: what they do through the client, and how they are reported.
//!
//! ```text
//!  pending ──► (permission) ──► in_progress ──► completed
//!      └───────────┴────────────────┴─────────► failed
//! ```

use acp_proto::{method, tool_status, update};
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::Agent;
use super::effect::Effect;
use super::habits::Asking;
use super::job::{Change, Job, NO_CONTENT, known_before};
use super::permits::Failure;
use super::step::Step;
use super::terminal::split;
use super::turn::{Await, Tool, Wait};
use crate::switch::Switch;

/// A tool call under way.
pub(super) struct Work {
    pub(super) call: String,
    pub(super) job: Job,
    pub(super) terminal: Option<String>,
    /// Asks for permission only after the deed.
    pub(super) asked: bool,
}

/// What a tool call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Permission,
    Read,
    Old,
    Again,
    Written,
    Created,
    Exited,
    Killed,
    Output,
    Called,
}

impl Agent {
    /// Reports a tool call and does its first step.
    pub(super) fn begin(&mut self, session: &str, job: Job) {
        if let Some(reason) = self.unable(session, &job) {
            self.say(session, reason);
            return;
        }
        let work = self.announce(session, job);
        if let Some(path) = work.job.path().filter(|path| !self.inside(session, path)) {
            let reason = format!("{path} lies outside of the session's folders.");
            self.fail_as(session, &work, &reason, Failure::Denied);
            return;
        }
        if let Some(reason) = self.forbidden(session, &work.job) {
            self.fail_as(session, &work, &reason, Failure::Denied);
            return;
        }
        self.start(session, work);
    }

    /// Tells the client about a tool call.
    pub(super) fn announce(&mut self, session: &str, job: Job) -> Work {
        let call = self.fresh_id("call");
        let mut body = json!({
            "toolCallId": call, "title": job.title(), "name": job.name(), "kind": job.kind(),
            "status": tool_status::PENDING, "rawInput": job.input(),
        });
        if job.path().is_some() {
            body["locations"] = job.locations();
        }
        let mut update = json!({ "sessionUpdate": update::TOOL_CALL });
        merge(&mut update, &body);
        self.update(session, &update);
        if let Some(open) = self.sessions.get_mut(session)
            && let Some(turn) = &mut open.turn
        {
            turn.tools.push(Tool { body: update, done: false });
            if let Some(round) = open.record.rounds.last_mut().filter(|_| turn.rounds > 0) {
                round.calls.push(call.clone());
            }
        }
        let seen_in = self.outward(session).to_owned();
        self.checkpoint(&seen_in);
        Work { call, job, terminal: None, asked: false }
    }

    fn start(&mut self, session: &str, work: Work) {
        match &work.job {
            Job::Read { .. } | Job::Mcp { .. } if self.config.habits.permission == Asking::Always => {
                self.ask_permission(session, work);
            }
            Job::Read { .. } => self.execute(session, work),
            Job::Write { path, change, .. } if self.reads() && self.looks_first(change) => {
                let params = json!({ "sessionId": session, "path": path });
                self.ask(
                    session,
                    method::FS_READ_TEXT_FILE,
                    &params,
                    Await::Work(Box::new(work), Stage::Old),
                    None,
                );
            }
            Job::Write { .. } | Job::Run { .. } | Job::Harmless { .. } => self.ask_permission(session, work),
            Job::Mcp { .. } if self.config.careful => self.ask_permission(session, work),
            Job::Mcp { .. } | Job::Tool { .. } | Job::Plan { .. } => self.execute(session, work),
            Job::Wrong { reason, .. } => {
                let reason = reason.clone();
                self.fail(session, &work, &reason);
            }
            Job::Delegate { .. } => {}
        }
    }

    /// Does what the job is about, now that it may.
    pub(super) fn execute(&mut self, session: &str, mut work: Work) {
        self.progress(session, &work);
        match &mut work.job {
            Job::Write { path, .. } => {
                let path = path.clone();
                match work.job.new_text() {
                    Ok(text) => {
                        let params = json!({ "sessionId": session, "path": path, "content": text });
                        let then = Await::Work(Box::new(work), Stage::Written);
                        self.ask(session, method::FS_WRITE_TEXT_FILE, &params, then, None);
                    }
                    Err(reason) => self.fail(session, &work, &cannot_edit(&reason)),
                }
            }
            Job::Run { line, .. } => {
                let (command, args) = split(line);
                let cwd = self.sessions.get(session).map(|open| open.record.cwd.clone()).unwrap_or_default();
                let params = json!({
                    "sessionId": session, "command": command, "args": args, "env": [], "cwd": cwd,
                    "outputByteLimit": 1_048_576,
                });
                self.ask(
                    session,
                    method::TERMINAL_CREATE,
                    &params,
                    Await::Work(Box::new(work), Stage::Created),
                    None,
                );
            }
            Job::Mcp { key, tool, arguments, .. } => {
                let (key, tool, arguments) = (*key, tool.clone(), arguments.clone());
                if self.wrong(Switch::PretendsMcpCalls) {
                    let pretended = json!({ "content": [{ "type": "text", "text": "pong" }] });
                    return self.mcp_called(session, &work, Ok(pretended));
                }
                let token = self.number();
                self.outbox.push_back(Effect::McpCall { key, token, tool, arguments });
                self.wait(session, Wait::Tool { token, work: Box::new(work) });
            }
            Job::Tool { name, arguments, .. } => {
                let (name, arguments) = (name.clone(), arguments.clone());
                self.use_tool(session, work, name, arguments);
            }
            Job::Plan { entries } => {
                let update = json!({ "sessionUpdate": update::PLAN, "entries": entries });
                self.update(session, &update);
                self.keep(session, update);
                self.complete(session, &work, &text_content("The plan is noted."), &json!({ "noted": true }));
            }
            Job::Harmless { fails: true } => self.fail(session, &work, "The tool failed, as was wished."),
            Job::Harmless { .. } => {
                self.complete(session, &work, &text_content("noted"), &json!({ "noted": true }));
                self.tell(session, "Done, with your permission.");
            }
            Job::Read { path, line, limit, .. } => {
                let mut params = json!({ "sessionId": session, "path": path });
                for (key, value) in [("line", line), ("limit", limit)] {
                    if let Some(value) = value {
                        params[key] = json!(value);
                    }
                }
                let then = Await::Work(Box::new(work), Stage::Read);
                self.ask(session, method::FS_READ_TEXT_FILE, &params, then, None);
            }
            Job::Delegate { .. } | Job::Wrong { .. } => {}
        }
    }

    /// Whether a file is read before this change of it; what only changes a part must be.
    fn looks_first(&self, change: &Change) -> bool {
        self.config.habits.reads_before_writing || !matches!(change, Change::Whole(_))
    }

    /// Takes the answer a tool call waited for.
    pub(super) fn work(
        &mut self,
        session: &str,
        mut work: Work,
        stage: Stage,
        answer: Result<Value, RpcError>,
    ) {
        match stage {
            Stage::Permission => self.decided(session, work, answer),
            Stage::Read => self.was_read(session, &work, answer),
            Stage::Old => {
                if let Job::Write { old, .. } = &mut work.job {
                    *old = known_before(&answer);
                }
                match work.job.new_text() {
                    Ok(_) => self.ask_permission(session, work),
                    Err(reason) => self.fail(session, &work, &cannot_edit(&reason)),
                }
            }
            Stage::Again => {
                let Job::Write { path, change, old } = &mut work.job else { return };
                let now = known_before(&answer);
                if *old != now && change.needs_same_text() {
                    let reason =
                        format!("{path} was changed by somebody else meanwhile and is left as it is.");
                    return self.fail(session, &work, &reason);
                }
                *old = now;
                self.proceed(session, work);
            }
            Stage::Written => match answer {
                Ok(_) if work.asked => self.ask_permission(session, work),
                Ok(_) => {
                    let (content, title) = (work.job.preview(), work.job.title());
                    self.complete(session, &work, &content, &json!({ "written": true }));
                    self.tell(session, format!("Done: {title}."));
                }
                Err(error) => {
                    let path = work.job.path().unwrap_or("the file").to_owned();
                    self.fail(session, &work, &could_not("write", &path, &error));
                }
            },
            Stage::Created => self.terminal_created(session, work, answer),
            Stage::Exited | Stage::Killed => {
                if let (Job::Run { exit, .. }, Ok(status), Stage::Exited) = (&mut work.job, &answer, stage) {
                    *exit = status.clone();
                }
                self.ask_terminal(session, method::TERMINAL_OUTPUT, work, Stage::Output, None);
            }
            Stage::Output => {
                let terminal = work.terminal.clone().unwrap_or_default();
                if let Job::Run { output, exit, .. } = &mut work.job {
                    *output = answer.unwrap_or(Value::Null);
                    if exit.is_null() {
                        *exit = output.get("exitStatus").cloned().unwrap_or(Value::Null);
                    }
                }
                self.insert(session, [Step::Finish(Box::new(work)), Step::Release(terminal)]);
            }
            Stage::Called => self.mcp_called(session, &work, answer),
        }
    }

    /// An answer that came after the turn was cancelled.
    pub(super) fn late(&mut self, session: &str, work: Work, stage: Stage, answer: Result<Value, RpcError>) {
        if let (Stage::Created, Ok(answer)) = (stage, answer)
            && let (Some(terminal), Some(turn)) = (terminal_id(&answer), self.turn(session))
        {
            turn.terminals.push(terminal);
        }
        drop(work);
    }

    fn was_read(&mut self, session: &str, work: &Work, answer: Result<Value, RpcError>) {
        let Job::Read { path, search, .. } = &work.job else { return };
        let (path, search) = (path.clone(), search.clone());
        let text = match answer {
            Ok(answer) => match answer.get("content").and_then(Value::as_str) {
                Some(text) => text.to_owned(),
                None => {
                    return self.fail(session, work, &format!("I could not read {path}: {NO_CONTENT}."));
                }
            },
            Err(error) => return self.fail(session, work, &could_not("read", &path, &error)),
        };
        if self.config.careful && text.contains('\0') {
            return self.fail(session, work, &format!("I could not read {path}: it is a binary file."));
        }
        let (shown, said) = match search {
            None if !self.config.habits.quotes => (text.clone(), "I have read it.".to_owned()),
            None => (text.clone(), format!("The contents of {path}:\n{}", self.shorten(session, &text))),
            Some(search) => {
                let lines: Vec<String> = text
                    .lines()
                    .enumerate()
                    .filter(|(_, line)| line.contains(&search))
                    .map(|(at, line)| format!("{}: {line}", at + 1))
                    .collect();
                let found = lines.join("\n");
                (
                    found.clone(),
                    format!(
                        "{} lines of {path} hold {search:?}:\n{}",
                        lines.len(),
                        self.shorten(session, &found)
                    ),
                )
            }
        };
        self.complete(session, work, &text_content(&shown), &json!({ "content": shown }));
        self.tell(session, said);
    }

    pub(super) fn progress(&mut self, session: &str, work: &Work) {
        self.report(session, &work.call, &json!({ "status": tool_status::IN_PROGRESS }));
    }

    pub(super) fn complete(&mut self, session: &str, work: &Work, content: &Value, raw: &Value) {
        self.report(
            session,
            &work.call,
            &json!({ "status": tool_status::COMPLETED, "content": content, "rawOutput": raw }),
        );
    }

    /// Reports the tool call as failed and says why.
    pub(super) fn fail(&mut self, session: &str, work: &Work, reason: &str) {
        self.fail_as(session, work, reason, Failure::Broken);
    }

    pub(super) fn fail_as(&mut self, session: &str, work: &Work, reason: &str, failure: Failure) {
        self.report(
            session,
            &work.call,
            &json!({ "status": tool_status::FAILED, "content": text_content(reason) }),
        );
        self.after_failure(session, reason, failure);
    }

    /// What comes after a tool call that failed: words, or the end of the prompt.
    pub(super) fn after_failure(&mut self, session: &str, reason: &str, failure: Failure) {
        let strict = self.config.tool_errors && self.is_root(session);
        match self.turn(session) {
            Some(turn) if strict && !turn.model && turn.cancel.is_none() => {
                turn.steps.clear();
                turn.steps.push_back(Step::Fail(failure.error(reason)));
            }
            _ => self.tell(session, reason),
        }
    }

    /// Sends a `tool_call_update` and keeps the call's state.
    pub(super) fn report(&mut self, session: &str, call: &str, fields: &Value) {
        let mut update = json!({ "sessionUpdate": update::TOOL_CALL_UPDATE, "toolCallId": call });
        merge(&mut update, fields);
        self.update(session, &update);
        let Some(turn) = self.turn(session) else { return };
        let Some(tool) = turn.tools.iter_mut().find(|tool| tool.body["toolCallId"] == call) else { return };
        merge(&mut tool.body, fields);
        tool.done = matches!(
            fields.get("status").and_then(Value::as_str),
            Some(tool_status::COMPLETED | tool_status::FAILED)
        );
        if tool.done {
            let mut kept = tool.body.clone();
            forget_terminals(&mut kept);
            self.child_did(session, &kept);
            self.keep(session, kept);
        }
    }

    /// Reports every tool call that is still open as failed.
    pub(super) fn close_tools(&mut self, session: &str) {
        let Some(turn) = self.turn(session) else { return };
        let open: Vec<String> = turn
            .tools
            .iter()
            .filter(|tool| !tool.done)
            .filter_map(|tool| tool.body["toolCallId"].as_str().map(str::to_owned))
            .collect();
        for call in open {
            self.report(session, &call, &json!({ "status": tool_status::FAILED }));
        }
    }
}

/// Why a file was not read or written. Our own hands say it in a whole sentence, a client as it likes.
fn could_not(verb: &str, path: &str, error: &RpcError) -> String {
    match error.message.strip_prefix("cannot ").filter(|message| message.contains(path)) {
        Some(reason) => format!("I cannot {reason}."),
        None => format!("I could not {verb} {path}: {error}."),
    }
}

/// Why a file was not edited. What the file holds there ends without a full stop.
fn cannot_edit(reason: &str) -> String {
    let stop = if reason.contains('\n') { "" } else { "." };
    format!("I cannot edit: {reason}{stop}")
}

pub(super) fn terminal_id(answer: &Value) -> Option<String> {
    answer.get("terminalId").and_then(Value::as_str).map(str::to_owned)
}

pub(super) fn text_content(text: &str) -> Value {
    json!([{ "type": "content", "content": { "type": "text", "text": text } }])
}

/// At most that many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A terminal is gone when the session is loaded again; its output stays.
fn forget_terminals(body: &mut Value) {
    let output = body.pointer("/rawOutput/output").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(Value::Array(items)) = body.get_mut("content") else { return };
    for item in items {
        if item["type"] == "terminal" {
            *item = json!({ "type": "content", "content": { "type": "text", "text": output } });
        }
    }
}

fn merge(into: &mut Value, fields: &Value) {
    let (Value::Object(into), Value::Object(fields)) = (into, fields) else { return };
    for (key, value) in fields {
        into.insert(key.clone(), value.clone());
    }
}
