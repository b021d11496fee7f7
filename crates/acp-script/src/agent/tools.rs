//! Tool calls: what they do through the client, and how they are reported.
//!
//! ```text
//!  pending ──► (permission) ──► in_progress ──► completed
//!      └───────────┴────────────────┴─────────► failed
//! ```

use std::time::Duration;

use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::Agent;
use super::effect::Effect;
use super::session::ServerState;
use super::step::Step;
use super::turn::{Await, Tool, Wait};
use crate::switch::Switch;

/// A tool call under way.
pub(super) struct Work {
    pub(super) call: String,
    pub(super) job: Job,
    terminal: Option<String>,
    /// Asks for permission only after the deed.
    asked: bool,
}

/// What a tool call does. Paths are absolute.
pub(super) enum Job {
    Read { path: String, line: Option<u32>, limit: Option<u32>, search: Option<String> },
    Write { path: String, change: Change, old: Old },
    Run { line: String, kill_after: Option<Duration>, killed: bool, exit: Value, output: Value },
    Mcp { key: u64, server: String, tool: String, arguments: Value },
    Harmless { fails: bool },
}

/// How a file changes.
pub(super) enum Change {
    Whole(String),
    Replace { old: String, new: String },
    Append(String),
}

/// What is known of a file before it changes.
pub(super) enum Old {
    Unknown,
    Absent,
    Text(String),
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

/// How long to wait for the answer to a kill or release.
const CLEANUP: Duration = Duration::from_secs(1);
/// How long to wait for MCP servers that are still connecting.
const SERVERS: Duration = Duration::from_secs(15);

impl Job {
    pub(super) fn run(line: impl Into<String>, kill_after: Option<Duration>) -> Self {
        Self::Run { line: line.into(), kill_after, killed: false, exit: Value::Null, output: Value::Null }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Read { search: Some(_), .. } => "search",
            Self::Read { .. } => "read",
            Self::Write { .. } => "edit",
            Self::Run { .. } => "execute",
            Self::Mcp { .. } | Self::Harmless { .. } => "other",
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Read { search: Some(_), .. } => "search_file".to_owned(),
            Self::Read { .. } => "read_file".to_owned(),
            Self::Write { change: Change::Whole(_), .. } => "write_file".to_owned(),
            Self::Write { .. } => "edit_file".to_owned(),
            Self::Run { .. } => "run_command".to_owned(),
            Self::Mcp { server, tool, .. } => format!("mcp__{server}__{tool}"),
            Self::Harmless { .. } => "take_note".to_owned(),
        }
    }

    fn title(&self) -> String {
        match self {
            Self::Read { path, search: Some(text), .. } => format!("Search {text:?} in {path}"),
            Self::Read { path, .. } => format!("Read {path}"),
            Self::Write { path, change: Change::Whole(_), .. } => format!("Write {path}"),
            Self::Write { path, .. } => format!("Edit {path}"),
            Self::Run { line, .. } => format!("Run `{line}`"),
            Self::Mcp { server, tool, .. } => format!("Call {tool} of {server}"),
            Self::Harmless { .. } => "Take a note".to_owned(),
        }
    }

    fn input(&self) -> Value {
        match self {
            Self::Read { path, line, limit, search } => {
                let mut input = json!({ "path": path });
                for (key, value) in [("line", line), ("limit", limit)] {
                    if let Some(value) = value {
                        input[key] = json!(value);
                    }
                }
                if let Some(search) = search {
                    input["search"] = json!(search);
                }
                input
            }
            Self::Write { path, change, .. } => match change {
                Change::Whole(text) => json!({ "path": path, "content": text }),
                Change::Replace { old, new } => json!({ "path": path, "old": old, "new": new }),
                Change::Append(text) => json!({ "path": path, "append": text }),
            },
            Self::Run { line, .. } => json!({ "command": line }),
            Self::Mcp { arguments, .. } => arguments.clone(),
            Self::Harmless { .. } => json!({ "note": "a harmless pretended tool" }),
        }
    }

