//! Tool calls: what they do through the client, and how they are reported.
//!
//! ```text
//!  pending ──► (permission) ──► in_progress ──► completed
//!      └───────────┴────────────────┴─────────► failed
//! ```

use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::Agent;
use super::effect::Effect;
use super::job::{Change, Job, known_before};
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
        let call = self.fresh_id("call");
        let mut body = json!({
            "toolCallId": call, "title": job.title(), "name": job.name(), "kind": job.kind(),
            "status": "pending", "rawInput": job.input(),
        });
        if job.path().is_some() {
            body["locations"] = job.locations();
        }
        let mut update = json!({ "sessionUpdate": "tool_call" });
        merge(&mut update, &body);
        self.update(session, &update);
        if let Some(turn) = self.turn(session) {
            turn.tools.push(Tool { body: update, done: false });
        }
        let work = Work { call, job, terminal: None, asked: false };
        if let Some(path) = work.job.path().filter(|path| !self.inside(session, path)) {
            let reason = format!("{path} lies outside of the session's folders.");
            self.fail(session, &work, &reason);
            return;
        }
        self.start(session, work);
    }

    fn inside(&self, session: &str, path: &str) -> bool {
        let cwd = !self.wrong(Switch::RefusesCwd);
        self.wrong(Switch::NoBoundary)
            || self.sessions.get(session).is_some_and(|open| open.contains(path, cwd))
    }

    /// Why the job cannot even be tried, in words for the person.
    fn unable(&self, session: &str, job: &Job) -> Option<String> {
        let caps = self.caps();
        let mode = self.sessions.get(session).map_or("", |open| open.record.mode.as_str());
        match job {
            Job::Read { path, .. } if !caps.read => {
                Some(format!("I cannot read {path}: this client does not offer to read files."))
            }
            Job::Write { path, .. } | Job::Read { path, .. } if path.is_empty() => {
                Some("Which file?".to_owned())
            }
            Job::Write { path, .. } if !caps.write => {
                Some(format!("I cannot write {path}: this client does not offer to write files."))
            }
            Job::Write { path, change: Change::Replace { .. } | Change::Append(_), .. } if !caps.read => {
                Some(format!("I cannot edit {path}: this client does not offer to read files."))
            }
            Job::Run { line, .. } if !caps.terminal => {
                Some(format!("I cannot run `{line}`: this client does not offer terminals."))
            }
            Job::Write { .. } | Job::Run { .. } if mode == "plan" => {
                Some("In plan mode I change nothing and run nothing.".to_owned())
            }
            _ => None,
        }
    }

    fn start(&mut self, session: &str, work: Work) {
        match &work.job {
            Job::Read { path, line, limit, .. } => {
                let mut params = json!({ "sessionId": session, "path": path });
                for (key, value) in [("line", line), ("limit", limit)] {
                    if let Some(value) = value {
                        params[key] = json!(value);
                    }
                }
                self.progress(session, &work);
                self.ask(
                    session,
                    "fs/read_text_file",
                    &params,
                    Await::Work(Box::new(work), Stage::Read),
                    None,
                );
            }
            Job::Write { path, .. } if self.caps().read => {
                let params = json!({ "sessionId": session, "path": path });
                self.ask(
                    session,
                    "fs/read_text_file",
                    &params,
                    Await::Work(Box::new(work), Stage::Old),
                    None,
                );
            }
            Job::Write { .. } | Job::Run { .. } | Job::Harmless { .. } => self.ask_permission(session, work),
            Job::Mcp { .. } => self.execute(session, work),
        }
    }

    fn ask_permission(&mut self, session: &str, work: Work) {
        let open = self.sessions.get(session);
        let encore = open.and_then(|open| open.turn.as_ref()).is_some_and(|turn| turn.encore);
        let auto =
            open.is_some_and(|open| open.record.mode == "auto") || self.wrong(Switch::NoBoundary) || encore;
        match open.and_then(|open| open.standing.get(work.job.kind())) {
            Some(false) => return self.rejected(session, &work),
            Some(true) => return self.execute(session, work),
            None if auto => return self.execute(session, work),
            None if self.wrong(Switch::AsksAfterwards) && !work.asked => {
                return self.execute(session, Work { asked: true, ..work });
            }
            None => {}
        }
        let mut call = json!({
            "toolCallId": work.call, "title": work.job.title(), "kind": work.job.kind(), "status": "pending",
            "rawInput": work.job.input(), "content": work.job.preview(),
        });
        if work.job.path().is_some() {
            call["locations"] = work.job.locations();
        }
        let params = json!({
            "sessionId": session,
            "toolCall": call,
            "options": [
                { "optionId": "allow-once", "name": "Allow once", "kind": "allow_once" },
                { "optionId": "allow-always", "name": "Always allow", "kind": "allow_always" },
                { "optionId": "reject-once", "name": "Reject", "kind": "reject_once" },
                { "optionId": "reject-always", "name": "Always reject", "kind": "reject_always" },
            ],
        });
        let patience = self.config.permission_timeout;
        let then = Await::Work(Box::new(work), Stage::Permission);
        self.ask(session, "session/request_permission", &params, then, patience);
    }

    fn decided(&mut self, session: &str, work: Work, answer: Result<Value, RpcError>) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.fail(session, &work, &format!("Permission was not given: {error}.")),
        };
        let outcome = answer.get("outcome").unwrap_or(&Value::Null);
        if outcome.get("outcome").and_then(Value::as_str) == Some("cancelled") {
            self.wind_down(session);
            return;
        }
        let option = outcome.get("optionId").and_then(Value::as_str).unwrap_or_default();
        let standing = match option {
            "allow-always" => Some(true),
            "reject-always" => Some(false),
            _ => None,
        };
        if let (Some(decision), Some(open)) = (standing, self.sessions.get_mut(session)) {
            open.standing.insert(work.job.kind().to_owned(), decision);
        }
        match option {
            "allow-once" | "allow-always" if work.asked => {
                let content = work.job.preview();
                self.complete(session, &work, &content, &json!({ "written": true }));
                self.say(session, "It is done already.");
            }
            "allow-once" | "allow-always" => self.execute(session, work),
            _ => self.rejected(session, &work),
        }
    }

    fn rejected(&mut self, session: &str, work: &Work) {
        self.fail(session, work, &format!("Rejected, so nothing was done: {}.", work.job.title()));
    }

    /// Does what the job is about, now that it may.
    fn execute(&mut self, session: &str, mut work: Work) {
        self.progress(session, &work);
        match &mut work.job {
            Job::Write { path, .. } => {
                let path = path.clone();
                match work.job.new_text() {
                    Ok(text) => {
                        let params = json!({ "sessionId": session, "path": path, "content": text });
                        let then = Await::Work(Box::new(work), Stage::Written);
                        self.ask(session, "fs/write_text_file", &params, then, None);
                    }
                    Err(reason) => self.fail(session, &work, &format!("I cannot edit: {reason}.")),
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
                    "terminal/create",
                    &params,
                    Await::Work(Box::new(work), Stage::Created),
                    None,
                );
            }
            Job::Mcp { key, tool, arguments, .. } => {
                let (key, tool, arguments) = (*key, tool.clone(), arguments.clone());
                if self.wrong(Switch::PretendsMcpCalls) {
                    let pretended = json!({ "content": [{ "type": "text", "text": "done" }] });
                    return self.mcp_called(session, &work, Ok(pretended));
                }
                let token = self.number();
                self.outbox.push_back(Effect::McpCall { key, token, tool, arguments });
                self.wait(session, Wait::Mcp { token, work: Box::new(work) });
            }
            Job::Harmless { fails: true } => self.fail(session, &work, "The tool failed, as was wished."),
            Job::Harmless { .. } => {
                self.complete(session, &work, &text_content("noted"), &json!({ "noted": true }));
                self.say(session, "Done, with your permission.");
            }
            Job::Read { .. } => {}
        }
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
                    Err(reason) => self.fail(session, &work, &format!("I cannot edit: {reason}.")),
                }
            }
            Stage::Written => match answer {
                Ok(_) if work.asked => self.ask_permission(session, work),
                Ok(_) => {
                    let (content, title) = (work.job.preview(), work.job.title());
                    self.complete(session, &work, &content, &json!({ "written": true }));
                    self.say(session, format!("Done: {title}."));
                }
                Err(error) => self.fail(session, &work, &format!("I could not write the file: {error}.")),
            },
            Stage::Created => self.terminal_created(session, work, answer),
            Stage::Exited | Stage::Killed => {
                if let (Job::Run { exit, .. }, Ok(status), Stage::Exited) = (&mut work.job, &answer, stage) {
                    *exit = status.clone();
                }
                self.ask_terminal(session, "terminal/output", work, Stage::Output, None);
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
            Ok(answer) => answer.get("content").and_then(Value::as_str).unwrap_or_default().to_owned(),
            Err(error) => return self.fail(session, work, &format!("I could not read {path}: {error}.")),
        };
        let (shown, said) = match search {
            None => (text.clone(), format!("The contents of {path}:\n{}", shorten(&text))),
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
                    format!("{} lines of {path} hold {search:?}:\n{}", lines.len(), shorten(&found)),
                )
            }
        };
        self.complete(session, work, &text_content(&shown), &json!({ "content": shown }));
        self.say(session, said);
    }

    fn progress(&mut self, session: &str, work: &Work) {
        self.report(session, &work.call, &json!({ "status": "in_progress" }));
    }

    pub(super) fn complete(&mut self, session: &str, work: &Work, content: &Value, raw: &Value) {
        self.report(
            session,
            &work.call,
            &json!({ "status": "completed", "content": content, "rawOutput": raw }),
        );
    }

    /// Reports the tool call as failed and says why.
    pub(super) fn fail(&mut self, session: &str, work: &Work, reason: &str) {
        self.report(session, &work.call, &json!({ "status": "failed", "content": text_content(reason) }));
        self.say(session, reason);
    }

    /// Sends a `tool_call_update` and keeps the call's state.
    pub(super) fn report(&mut self, session: &str, call: &str, fields: &Value) {
        let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": call });
        merge(&mut update, fields);
        self.update(session, &update);
        let Some(turn) = self.turn(session) else { return };
        let Some(tool) = turn.tools.iter_mut().find(|tool| tool.body["toolCallId"] == call) else { return };
        merge(&mut tool.body, fields);
        tool.done = matches!(fields.get("status").and_then(Value::as_str), Some("completed" | "failed"));
        if tool.done {
            let mut kept = tool.body.clone();
            forget_terminals(&mut kept);
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
            self.report(session, &call, &json!({ "status": "failed" }));
        }
    }
}

pub(super) fn terminal_id(answer: &Value) -> Option<String> {
    answer.get("terminalId").and_then(Value::as_str).map(str::to_owned)
}

pub(super) fn text_content(text: &str) -> Value {
    json!([{ "type": "content", "content": { "type": "text", "text": text } }])
}

/// At most two thousand characters.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(2000) {
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
