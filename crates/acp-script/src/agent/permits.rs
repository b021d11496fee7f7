//! What may be done: by the client's capabilities, by the rules, by the person.

use acp_policy::{Action, Policy, Request, Rules, Stage as Asked, ToolKind, ToolPatterns, Verdict};
use acp_proto::{method, option_kind, tool_status};
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::Agent;
use super::calls::mcp_tools;
use super::habits::{Asking, Means};
use super::job::{Change, Job};
use super::session::{Server, Session};
use super::tools::{Stage, Work};
use super::turn::Await;
use crate::switch::Switch;

/// Why a tool call came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It is not allowed.
    Denied,
    /// It was tried.
    Broken,
}

impl Failure {
    /// The error of a prompt that ends with it.
    pub(super) fn error(self, reason: &str) -> RpcError {
        let why = match self {
            Self::Denied => "permission_denied",
            Self::Broken => "tool_execution_failed",
        };
        RpcError::internal(reason).with_data(json!({ "reason": why }))
    }
}

impl Agent {
    pub(super) fn inside(&self, session: &str, path: &str) -> bool {
        let cwd = !self.wrong(Switch::RefusesCwd);
        self.wrong(Switch::NoBoundary)
            || self.begins_alike(session, path)
            || self.sessions.get(session).is_some_and(|open| open.contains(path, cwd))
    }

    /// Whether the path only begins like the working folder, for an agent that is content with that.
    fn begins_alike(&self, session: &str, path: &str) -> bool {
        let outside = |open: &Session| path.starts_with(&open.record.cwd) && !open.contains(path, true);
        self.wrong(Switch::ComparesBeginnings) && self.sessions.get(session).is_some_and(outside)
    }

    /// Whether files can be read, by the client or by itself.
    pub(super) fn reads(&self) -> bool {
        match self.config.habits.reads {
            Means::Client => self.caps().read || self.config.own_hands,
            Means::Own => true,
            Means::Never => false,
        }
    }

    /// Whether commands run in terminals that the client can show.
    pub(super) fn shows_terminals(&self) -> bool {
        self.caps().terminal && self.config.habits.runs == Means::Client
    }

    /// Why the job cannot be done by the means that this agent has; nothing when it can.
    fn without_means(&self, job: &Job) -> Option<String> {
        let habits = &self.config.habits;
        let (means, what) = match job {
            Job::Read { path, .. } => (habits.reads, format!("read {path}")),
            Job::Write { path, .. } => (habits.writes, format!("write {path}")),
            Job::Run { line, .. } => (habits.runs, format!("run `{line}`")),
            _ => return None,
        };
        (means == Means::Never).then(|| format!("I cannot {what}: I have no tool for that."))
    }

    /// Why the job cannot even be tried, in words for the person. An agent with hands of its own is never unable,
    /// only forbidden.
    pub(super) fn unable(&self, session: &str, job: &Job) -> Option<String> {
        match job {
            Job::Write { path, .. } | Job::Read { path, .. } if path.is_empty() => {
                return Some("Which file?".to_owned());
            }
            _ if self.config.own_hands => return None,
            _ => {}
        }
        if let Some(reason) = self.without_means(job) {
            return Some(reason);
        }
        let habits = &self.config.habits;
        let mut caps = self.caps();
        caps.read |= habits.reads == Means::Own;
        caps.write |= habits.writes == Means::Own;
        caps.terminal |= habits.runs == Means::Own;
        let mode = self.sessions.get(self.outward(session)).map_or("", |open| open.record.mode.as_str());
        match job {
            Job::Read { path, .. } if !caps.read => {
                Some(format!("I cannot read {path}: this client does not offer to read files."))
            }
            Job::Write { path, .. } if !caps.write => {
                Some(format!("I cannot write {path}: this client does not offer to write files."))
            }
            Job::Write {
                path,
                change: Change::Replace { .. } | Change::Edits(_) | Change::Append(_),
                ..
            } if !self.reads() => {
                Some(format!("I cannot edit {path}: this client does not offer to read files."))
            }
            Job::Run { line, .. } if !caps.terminal => {
                Some(format!("I cannot run `{line}`: this client does not offer terminals."))
            }
            Job::Write { .. } | Job::Run { .. } if self.decide(session, job).0 == Verdict::Deny => {
                Some(format!("In {mode} mode I change nothing and run nothing."))
            }
            _ => None,
        }
    }

    /// Why the job may not be done at all, for an agent that is careful.
    pub(super) fn forbidden(&self, session: &str, job: &Job) -> Option<String> {
        if let Job::Write { path, .. } = job
            && !self.config.edit
        {
            return Some(format!(
                "{path} was not changed: this agent runs without leave to edit files; start it with --allow-edit."
            ));
        }
        if !self.config.careful {
            return None;
        }
        match self.decide(session, job) {
            (Verdict::Deny, reason) => Some(format!("Not allowed: {} ({reason}).", job.title())),
            _ => None,
        }
    }