    fn locations(&self) -> Value {
        match self {
            Self::Read { path, line: Some(line), .. } => json!([{ "path": path, "line": line }]),
            Self::Read { path, .. } | Self::Write { path, .. } => json!([{ "path": path }]),
            _ => json!([]),
        }
    }

    fn path(&self) -> Option<&str> {
        match self {
            Self::Read { path, .. } | Self::Write { path, .. } => Some(path),
            _ => None,
        }
    }

    /// The whole new text of a file, once what was there is known.
    fn new_text(&self) -> Result<String, String> {
        let Self::Write { path, change, old } = self else { return Err("not a change of a file".to_owned()) };
        match (change, old) {
            (Change::Whole(text), _) => Ok(text.clone()),
            (Change::Replace { old: from, new }, Old::Text(text)) if text.contains(from) => {
                Ok(text.replacen(from, new, 1))
            }
            (Change::Replace { old: from, .. }, Old::Text(_)) => {
                Err(format!("{path} does not hold {from:?}"))
            }
            (Change::Replace { .. }, _) => Err(format!("{path} cannot be read")),
            (Change::Append(more), Old::Text(text)) if text.is_empty() || text.ends_with('\n') => {
                Ok(format!("{text}{more}"))
            }
            (Change::Append(more), Old::Text(text)) => Ok(format!("{text}\n{more}")),
            (Change::Append(more), _) => Ok(more.clone()),
        }
    }

