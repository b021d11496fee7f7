//! What a tool call really is: everything it shows, taken at its most dangerous.
//!
//! What a call is about is read in this one place, at its most dangerous.

mod places;

use std::collections::{HashMap, VecDeque};

use acp_policy::{
    OperationClass, PolicyDecision, PolicyRequest, PolicyRules, PolicyVerdict, ToolAction, ToolKind,
    ToolStage, shell,
};
use acp_proto::tool_status;
use serde_json::Value;

use crate::command_rules;
use crate::folders::Folders;
use crate::real;
use places::Places;
pub(crate) use places::line_of;

/// The most names of tools that are looked at for what is denied.
const MOST_TOOLS: usize = 256;

/// Words in a tool's name that say it runs commands.
const RUNS: &[&str] = &[
    "bash",
    "sh",
    "shell",
    "zsh",
    "powershell",
    "exec",
    "execute",
    "command",
    "commands",
    "cmd",
    "terminal",
    "eval",
];
/// Words in a tool's name that say it changes files.
const CHANGES: &[&str] = &[
    "write", "edit", "create", "delete", "remove", "rm", "mv", "move", "rename", "mkdir", "patch", "replace",
    "insert", "append",
];

/// What is known of a tool call: the newest word on each field, from updates and from the request itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ToolCallFacts {
    pub title: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    raw_input: Option<Value>,
    locations: Value,
    content: Value,
    /// Tools of MCP servers that it names in `_meta`, as some agents do.
    meta_tools: Vec<String>,
}

impl ToolCallFacts {
    /// Takes over what an update says.
    pub(crate) fn absorb(&mut self, call: &Value) {
        let text = |key: &str| call[key].as_str().map(str::to_owned);
        self.title = text("title").or(self.title.take());
        self.kind = text("kind").or(self.kind.take());
        self.name = text("name").or(self.name.take());
        if let Some(input) = call.get("rawInput").filter(|input| !input.is_null()) {
            self.raw_input = Some(input.clone());
        }
        collect_tools(&call["_meta"], &mut self.meta_tools);
        for (field, key) in [(&mut self.locations, "locations"), (&mut self.content, "content")] {
            if let Some(list) = call.get(key).filter(|list| list.is_array()) {
                *field = list.clone();
            }
        }
    }

    /// What these facts amount to.
    pub(crate) fn read(&self) -> ToolCall {
        let places = Places::of(self.raw_input.as_ref(), &self.locations, &self.content);
        let claimed = self.kind.as_deref().map_or(ToolKind::Other, ToolKind::from_name_or_other);
        let kind = self.real_kind(claimed, &places);
        let meta_tools = self.meta_tools.clone();
        ToolCall { title: self.title.clone(), name: self.name.clone(), meta_tools, claimed, kind, places }
    }

    /// The most dangerous of what the kind, the name, the title and the input say.
    fn real_kind(&self, claimed: ToolKind, places: &Places) -> ToolKind {
        let says = |words: &[&str]| self.name.as_deref().is_some_and(|name| has_word(name, words));
        if !places.commands.is_empty() {
            return ToolKind::Execute;
        }
        if OperationClass::of(claimed) == OperationClass::Execute {
            return claimed;
        }
        if says(RUNS) || title_command(self.title.as_deref()).is_some() {
            return ToolKind::Execute;
        }
        if OperationClass::of(claimed) == OperationClass::Read
            && (says(CHANGES) || !places.changed.is_empty())
        {
            return ToolKind::Edit;
        }
        claimed
    }

    /// Roughly how much memory it takes.
    fn size(&self) -> usize {
        let texts = [&self.title, &self.kind, &self.name];
        let texts: usize = texts.into_iter().flatten().chain(&self.meta_tools).map(String::len).sum();
        let values = self.raw_input.iter().chain([&self.locations, &self.content]);
        texts + values.map(size_of_value).sum::<usize>()
    }
}

/// A tool call as rules and people judge it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCall {
    pub title: Option<String>,
    name: Option<String>,
    meta_tools: Vec<String>,
    claimed: ToolKind,
    kind: ToolKind,
    places: Places,
}

impl ToolCall {
    /// Its kind, at its most dangerous.
    pub(crate) fn kind(&self) -> ToolKind {
        self.kind
    }

    /// The commands that it would run.
    pub(crate) fn commands(&self) -> &[String] {
        &self.places.commands
    }