    /// What the rules say about a job. For a delegated task the mode is its parent's, as it is now.
    pub(super) fn decide(&self, session: &str, job: &Job) -> (Verdict, String) {
        let Some(open) = self.sessions.get(self.outward(session)) else {
            return (Verdict::Deny, String::new());
        };
        let rules = self.rules(open);
        let (stage, kind) = manner(&job.name());
        let names = names(&open.servers, job);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let about = |action: Action<'_>| {
            if let (ToolKind::Search, Action::Path(path)) = (kind, action)
                && let Some(reason) = denial(&rules.deny, kind, &names, path, &open.record.cwd)
            {
                return (Verdict::Deny, reason);
            }
            let decision =
                rules.decide(&Request { stage, kind, tools: &names, action, root: Some(&open.record.cwd) });
            (decision.verdict, decision.reason)
        };
        match job {
            Job::Run { line, .. } => about(Action::Command(line)),
            Job::Tool { arguments, .. } => {
                let places = places(arguments).into_iter().map(|place| open.resolve(place));
                // All of them must be allowed.
                let decisions = places.map(|place| about(Action::Path(&place)));
                let strictest = decisions.max_by_key(|(verdict, _)| match verdict {
                    Verdict::Allow => 0,
                    Verdict::Ask => 1,
                    Verdict::Deny => 2,
                });
                strictest.unwrap_or_else(|| about(Action::Unknown))
            }
            job => about(job.path().map_or(Action::Unknown, Action::Path)),
        }
    }

    /// Whether the tool of these names is refused whatever it would be used on: no model needs to know it.
    pub(super) fn closed(&self, session: &str, names: &[&str]) -> bool {
        let open = self.sessions.get(self.outward(session)).filter(|_| self.config.careful);
        let (stage, kind) = manner(names.first().unwrap_or(&""));
        let request = Request { stage, kind, tools: names, action: Action::Unknown, root: None };
        open.is_some_and(|open| self.rules(open).closes(&request))
    }

    /// What is allowed in the mode of the session, or of the one that it works for.
    pub(super) fn policy(&self, session: &str) -> Policy {
        let open = self.sessions.get(self.outward(session));
        open.map_or(Policy::None, |open| self.config.persona.policy(&open.record.mode))
    }

    fn rules(&self, open: &Session) -> Rules {
        Rules {
            policy: self.config.persona.policy(&open.record.mode),
            allow: self.config.allow.clone(),
            deny: self.config.deny.clone(),
        }
    }

    pub(super) fn ask_permission(&mut self, session: &str, work: Work) {
        let verdict = self.decide(session, &work.job).0;
        let open = self.sessions.get(session);
        let encore = open.and_then(|open| open.turn.as_ref()).is_some_and(|turn| turn.encore);
        let never = self.config.habits.permission == Asking::Never && verdict != Verdict::Deny;
        let alike = work.job.path().is_some_and(|path| self.begins_alike(session, path));
        let free = verdict == Verdict::Allow || self.wrong(Switch::NoBoundary) || alike || encore || never;
        let person = self.sessions.get(self.outward(session));
        match person.and_then(|open| open.standing.get(&work.job.standing().0)) {
            Some(false) => return self.rejected(session, &work),
            Some(true) => return self.execute(session, work),
            None if free => return self.execute(session, work),
            None if self.wrong(Switch::AsksAfterwards) && !work.asked => {
                return self.execute(session, Work { asked: true, ..work });
            }
            None if !self.config.askable => {
                let reason = unasked(&work.job);
                return self.fail_as(session, &work, &reason, Failure::Denied);
            }
            None => {}
        }
        let mut call = json!({
            "toolCallId": work.call, "title": work.job.title(), "kind": work.job.kind(), "status": tool_status::PENDING,
            "rawInput": work.job.input(), "content": work.job.preview(),
        });
        if work.job.path().is_some() {
            call["locations"] = work.job.locations();
        }
        let what = work.job.standing().1;
        let params = json!({
            "sessionId": session,
            "toolCall": call,
            "options": [
                { "optionId": "allow-once", "name": "Allow once", "kind": option_kind::ALLOW_ONCE },
                { "optionId": "allow-always", "name": format!("Always allow {what}"), "kind": option_kind::ALLOW_ALWAYS },
                { "optionId": "reject-once", "name": "Reject", "kind": option_kind::REJECT_ONCE },
                { "optionId": "reject-always", "name": format!("Always reject {what}"), "kind": option_kind::REJECT_ALWAYS },
            ],
        });
        let patience = self.config.permission_timeout;
        let then = Await::Work(Box::new(work), Stage::Permission);
        self.ask(session, method::SESSION_REQUEST_PERMISSION, &params, then, patience);
    }

    pub(super) fn decided(&mut self, session: &str, work: Work, answer: Result<Value, RpcError>) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let reason = format!("Permission was not given: {error}.");
                return self.fail_as(session, &work, &reason, Failure::Denied);
            }
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
        let person = self.outward(session).to_owned();
        if let (Some(decision), Some(open)) = (standing, self.sessions.get_mut(&person)) {
            open.standing.insert(work.job.standing().0, decision);
        }
        match option {
            "allow-once" | "allow-always" if work.asked => {
                let content = work.job.preview();
                self.complete(session, &work, &content, &json!({ "written": true }));
                self.tell(session, "It is done already.");
            }
            "allow-once" | "allow-always" => self.look_again(session, work),
            _ => self.rejected(session, &work),
        }
    }

    /// The person took time to decide: a file may have changed since it was read.
    fn look_again(&mut self, session: &str, work: Work) {
        match &work.job {
            Job::Write { path, .. } if self.config.careful && self.reads() => {
                let params = json!({ "sessionId": session, "path": path });
                let then = Await::Work(Box::new(work), Stage::Again);
                self.ask(session, method::FS_READ_TEXT_FILE, &params, then, None);
            }
            _ => self.proceed(session, work),
        }
    }

    /// Does what was allowed, unless the mode has changed meanwhile to one that forbids it.
    pub(super) fn proceed(&mut self, session: &str, work: Work) {
        match self.forbidden(session, &work.job) {
            Some(reason) => self.fail_as(session, &work, &reason, Failure::Denied),
            None => self.execute(session, work),
        }
    }

    fn rejected(&mut self, session: &str, work: &Work) {
        let reason = format!("Rejected, so nothing was done: {}.", work.job.title());
        self.fail_as(session, work, &reason, Failure::Denied);
    }
}

