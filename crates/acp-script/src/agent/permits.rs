//! What may be done: by the client's capabilities, by the rules, by the person.

use acp_policy::{
    Policy, PolicyRequest, PolicyRules, PolicyVerdict, ToolAction, ToolKind, ToolPatterns, ToolStage,
};
use acp_proto::{method, option_kind, tool_status};
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::calls::mcp_tools;
use super::habits::{Asking, Means};
use super::job::{Change, Job};
use super::session::Server;
use super::tools::{Stage, Work};
use super::turn::{ActiveTurn, Await};

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

impl ActiveTurn<'_> {
    pub(super) fn inside(&self, path: &str) -> bool {
        let places = self.session.places(path);
        let quirk = self.cx.quirks.admits(path, &self.session.record.cwd, places);
        quirk.unwrap_or(places.0 || places.1)
    }

    /// Whether files can be read, by the client or by itself.
    pub(super) fn reads(&self) -> bool {
        match self.cx.config.habits.reads {
            Means::Client => self.cx.caps().read || self.cx.config.abilities.local_tools,
            Means::Own => true,
            Means::Never => false,
        }
    }

    /// Whether commands run in terminals that the client can show.
    pub(super) fn shows_terminals(&self) -> bool {
        self.cx.caps().terminal && self.cx.config.habits.runs == Means::Client
    }

    /// Why the job cannot be done by the means that this agent has; nothing when it can.
    fn without_means(&self, job: &Job) -> Option<String> {
        let habits = &self.cx.config.habits;
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
    pub(super) fn unable(&self, job: &Job) -> Option<String> {
        match job {
            Job::Write { path, .. } | Job::Read { path, .. } if path.is_empty() => {
                return Some("Which file?".to_owned());
            }
            _ if self.cx.config.abilities.local_tools => return None,
            _ => {}
        }
        if let Some(reason) = self.without_means(job) {
            return Some(reason);
        }
        let habits = &self.cx.config.habits;
        let mut caps = self.cx.caps();
        caps.read |= habits.reads == Means::Own;
        caps.write |= habits.writes == Means::Own;
        caps.terminal |= habits.runs == Means::Own;
        let mode = &self.client_session().record.mode;
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
            Job::Write { .. } | Job::Run { .. } if self.decide(job).0 == PolicyVerdict::Deny => {
                Some(format!("In {mode} mode I change nothing and run nothing."))
            }
            _ => None,
        }
    }

    /// Why the job may not be done at all, for an agent that is careful.
    pub(super) fn forbidden(&self, job: &Job) -> Option<String> {
        if let Job::Write { path, .. } = job
            && !self.cx.config.abilities.edit
        {
            let hint = &self.cx.config.hints.edit;
            return Some(format!(
                "{path} was not changed: this agent runs without leave to edit files{hint}."
            ));
        }
        if !self.cx.config.rules.careful {
            return None;
        }
        match self.decide(job) {
            (PolicyVerdict::Deny, reason) => Some(format!("Not allowed: {} ({reason}).", job.title())),
            _ => None,
        }
    }

    /// What the rules say about a job. For a delegated task the mode is its parent's, as it is now.
    pub(super) fn decide(&self, job: &Job) -> (PolicyVerdict, String) {
        let open = self.client_session();
        let rules = self.rules();
        let (stage, kind) = manner(&job.name());
        let names = names(&open.servers, job);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let about = |action: ToolAction<'_>| {
            if let (ToolKind::Search, ToolAction::Path(path)) = (kind, action)
                && let Some(reason) = denial(&rules.deny, kind, &names, path, &open.record.cwd)
            {
                return (PolicyVerdict::Deny, reason);
            }
            let decision = rules.decide(&PolicyRequest {
                stage,
                kind,
                tools: &names,
                action,
                root: Some(&open.record.cwd),
            });
            (decision.verdict, decision.reason)
        };
        match job {
            Job::Run { line, .. } => about(ToolAction::Command(line)),
            Job::Tool { arguments, .. } => {
                let places = places(arguments).into_iter().map(|place| open.resolve(place));
                // All of them must be allowed.
                let decisions = places.map(|place| about(ToolAction::Path(&place)));
                let strictest = decisions.max_by_key(|(verdict, _)| match verdict {
                    PolicyVerdict::Allow => 0,
                    PolicyVerdict::Ask => 1,
                    PolicyVerdict::Deny => 2,
                });
                strictest.unwrap_or_else(|| about(ToolAction::Unknown))
            }
            job => about(job.path().map_or(ToolAction::Unknown, ToolAction::Path)),
        }
    }

    /// Whether the tool of these names is refused whatever it would be used on: no model needs to know it.
    pub(super) fn closed(&self, names: &[&str]) -> bool {
        let (stage, kind) = manner(names.first().unwrap_or(&""));
        let request = PolicyRequest { stage, kind, tools: names, action: ToolAction::Unknown, root: None };
        self.cx.config.rules.careful && self.rules().closes(&request)
    }

    /// What is allowed in the mode of the session, or of the one that it works for.
    pub(super) fn policy(&self) -> Policy {
        self.cx.config.persona.policy(&self.client_session().record.mode)
    }

    fn rules(&self) -> PolicyRules {
        PolicyRules {
            policy: self.policy(),
            allow: self.cx.config.rules.allow.clone(),
            deny: self.cx.config.rules.deny.clone(),
        }
    }

    /// Whether a mock agent does without permission what needs it.
    fn needs_no_permission(&self, job: &Job) -> bool {
        let is_inside = job.path().is_some_and(|path| {
            let (in_cwd, in_root) = self.session.places(path);
            in_cwd || in_root
        });
        let cwd = &self.session.record.cwd;
        self.cx.quirks.needs_no_permission(self.turn.serial, job.path(), cwd, is_inside)
    }

    pub(super) fn ask_permission(&mut self, work: Work) {
        let verdict = self.decide(&work.job).0;
        let never = self.cx.config.habits.permission == Asking::Never && verdict != PolicyVerdict::Deny;
        let free = verdict == PolicyVerdict::Allow || never || self.needs_no_permission(&work.job);
        match self.client_session().standing.get(&work.job.standing().0) {
            Some(false) => return self.rejected(&work),
            Some(true) => return self.execute(work),
            None if free => return self.execute(work),
            None if !self.cx.config.form.askable => {
                let reason = unasked(&work.job, &self.cx.config.hints.allow);
                return self.fail_as(&work, &reason, Failure::Denied);
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
            "sessionId": self.session.id(),
            "toolCall": call,
            "options": [
                { "optionId": "allow-once", "name": "Allow once", "kind": option_kind::ALLOW_ONCE },
                { "optionId": "allow-always", "name": format!("Always allow {what}"), "kind": option_kind::ALLOW_ALWAYS },
                { "optionId": "reject-once", "name": "Reject", "kind": option_kind::REJECT_ONCE },
                { "optionId": "reject-always", "name": format!("Always reject {what}"), "kind": option_kind::REJECT_ALWAYS },
            ],
        });
        let patience = self.cx.config.limits.permission;
        let then = Await::Work(Box::new(work), Stage::Permission);
        self.ask(method::SESSION_REQUEST_PERMISSION, &params, then, patience);
    }

    pub(super) fn decided(&mut self, work: Work, answer: Result<Value, RpcError>) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let reason = format!("Permission was not given: {error}.");
                return self.fail_as(&work, &reason, Failure::Denied);
            }
        };
        let outcome = answer.get("outcome").unwrap_or(&Value::Null);
        if outcome.get("outcome").and_then(Value::as_str) == Some("cancelled") {
            self.wind_down();
            return;
        }
        let option = outcome.get("optionId").and_then(Value::as_str).unwrap_or_default();
        let standing = match option {
            "allow-always" => Some(true),
            "reject-always" => Some(false),
            _ => None,
        };
        if let Some(decision) = standing {
            let person = self.parent.as_mut().map_or(&mut *self.session, |parent| parent.session);
            person.standing.insert(work.job.standing().0, decision);
        }
        match option {
            "allow-once" | "allow-always" => self.look_again(work),
            _ => self.rejected(&work),
        }
    }

    /// The person took time to decide: a file may have changed since it was read.
    fn look_again(&mut self, work: Work) {
        match &work.job {
            Job::Write { path, .. } if self.cx.config.rules.careful && self.reads() => {
                let params = json!({ "sessionId": self.session.id(), "path": path });
                let then = Await::Work(Box::new(work), Stage::Again);
                self.ask(method::FS_READ_TEXT_FILE, &params, then, None);
            }
            _ => self.proceed(work),
        }
    }

    /// Does what was allowed, unless the mode has changed meanwhile to one that forbids it.
    pub(super) fn proceed(&mut self, work: Work) {
        match self.forbidden(&work.job) {
            Some(reason) => self.fail_as(&work, &reason, Failure::Denied),
            None => self.execute(work),
        }
    }

    fn rejected(&mut self, work: &Work) {
        let reason = format!("Rejected, so nothing was done: {}.", work.job.title());
        self.fail_as(work, &reason, Failure::Denied);
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
    let rules = PolicyRules { deny: deny.clone(), ..PolicyRules::of(Policy::Yolo) };
    [(kind, tools), (ToolKind::Read, &[])].into_iter().find_map(|(kind, tools)| {
        let (action, root) = (ToolAction::Path(path), Some(root));
        let decision = rules.decide(&PolicyRequest { stage: ToolStage::Access, kind, tools, action, root });
        (decision.verdict == PolicyVerdict::Deny).then_some(decision.reason)
    })
}

/// As what the use of a tool is decided. Handing a task over does nothing by itself.
fn manner(tool: &str) -> (ToolStage, ToolKind) {
    match tool {
        "read_file" | "extract" | "skill" => (ToolStage::Access, ToolKind::Read),
        "search_file" | "search" | "query" | "list_files" | "glob" | "survey" => {
            (ToolStage::Access, ToolKind::Search)
        }
        "update_plan" | "delegate" => (ToolStage::Access, ToolKind::Think),
        "write_file" | "edit_file" => (ToolStage::Permission, ToolKind::Edit),
        "run_command" => (ToolStage::Permission, ToolKind::Execute),
        _ => (ToolStage::Permission, ToolKind::Other),
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
fn unasked(job: &Job, hint: &str) -> String {
    let pattern = match job {
        Job::Run { line, .. } => format!("Bash({} *)", line.split_whitespace().next().unwrap_or_default()),
        Job::Write { .. } => "Edit".to_owned(),
        job => job.name(),
    };
    let hint = hint.replace("{pattern}", &pattern);
    format!("Not done: {}. This client cannot be asked for permission{hint}.", job.title())
}