    /// The folders that its commands would run in, where it says so; more than one is a contradiction.
    pub(crate) fn cwds(&self) -> &[String] {
        &self.places.cwds
    }

    /// The files that it would be used on.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let Places { paths, changed, located, .. } = &self.places;
        // What a command touches besides is its own affair; what the call itself changes is not.
        let runs = !self.places.commands.is_empty();
        let named = paths.iter().filter(move |_| !runs);
        let located = located.iter().filter(move |_| !runs);
        named.chain(changed).chain(located).map(String::as_str).chain(self.hinted())
    }

    /// Paths of a call that changes files which stand where no path is expected.
    fn hinted(&self) -> impl Iterator<Item = &str> {
        let changes = OperationClass::of(self.kind) == OperationClass::Write;
        let texts = self.places.others.iter().map(String::as_str).filter(move |_| changes);
        let title = self.title.as_deref().filter(|_| changes && self.places.is_empty());
        let words = title.into_iter().flat_map(str::split_whitespace);
        texts
            .chain(words.map(|word| word.trim_matches(['`', '"', '\'', ',', ':'])))
            .filter(|it| is_plainly_a_path(it))
    }

    /// Everything that a yes would be about, for the person who is asked.
    pub(crate) fn subjects(&self) -> Vec<String> {
        let mut subjects: Vec<String> = self.commands().to_vec();
        if !subjects.is_empty() {
            subjects.extend(self.cwds().iter().map(|cwd| format!("in {cwd}")));
        }
        let named = self.places.paths.iter().filter(|path| !self.cwds().contains(path)).map(String::as_str);
        for path in self.paths().chain(named) {
            if !subjects.iter().any(|known| known == path) {
                subjects.push(path.to_owned());
            }
        }
        subjects
    }

    /// What the rules say: no deny pattern touches anything that it shows, and all of what it would be used on is
    /// allowed.
    pub(crate) fn decide(&self, rules: &PolicyRules, folders: &Folders) -> PolicyDecision {
        let tools = self.names_to_deny();
        let root = folders.cwd();
        let request = PolicyRequest {
            stage: ToolStage::Permission,
            kind: self.kind,
            tools: &tools,
            action: ToolAction::Unknown,
            root,
        };
        if let Some(denial) = self.denial(rules, &request) {
            return denial;
        }
        let names = self.names_to_allow();
        let mut decision = self.allowed(rules, &PolicyRequest { tools: &names, ..request }, folders);
        let hides = self.places.is_empty() || (self.kind == ToolKind::Execute && self.commands().is_empty());
        if decision.verdict == PolicyVerdict::Allow
            && hides
            && let Some(pattern) = rules.unseen(&request)
        {
            let reason = format!("it does not show what it is about, and {pattern} is denied");
            decision = PolicyDecision { verdict: PolicyVerdict::Ask, reason };
        }
        decision
    }

    /// Its name, and whatever else in it reads like the name of an MCP server's tool: agents that give no name put that
    /// into the title, `_meta` or the input.
    fn names_to_deny(&self) -> Vec<&str> {
        let texts = self.title.iter().chain(&self.places.others).map(String::as_str);
        let words = texts.flat_map(|text| {
            let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
            std::iter::once(text.trim()).chain(text.split(move |c| !is_word(c)))
        });
        let named = self.meta_tools.iter().map(String::as_str).chain(words).filter(|it| is_foreign_tool(it));
        let mut names: Vec<&str> = named.collect();
        names.sort_unstable();
        names.dedup();
        names.extend(self.name.as_deref());
        names
    }

    fn denial(&self, rules: &PolicyRules, request: &PolicyRequest<'_>) -> Option<PolicyDecision> {
        if rules.deny.is_empty() {
            return None;
        }
        let Places { commands, paths, changed, located, cwds, others, readings, .. } = &self.places;
        let too_many = |what: &str| {
            let reason = format!("it names too many {what} to look for what is denied");
            Some(PolicyDecision { verdict: PolicyVerdict::Ask, reason })
        };
        let Some(joined) = self.places.in_folders() else { return too_many("folders and files") };
        if request.tools.len() > MOST_TOOLS {
            return too_many("tools");
        }
        let title = title_command(self.title.as_deref());
        let title =
            title.or(self.title.as_deref().filter(|_| self.kind == ToolKind::Execute && commands.is_empty()));
        let runs = OperationClass::of(self.kind) == OperationClass::Execute;
        let suspects = others.iter().filter(|_| runs).chain(commands).map(String::as_str).chain(title);
        let suspects = suspects.map(ToolAction::Command);
        let files = paths.iter().chain(changed).chain(located).chain(cwds).chain(others).chain(readings);
        let files = files.chain(&joined);
        let files = files.map(|path| ToolAction::Path(path));
        let actions: Vec<ToolAction<'_>> = suspects.chain(files).chain([ToolAction::Unknown]).collect();
        // A call that claims to be something else than it is, is both.
        let kinds = if self.claimed == self.kind { &[self.kind][..] } else { &[self.kind, self.claimed][..] };
        kinds.iter().find_map(|kind| {
            actions.iter().find_map(|action| {
                real::denial(rules, &PolicyRequest { kind: *kind, action: *action, ..*request })
            })
        })
    }

    /// What a call says its tool is called is the agent's word. It counts for permission only as the name of an MCP
    /// server's tool, which nothing else tells, and only where the call shows nothing that is worse.
    fn names_to_allow(&self) -> Vec<&str> {
        let is_mild = matches!(self.kind, ToolKind::Other | ToolKind::Fetch)
            || OperationClass::of(self.kind) == OperationClass::Read;
        let is_mild = is_mild && self.places.changed.is_empty();
        self.name.as_deref().filter(|name| is_mild && is_foreign_tool(name)).into_iter().collect()
    }

    fn allowed(&self, rules: &PolicyRules, request: &PolicyRequest<'_>, folders: &Folders) -> PolicyDecision {
        let runs = !self.commands().is_empty();
        let mut decisions = Vec::new();
        // A title that shows another command than the input does is one more command.
        let title = title_command(self.title.as_deref())
            .filter(|title| runs && !self.commands().iter().any(|line| same_line(line, title)));
        for command in self.commands().iter().map(String::as_str).chain(title) {
            decisions.push(command_rules::decide(rules, request, command, self.cwds(), folders));
        }
        let decide = |kind, path| {
            real::decide(rules, &PolicyRequest { kind, action: folders.action(path), ..*request })
        };
        for path in self.paths() {
            decisions.push(decide(if runs { ToolKind::Edit } else { self.kind }, path));
            // What fetches a file reads it.
            decisions.extend((self.kind == ToolKind::Fetch).then(|| decide(ToolKind::Read, path)));
        }
        for path in
            self.places.changed.iter().filter(|_| OperationClass::of(self.kind) == OperationClass::Execute)
        {
            decisions.push(decide(ToolKind::Edit, path));
        }
        decisions
            .into_iter()
            .max_by_key(|decision| strictness(decision.verdict))
            .unwrap_or_else(|| rules.decide(request))
    }

    /// A few words for a log.
    pub(crate) fn subject(&self, id: &str) -> String {
        let title = self.title.as_deref().unwrap_or(id);
        match self.commands().first() {
            Some(line) if !title.contains(line.as_str()) => format!("{title}: {line}"),
            _ => title.to_owned(),
        }
    }
}

