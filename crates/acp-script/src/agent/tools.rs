//! Tool calls: what they do through the client, and how they are reported.
//!
//! ```text
//!  pending ──► (permission) ──► in_progress ──► completed
//!      └───────────┴────────────────┴─────────► failed
//! ```

use std::collections::VecDeque;

use acp_proto::{method, tool_status, update};
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::effect::AgentEffect;
use super::habits::Asking;
use super::job::{Change, Job, NO_CONTENT, known_before};
use super::permits::Failure;
use super::step::Step;
use super::terminal::split;
use super::turn::{ActiveTurn, Await, Tool, Wait};

/// A tool call under way.
pub(super) struct Work {
    pub(super) call: String,
    pub(super) job: Job,
    pub(super) terminal: Option<String>,
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

impl ActiveTurn<'_> {
    /// Reports a tool call and does its first step.
    pub(super) fn begin(&mut self, job: Job) {
        if let Some(reason) = self.unable(&job) {
            self.say(reason);
            return;
        }
        let work = self.announce(job);
        if let Some(path) = work.job.path().filter(|path| !self.inside(path)) {
            let reason = format!("{path} lies outside of the session's folders.");
            self.fail_as(&work, &reason, Failure::Denied);
            return;
        }
        if let Some(reason) = self.forbidden(&work.job) {
            self.fail_as(&work, &reason, Failure::Denied);
            return;
        }
        self.start(work);
    }

    /// Tells the client about a tool call.
    pub(super) fn announce(&mut self, job: Job) -> Work {
        let call = self.cx.fresh_id("call");
        let mut body = json!({
            "toolCallId": call, "title": job.title(), "name": job.name(), "kind": job.kind(),
            "status": tool_status::PENDING, "rawInput": job.input(),
        });
        if job.path().is_some() {
            body["locations"] = job.locations();
        }
        let mut update = json!({ "sessionUpdate": update::TOOL_CALL });
        merge(&mut update, &body);
        self.update(&update);
        self.turn.tools.push(Tool { body: update, done: false });
        if let Some(round) = self.session.record.rounds.last_mut().filter(|_| self.turn.rounds > 0) {
            round.calls.push(call.clone());
        }
        self.show_parent();
        self.checkpoint_client_session();
        Work { call, job, terminal: None }
    }

    fn start(&mut self, work: Work) {
        match &work.job {
            Job::Read { .. } | Job::Mcp { .. } if self.cx.config.habits.permission == Asking::Always => {
                self.ask_permission(work);
            }
            Job::Read { .. } => self.execute(work),
            Job::Write { path, change, .. } if self.reads() && self.looks_first(change) => {
                let params = json!({ "sessionId": self.session.id(), "path": path });
                self.ask(method::FS_READ_TEXT_FILE, &params, Await::Work(Box::new(work), Stage::Old), None);
            }
            Job::Write { .. } | Job::Run { .. } | Job::Harmless { .. } => self.ask_permission(work),
            Job::Mcp { .. } if self.cx.config.rules.careful => self.ask_permission(work),
            Job::Mcp { .. } | Job::Tool { .. } | Job::Plan { .. } => self.execute(work),
            Job::Wrong { reason, .. } => {
                let reason = reason.clone();
                self.fail(&work, &reason);
            }
            Job::Delegate { .. } => {}
        }
    }