/// The pattern by which a tool may not look at a file, in words. What is found is shown: a file that may not be read is not
/// searched either.
pub(super) fn denial(
    deny: &ToolPatterns,
    kind: ToolKind,
    tools: &[&str],
    path: &str,
    root: &str,
) -> Option<String> {
    let rules = Rules { deny: deny.clone(), ..Rules::of(Policy::Yolo) };
    [(kind, tools), (ToolKind::Read, &[])].into_iter().find_map(|(kind, tools)| {
        let (action, root) = (Action::Path(path), Some(root));
        let decision = rules.decide(&Request { stage: Asked::Access, kind, tools, action, root });
        (decision.verdict == Verdict::Deny).then_some(decision.reason)
    })
}

/// As what the use of a tool is decided. Handing a task over does nothing by itself.
fn manner(tool: &str) -> (Asked, ToolKind) {
    match tool {
        "read_file" | "extract" | "skill" => (Asked::Access, ToolKind::Read),
        "search_file" | "search" | "query" | "list_files" | "glob" | "survey" => {
            (Asked::Access, ToolKind::Search)
        }
        "update_plan" | "delegate" => (Asked::Access, ToolKind::Think),
        "write_file" | "edit_file" => (Asked::Permission, ToolKind::Edit),
        "run_command" => (Asked::Permission, ToolKind::Execute),
        _ => (Asked::Permission, ToolKind::Other),
    }
}

/// The names of a job's tool: its own, and that by which models see it.
fn names(servers: &[Server], job: &Job) -> Vec<String> {
    let mut names = vec![job.name()];
    if let Job::Mcp { key, tool, .. } = job {
        let seen =
            mcp_tools(servers).into_iter().find(|(_, server, it)| server.key == *key && it.name == *tool);
        names.extend(seen.map(|(name, ..)| name));
    }
    names
}

/// The files and folders that a tool of the edge is asked to look at.
fn places(arguments: &Value) -> Vec<&str> {
    let files = arguments.get("files").and_then(Value::as_array).into_iter().flatten();
    let files = files.filter_map(Value::as_str).map(file_of);
    files.chain(arguments.get("path").and_then(Value::as_str).map(str::trim)).collect()
}

/// `src/a.rs` of `src/a.rs#Walk.next`, `src/a.rs:10-20` and `src/a.rs:10:5`.
fn file_of(piece: &str) -> &str {
    if let Some((file, _)) = piece.rsplit_once('#') {
        return file.trim();
    }
    let mut file = piece;
    while let Some((front, lines)) = file.rsplit_once(':')
        && lines.chars().all(|c| c.is_ascii_digit() || "- ".contains(c))
    {
        file = front;
    }
    file.trim()
}

/// Why something is not done for a client that cannot be asked, and what would allow it.
fn unasked(job: &Job) -> String {
    let pattern = match job {
        Job::Run { line, .. } => format!("Bash({} *)", line.split_whitespace().next().unwrap_or_default()),
        Job::Write { .. } => "Edit".to_owned(),
        job => job.name(),
    };
    format!(
        "Not done: {}. This client cannot be asked for permission; `--allow '{pattern}'` gives it from the start.",
        job.title()
    )
}