    /// What the client may show of a change: a diff, unless the old text is not known.
    fn preview(&self) -> Value {
        match (self, self.new_text()) {
            (Self::Write { path, old: Old::Text(old), .. }, Ok(new)) => {
                json!([{ "type": "diff", "path": path, "oldText": old, "newText": new }])
            }
            (Self::Write { path, old: Old::Absent, .. }, Ok(new)) => {
                json!([{ "type": "diff", "path": path, "oldText": null, "newText": new }])
            }
            (Self::Write { path, .. }, Ok(new)) => text_content(&format!("New text of {path}:\n{new}")),
            (job, _) => text_content(&job.title()),
        }
    }
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
        let auto = open.is_some_and(|open| open.record.mode == "auto") || self.wrong(Switch::NoBoundary);
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
                self.complete(session, &work, content, &json!({ "written": true }));
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
                self.complete(session, &work, text_content("noted"), &json!({ "noted": true }));
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
                    self.complete(session, &work, content, &json!({ "written": true }));
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
        self.complete(session, work, text_content(&shown), &json!({ "content": shown }));
        self.say(session, said);
    }

    fn terminal_created(&mut self, session: &str, mut work: Work, answer: Result<Value, RpcError>) {
        let terminal = match answer.map(|answer| terminal_id(&answer)) {
            Ok(Some(terminal)) => terminal,
            Ok(None) => return self.fail(session, &work, "The client made a terminal but did not name it."),
            Err(error) => {
                return self.fail(session, &work, &format!("I could not run the command: {error}."));
            }
        };
        if let Some(turn) = self.turn(session) {
            turn.terminals.push(terminal.clone());
        }
        self.report(
            session,
            &work.call,
            json!({ "content": [{ "type": "terminal", "terminalId": terminal }] }),
        );
        work.terminal = Some(terminal);
        let patience = match work.job {
            Job::Run { kill_after, .. } => kill_after,
            _ => None,
        };
        self.ask_terminal(session, "terminal/wait_for_exit", work, Stage::Exited, patience);
    }

    fn ask_terminal(
        &mut self,
        session: &str,
        method: &str,
        work: Work,
        stage: Stage,
        patience: Option<Duration>,
    ) {
        let params = json!({ "sessionId": session, "terminalId": work.terminal });
        self.ask(session, method, &params, Await::Work(Box::new(work), stage), patience);
    }

    /// The command ran longer than it may.
    pub(super) fn overdue(&mut self, session: &str, mut work: Work) {
        if let Job::Run { killed, .. } = &mut work.job {
            *killed = true;
        }
        self.ask_terminal(session, "terminal/kill", work, Stage::Killed, Some(CLEANUP));
    }

    pub(super) fn kill_terminal(&mut self, session: &str, terminal: &str) {
        let params = json!({ "sessionId": session, "terminalId": terminal });
        self.ask(session, "terminal/kill", &params, Await::Cleanup, Some(CLEANUP));
    }

    pub(super) fn release_terminal(&mut self, session: &str, terminal: &str) {
        if let Some(turn) = self.turn(session) {
            turn.terminals.retain(|open| open != terminal);
        }
        let params = json!({ "sessionId": session, "terminalId": terminal });
        self.ask(session, "terminal/release", &params, Await::Cleanup, Some(CLEANUP));
    }

    /// Reports how a command ended.
    pub(super) fn finish_run(&mut self, session: &str, work: Work) {
        let Job::Run { line, exit, output, killed, kill_after } = &work.job else { return };
        let text = output.get("output").and_then(Value::as_str).unwrap_or_default();
        let code = exit.get("exitCode").and_then(Value::as_i64);
        let ended = match (killed, code) {
            (true, _) => format!("was killed after {:?}", kill_after.unwrap_or_default()),
            (_, Some(code)) => format!("ended with exit code {code}"),
            (_, None) => {
                format!("ended by signal {}", exit.get("signal").and_then(Value::as_str).unwrap_or("unknown"))
            }
        };
        let said = format!("`{line}` {ended}. Its output:\n{}", shorten(text));
        let content = json!([{ "type": "terminal", "terminalId": work.terminal }]);
        let raw = json!({ "exitCode": code, "output": text });
        if code == Some(0) && !killed {
            self.complete(session, &work, content, &raw);
        } else {
            self.report(
                session,
                &work.call,
                json!({ "status": "failed", "content": content, "rawOutput": raw }),
            );
        }
        // The release stands next in the turn; the words come after it.
        let released = self.turn(session).and_then(|turn| turn.steps.pop_front());
        self.say(session, said);
        self.insert(session, released);
    }

    pub(super) fn begin_mcp(
        &mut self,
        session: &str,
        server: Option<String>,
        tool: String,
        arguments: Option<String>,
    ) {
        if self.servers_coming(session) {
            self.insert(session, [Step::Mcp { server, tool, arguments }]);
            self.wait(session, Wait::Servers { until: self.now + SERVERS });
            return;
        }
        let arguments = match arguments.as_deref().map(serde_json::from_str::<Value>) {
            None => json!({}),
            Some(Ok(arguments)) => arguments,
            Some(Err(error)) => {
                self.say(session, format!("These arguments are not JSON: {error}."));
                return;
            }
        };
        let everywhere = self.wrong(Switch::SharesMcpTools);
        let open = self.sessions.iter().filter(|(id, _)| everywhere || *id == session);
        let found = open.flat_map(|(_, open)| &open.servers).find_map(|candidate| match &candidate.state {
            ServerState::Ready(tools)
                if server.as_ref().is_none_or(|name| *name == candidate.name)
                    && tools.iter().any(|offered| offered.name == tool) =>
            {
                Some((candidate.key, candidate.name.clone()))
            }
            _ => None,
        });
        match found {
            Some((key, server)) => self.begin(session, Job::Mcp { key, server, tool, arguments }),
            None => {
                let known = self.mcp_tools(session);
                self.say(session, format!("No MCP server of this session offers a tool {tool:?}. {known}"));
            }
        }
    }

    pub(super) fn list_mcp(&mut self, session: &str) {
        if self.servers_coming(session) {
            self.insert(session, [Step::McpList]);
            self.wait(session, Wait::Servers { until: self.now + SERVERS });
            return;
        }
        let known = self.mcp_tools(session);
        self.say(session, known);
    }

    fn servers_coming(&mut self, session: &str) -> bool {
        let waited = self.turn(session).is_some_and(|turn| turn.waited_for_servers);
        let connecting = |open: &super::session::Session| {
            open.servers.iter().any(|server| matches!(server.state, ServerState::Connecting))
        };
        !waited && self.sessions.get(session).is_some_and(connecting)
    }

    fn mcp_tools(&self, session: &str) -> String {
        let Some(open) = self.sessions.get(session) else { return String::new() };
        if open.servers.is_empty() {
            return "This session has no MCP servers.".to_owned();
        }
        let each = open.servers.iter().map(|server| match &server.state {
            ServerState::Connecting => format!("{} is still connecting", server.name),
            ServerState::Failed(reason) => format!("{} cannot be used ({reason})", server.name),
            ServerState::Ready(tools) => {
                let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                format!("{} offers {}", server.name, names.join(", "))
            }
        });
        format!("MCP servers: {}.", each.collect::<Vec<_>>().join("; "))
    }

    fn mcp_called(&mut self, session: &str, work: &Work, answer: Result<Value, RpcError>) {
        let Job::Mcp { tool, .. } = &work.job else { return };
        let tool = tool.clone();
        match answer {
            Ok(result) => {
                let text = mcp_text(&result);
                if result.get("isError").and_then(Value::as_bool) == Some(true) {
                    return self.fail(
                        session,
                        work,
                        &format!("The tool {tool} answered with an error: {text}"),
                    );
                }
                self.complete(session, work, text_content(&text), &result);
                self.say(session, format!("The tool {tool} answered:\n{}", shorten(&text)));
            }
            Err(error) => self.fail(session, work, &format!("The tool {tool} could not be called: {error}.")),
        }
    }

    fn progress(&mut self, session: &str, work: &Work) {
        self.report(session, &work.call, json!({ "status": "in_progress" }));
    }

    fn complete(&mut self, session: &str, work: &Work, content: Value, raw: &Value) {
        self.report(
            session,
            &work.call,
            json!({ "status": "completed", "content": content, "rawOutput": raw }),
        );
    }

    /// Reports the tool call as failed and says why.
    fn fail(&mut self, session: &str, work: &Work, reason: &str) {
        self.report(session, &work.call, json!({ "status": "failed", "content": text_content(reason) }));
        self.say(session, reason);
    }

    /// Sends a `tool_call_update` and keeps the call's state.
    fn report(&mut self, session: &str, call: &str, fields: Value) {
        let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": call });
        merge(&mut update, &fields);
        self.update(session, &update);
        let Some(turn) = self.turn(session) else { return };
        let Some(tool) = turn.tools.iter_mut().find(|tool| tool.body["toolCallId"] == call) else { return };
        merge(&mut tool.body, &fields);
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
            self.report(session, &call, json!({ "status": "failed" }));
        }
    }
}