pub(crate) const fn strictness(verdict: PolicyVerdict) -> u8 {
    match verdict {
        PolicyVerdict::Allow => 0,
        PolicyVerdict::Ask => 1,
        PolicyVerdict::Deny => 2,
    }
}

fn same_line(one: &str, other: &str) -> bool {
    shell::normalised(one) == shell::normalised(other)
}

/// Whether a text can hardly be anything but the path of a file: code and prose may begin with a slash too.
fn is_plainly_a_path(text: &str) -> bool {
    let is_line = text.len() <= 4096 && !text.contains(['\n', '\r']);
    let from_root = text
        .strip_prefix('/')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-')));
    is_line && (from_root || ["~/", "./", "../"].iter().any(|front| text.starts_with(front)) || text == "..")
}

fn has_word(name: &str, words: &[&str]) -> bool {
    let mut spaced = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            spaced.push(' ');
        }
        spaced.push(c.to_ascii_lowercase());
    }
    let compact = name.to_ascii_lowercase();
    words.contains(&compact.as_str())
        || [spaced, compact]
            .iter()
            .any(|text| text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word)))
}

/// Whether this is how tools of MCP servers are called.
fn is_foreign_tool(name: &str) -> bool {
    name.starts_with("mcp__")
}

/// The names of MCP servers' tools in a value, as far as anybody could mean them: not too many, not too long.
fn collect_tools(value: &Value, found: &mut Vec<String>) {
    const MOST: usize = 16;
    const LONGEST: usize = 256;
    match value {
        Value::String(text) => {
            let is_tool = is_foreign_tool(text) && text.len() <= LONGEST;
            if is_tool && found.len() < MOST && !found.contains(text) {
                found.push(text.clone());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_tools(item, found)),
        Value::Object(members) => members.values().for_each(|member| collect_tools(member, found)),
        _ => {}
    }
}

/// The command that a title is: all of it between backticks, or behind a prompt.
fn title_command(title: Option<&str>) -> Option<&str> {
    let title = title?.trim();
    let quoted =
        title.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).filter(|line| !line.is_empty());
    quoted.or_else(|| title.strip_prefix("$ "))
}