    /// Does what the job is about, now that it may.
    pub(super) fn execute(&mut self, mut work: Work) {
        self.progress(&work);
        match &mut work.job {
            Job::Write { path, .. } => {
                let path = path.clone();
                match work.job.new_text() {
                    Ok(text) => {
                        let params = json!({ "sessionId": self.session.id(), "path": path, "content": text });
                        let then = Await::Work(Box::new(work), Stage::Written);
                        self.ask(method::FS_WRITE_TEXT_FILE, &params, then, None);
                    }
                    Err(reason) => self.fail(&work, &cannot_edit(&reason)),
                }
            }
            Job::Run { line, .. } => {
                let (command, args) = split(line);
                let params = json!({
                    "sessionId": self.session.id(), "command": command, "args": args, "env": [],
                    "cwd": self.session.record.cwd, "outputByteLimit": 1_048_576,
                });
                self.ask(method::TERMINAL_CREATE, &params, Await::Work(Box::new(work), Stage::Created), None);
            }
            Job::Mcp { key, tool, arguments, .. } => {
                let (key, tool, arguments) = (*key, tool.clone(), arguments.clone());
                let token = self.cx.number();
                self.cx.outbox.push_back(AgentEffect::McpCall { key, token, tool, arguments });
                self.wait(Wait::Tool { token, work: Box::new(work) });
            }
            Job::Tool { name, arguments, .. } => {
                let (name, arguments) = (name.clone(), arguments.clone());
                self.use_tool(work, name, arguments);
            }
            Job::Plan { entries } => {
                let update = json!({ "sessionUpdate": update::PLAN, "entries": entries });
                self.update(&update);
                self.keep(update);
                self.complete(&work, &text_content("The plan is noted."), &json!({ "noted": true }));
            }
            Job::Harmless { fails: true } => self.fail(&work, "The tool failed, as was wished."),
            Job::Harmless { .. } => {
                self.complete(&work, &text_content("noted"), &json!({ "noted": true }));
                self.tell("Done, with your permission.");
            }
            Job::Read { path, line, limit, .. } => {
                let mut params = json!({ "sessionId": self.session.id(), "path": path });
                for (key, value) in [("line", line), ("limit", limit)] {
                    if let Some(value) = value {
                        params[key] = json!(value);
                    }
                }
                let then = Await::Work(Box::new(work), Stage::Read);
                self.ask(method::FS_READ_TEXT_FILE, &params, then, None);
            }
            Job::Delegate { .. } | Job::Wrong { .. } => {}
        }
    }

    /// Whether a file is read before this change of it; what only changes a part must be.
    fn looks_first(&self, change: &Change) -> bool {
        self.cx.config.habits.reads_before_writing || !matches!(change, Change::Whole(_))
    }

    /// Takes the answer a tool call waited for.
    pub(super) fn work(&mut self, mut work: Work, stage: Stage, answer: Result<Value, RpcError>) {
        match stage {
            Stage::Permission => self.decided(work, answer),
            Stage::Read => self.was_read(&work, answer),
            Stage::Old => {
                if let Job::Write { old, .. } = &mut work.job {
                    *old = known_before(&answer);
                }
                match work.job.new_text() {
                    Ok(_) => self.ask_permission(work),
                    Err(reason) => self.fail(&work, &cannot_edit(&reason)),
                }
            }
            Stage::Again => {
                let Job::Write { path, change, old } = &mut work.job else { return };
                let now = known_before(&answer);
                if *old != now && change.needs_same_text() {
                    let reason =
                        format!("{path} was changed by somebody else meanwhile and is left as it is.");
                    return self.fail(&work, &reason);
                }
                *old = now;
                self.proceed(work);
            }
            Stage::Written => match answer {
                Ok(_) => {
                    let (content, title) = (work.job.preview(), work.job.title());
                    self.complete(&work, &content, &json!({ "written": true }));
                    self.tell(format!("Done: {title}."));
                }
                Err(error) => {
                    let path = work.job.path().unwrap_or("the file").to_owned();
                    self.fail(&work, &could_not("write", &path, &error));
                }
            },
            Stage::Created => self.terminal_created(work, answer),
            Stage::Exited | Stage::Killed => {
                if let (Job::Run { exit, .. }, Ok(status), Stage::Exited) = (&mut work.job, &answer, stage) {
                    *exit = status.clone();
                }
                self.ask_terminal(method::TERMINAL_OUTPUT, work, Stage::Output, None);
            }
            Stage::Output => {
                let terminal = work.terminal.clone().unwrap_or_default();
                if let Job::Run { output, exit, .. } = &mut work.job {
                    *output = answer.unwrap_or(Value::Null);
                    if exit.is_null() {
                        *exit = output.get("exitStatus").cloned().unwrap_or(Value::Null);
                    }
                }
                self.insert([Step::Finish(Box::new(work)), Step::Release(terminal)]);
            }
            Stage::Called => self.mcp_called(&work, answer),
        }
    }