/// Command and arguments: as they are when no shell is needed, otherwise for `sh -c`.
fn split(line: &str) -> (String, Vec<String>) {
    let needs_shell = line.contains(['|', '&', ';', '<', '>', '$', '`', '*', '?', '~', '(', '\n', '=']);
    match shlex::split(line) {
        Some(mut words) if !needs_shell && !words.is_empty() => {
            let command = words.remove(0);
            (command, words)
        }
        _ => ("sh".to_owned(), vec!["-c".to_owned(), line.to_owned()]),
    }
}

fn terminal_id(answer: &Value) -> Option<String> {
    answer.get("terminalId").and_then(Value::as_str).map(str::to_owned)
}

/// What the answer to the reading says about the file before it changes.
fn known_before(answer: &Result<Value, RpcError>) -> Old {
    match answer {
        Ok(answer) => answer
            .get("content")
            .and_then(Value::as_str)
            .map_or(Old::Unknown, |text| Old::Text(text.to_owned())),
        Err(error) => {
            let message = error.message.to_lowercase();
            let absent =
                ["not found", "no such", "not exist", "enoent"].iter().any(|word| message.contains(word));
            if error.code == -32002 || absent { Old::Absent } else { Old::Unknown }
        }
    }
}

/// The text of an MCP tool's answer.
fn mcp_text(result: &Value) -> String {
    let Some(items) = result.get("content").and_then(Value::as_array) else { return result.to_string() };
    let texts: Vec<&str> = items.iter().filter_map(|item| item.get("text").and_then(Value::as_str)).collect();
    texts.join("\n")
}

fn text_content(text: &str) -> Value {
    json!([{ "type": "content", "content": { "type": "text", "text": text } }])
}

/// At most two thousand characters.
fn shorten(text: &str) -> String {
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