fn size_of_value(value: &Value) -> usize {
    const EACH: usize = 32;
    EACH + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size_of_value).sum(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| EACH + key.len() + size_of_value(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The tool calls of a connection that may still be asked about. What an agent announces is its own to decide, so both their
/// number and their size are limited: the oldest are forgotten first.
#[derive(Debug, Default)]
pub(crate) struct ToolCalls {
    calls: HashMap<String, ToolCallFacts>,
    order: VecDeque<String>,
    bytes: usize,
}

impl ToolCalls {
    /// More unfinished calls than any agent has at once.
    const MOST: usize = 1024;
    /// More than they take.
    const MOST_BYTES: usize = 8 << 20;

    /// Takes an update of a session.
    pub(crate) fn observe(&mut self, session: &str, update: &Value) {
        let Some(id) = update["toolCallId"].as_str().map(|id| key(session, id)) else { return };
        let known = self.calls.remove(&id);
        if let Some(known) = &known {
            self.bytes = self.bytes.saturating_sub(known.size() + id.len());
            self.order.retain(|it| *it != id);
        }
        if matches!(update["status"].as_str(), Some(tool_status::COMPLETED | tool_status::FAILED)) {
            return;
        }
        let mut facts = known.unwrap_or_default();
        facts.absorb(update);
        self.bytes += facts.size() + id.len();
        self.calls.insert(id.clone(), facts);
        self.order.push_back(id);
        while self.calls.len() > Self::MOST || self.bytes > Self::MOST_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some(facts) = self.calls.remove(&oldest) {
                self.bytes = self.bytes.saturating_sub(facts.size() + oldest.len());
            }
        }
    }

    /// What is known of a call, with what the permission request itself adds.
    pub(crate) fn facts(&self, session: &str, id: &str, call: &Value) -> ToolCallFacts {
        let mut facts = self.calls.get(&key(session, id)).cloned().unwrap_or_default();
        facts.absorb(call);
        facts
    }
}

fn key(session: &str, id: &str) -> String {
    format!("{}:{session}{id}", session.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tools_name_can_only_make_a_call_more_dangerous() {
        for (kind, name, expected) in [
            ("read", "read_file", ToolKind::Read),
            ("read", "Bash", ToolKind::Execute),
            ("edit", "mcp__acp__RunCommand", ToolKind::Execute),
            ("search", "writeTextFile", ToolKind::Edit),
            ("other", "edit", ToolKind::Other),
            ("delete", "write", ToolKind::Delete),
            ("think", "crush", ToolKind::Think),
        ] {
            let mut facts = ToolCallFacts::default();
            facts.absorb(&json!({"kind": kind, "name": name}));
            assert_eq!(facts.read().kind(), expected, "{kind} {name}");
        }
    }

    #[test]
    fn what_is_remembered_of_calls_has_a_limit() {
        let mut calls = ToolCalls::default();
        for number in 0..20_000 {
            calls.observe(
                "s",
                &json!({"toolCallId": format!("c{number}"), "rawInput": {"content": "x".repeat(2000)}}),
            );
        }
        assert!(calls.calls.len() <= ToolCalls::MOST && calls.order.len() == calls.calls.len());
        assert!(calls.bytes <= ToolCalls::MOST_BYTES);
        calls.observe("s", &json!({"toolCallId": "large", "rawInput": {"content": "x".repeat(9 << 20)}}));
        assert!(calls.calls.is_empty() && calls.bytes == 0, "one that is too large alone is not remembered");
        calls.observe("s", &json!({"toolCallId": "small", "kind": "read"}));
        calls.observe("s", &json!({"toolCallId": "small", "status": "completed"}));
        assert!(calls.calls.is_empty() && calls.order.is_empty() && calls.bytes == 0);
    }
}