    /// An answer that came after the turn was cancelled.
    pub(super) fn late(&mut self, work: Work, stage: Stage, answer: Result<Value, RpcError>) {
        if let (Stage::Created, Ok(answer)) = (stage, answer)
            && let Some(terminal) = terminal_id(&answer)
        {
            self.turn.terminals.push(terminal);
        }
        drop(work);
    }

    fn was_read(&mut self, work: &Work, answer: Result<Value, RpcError>) {
        let Job::Read { path, search, .. } = &work.job else { return };
        let (path, search) = (path.clone(), search.clone());
        let text = match answer {
            Ok(answer) => match answer.get("content").and_then(Value::as_str) {
                Some(text) => text.to_owned(),
                None => {
                    return self.fail(work, &format!("I could not read {path}: {NO_CONTENT}."));
                }
            },
            Err(error) => return self.fail(work, &could_not("read", &path, &error)),
        };
        if self.cx.config.rules.careful && text.contains('\0') {
            return self.fail(work, &format!("I could not read {path}: it is a binary file."));
        }
        let (shown, said) = match search {
            None if !self.cx.config.habits.quotes => (text.clone(), "I have read it.".to_owned()),
            None => (text.clone(), format!("The contents of {path}:\n{}", self.shorten(&text))),
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
                    format!("{} lines of {path} hold {search:?}:\n{}", lines.len(), self.shorten(&found)),
                )
            }
        };
        self.complete(work, &text_content(&shown), &json!({ "content": shown }));
        self.tell(said);
    }

    pub(super) fn progress(&mut self, work: &Work) {
        self.report(&work.call, &json!({ "status": tool_status::IN_PROGRESS }));
    }

    pub(super) fn complete(&mut self, work: &Work, content: &Value, raw: &Value) {
        self.report(
            &work.call,
            &json!({ "status": tool_status::COMPLETED, "content": content, "rawOutput": raw }),
        );
    }

    /// Reports the tool call as failed and says why.
    pub(super) fn fail(&mut self, work: &Work, reason: &str) {
        self.fail_as(work, reason, Failure::Broken);
    }

    pub(super) fn fail_as(&mut self, work: &Work, reason: &str, failure: Failure) {
        self.report(&work.call, &json!({ "status": tool_status::FAILED, "content": text_content(reason) }));
        self.after_failure(reason, failure);
    }

    /// What comes after a tool call that failed: words, or the end of the prompt.
    pub(super) fn after_failure(&mut self, reason: &str, failure: Failure) {
        let strict = self.cx.config.form.tool_errors && self.session.is_root();
        if strict && !self.turn.model && self.turn.cancel.is_none() {
            self.turn.steps = VecDeque::from([Step::Fail(failure.error(reason))]);
        } else {
            self.tell(reason);
        }
    }

    /// Sends a `tool_call_update` and keeps the call's state.
    pub(super) fn report(&mut self, call: &str, fields: &Value) {
        let mut update = json!({ "sessionUpdate": update::TOOL_CALL_UPDATE, "toolCallId": call });
        merge(&mut update, fields);
        self.update(&update);
        let mut tools = self.turn.tools.iter_mut();
        let Some(tool) = tools.find(|tool| tool.body["toolCallId"] == call) else { return };
        merge(&mut tool.body, fields);
        tool.done = matches!(
            fields.get("status").and_then(Value::as_str),
            Some(tool_status::COMPLETED | tool_status::FAILED)
        );
        let done = tool.done.then(|| tool.body.clone());
        self.show_parent();
        if let Some(mut kept) = done {
            forget_terminals(&mut kept);
            self.keep_in_parent(&kept);
            self.keep(kept);
        }
    }

    /// Reports every tool call that is still open as failed.
    pub(super) fn close_tools(&mut self) {
        let open: Vec<String> = self
            .turn
            .tools
            .iter()
            .filter(|tool| !tool.done)
            .filter_map(|tool| tool.body["toolCallId"].as_str().map(str::to_owned))
            .collect();
        for call in open {
            self.report(&call, &json!({ "status": tool_status::FAILED }));
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
