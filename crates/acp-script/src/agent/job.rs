//! What a tool call is about.

use std::time::Duration;

use acp_proto::error_code;
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::edits::Edits;
use super::tools::{cut, text_content};

/// The names of all tools but those of MCP servers.
pub const TOOL_NAMES: [&str; 14] = [
    "search",
    "query",
    "extract",
    "list_files",
    "glob",
    "skill",
    "read_file",
    "search_file",
    "write_file",
    "edit_file",
    "run_command",
    "update_plan",
    "delegate",
    "take_note",
];

/// What is wrong with an answer that does not tell what a file holds.
pub(super) const NO_CONTENT: &str = "the answer to fs/read_text_file has no \"content\"";

/// What a tool call does. Paths are absolute.
pub(super) enum Job {
    Read {
        path: String,
        line: Option<u32>,
        limit: Option<u32>,
        search: Option<String>,
    },
    Write {
        path: String,
        change: Change,
        old: Old,
    },
    Run {
        line: String,
        kill_after: Option<Duration>,
        killed: bool,
        exit: Value,
        output: Value,
    },
    Mcp {
        key: u64,
        server: String,
        tool: String,
        arguments: Value,
    },
    Harmless {
        fails: bool,
    },
    /// A tool of the edge.
    Tool {
        name: String,
        arguments: Value,
        /// What to try when it finds nothing.
        otherwise: Option<Box<Job>>,
    },
    Plan {
        entries: Value,
    },
    Delegate {
        task: String,
    },
    /// A call that cannot be made.
    Wrong {
        name: String,
        arguments: Value,
        reason: String,
    },
}

/// How a file changes.
pub(super) enum Change {
    Whole(String),
    Replace {
        old: String,
        new: String,
    },
    /// What a model wants, where it must be clear which places are meant.
    Edits(Edits),
    Append(String),
}

impl Change {
    /// Whether it is right for the text that was read, and for no other.
    pub(super) fn needs_same_text(&self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Edits(edits) => edits.are_by_line(),
            Self::Replace { .. } | Self::Append(_) => false,
        }
    }
}

/// What is known of a file before it changes.
#[derive(PartialEq, Eq)]
pub(super) enum Old {
    Unknown,
    Absent,
    Text(String),
    /// It cannot be read, for this reason.
    Closed(String),
}

impl Job {
    pub(super) fn run(line: impl Into<String>, kill_after: Option<Duration>) -> Self {
        Self::Run { line: line.into(), kill_after, killed: false, exit: Value::Null, output: Value::Null }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Read { search: Some(_), .. } => "search",
            Self::Read { .. } => "read",
            Self::Write { .. } => "edit",
            Self::Run { .. } => "execute",
            Self::Tool { name, .. } if name == "extract" || name == "skill" => "read",
            Self::Tool { .. } => "search",
            Self::Plan { .. } => "think",
            Self::Delegate { .. } => "execute",
            Self::Mcp { .. } | Self::Harmless { .. } | Self::Wrong { .. } => "other",
        }
    }

    /// What a decision for good is about, and how to call that in a question. Commands and foreign tools can do
    /// anything, so that one yes is for one of them.
    pub(super) fn standing(&self) -> (String, &'static str) {
        match self {
            Self::Run { line, .. } => (format!("execute {line}"), "this command"),
            Self::Write { .. } => (self.kind().to_owned(), "file changes"),
            _ => (format!("{} {}", self.kind(), self.name()), "this tool"),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Read { search: Some(_), .. } => "search_file".to_owned(),
            Self::Read { .. } => "read_file".to_owned(),
            Self::Write { change: Change::Whole(_), .. } => "write_file".to_owned(),
            Self::Write { .. } => "edit_file".to_owned(),
            Self::Run { .. } => "run_command".to_owned(),
            Self::Mcp { server, tool, .. } => mcp_name(server, tool),
            Self::Harmless { .. } => "take_note".to_owned(),
            Self::Tool { name, .. } | Self::Wrong { name, .. } => name.clone(),
            Self::Plan { .. } => "update_plan".to_owned(),
            Self::Delegate { .. } => "delegate".to_owned(),
        }
    }

    pub(super) fn title(&self) -> String {
        match self {
            Self::Read { path, search: Some(text), .. } => format!("Search {text:?} in {path}"),
            Self::Read { path, .. } => format!("Read {path}"),
            Self::Write { path, change: Change::Whole(_), .. } => format!("Write {path}"),
            Self::Write { path, .. } => format!("Edit {path}"),
            Self::Run { line, .. } => format!("Run `{line}`"),
            Self::Mcp { server, tool, .. } => format!("Call {tool} of {server}"),
            Self::Harmless { .. } => "Take a note".to_owned(),
            Self::Tool { name, arguments, .. } => tool_title(name, arguments),
            Self::Plan { .. } => "Update the plan".to_owned(),
            Self::Delegate { task } => format!("Delegate: {}", cut(task, 80)),
            Self::Wrong { name, .. } => format!("Call {name}"),
        }
    }

    pub(super) fn input(&self) -> Value {
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
                Change::Edits(edits) => edits.input(path),
                Change::Append(text) => json!({ "path": path, "append": text }),
            },
            Self::Run { line, .. } => json!({ "command": line }),
            Self::Mcp { arguments, .. } | Self::Tool { arguments, .. } | Self::Wrong { arguments, .. } => {
                arguments.clone()
            }
            Self::Plan { entries } => json!({ "entries": entries }),
            Self::Delegate { task } => json!({ "task": task }),
            Self::Harmless { .. } => json!({ "note": "a harmless pretended tool" }),
        }
    }

    pub(super) fn locations(&self) -> Value {
        match self {
            Self::Read { path, line: Some(line), .. } => json!([{ "path": path, "line": line }]),
            Self::Read { path, .. } | Self::Write { path, .. } => json!([{ "path": path }]),
            _ => json!([]),
        }
    }

    pub(super) fn path(&self) -> Option<&str> {
        match self {
            Self::Read { path, .. } | Self::Write { path, .. } => Some(path),
            _ => None,
        }
    }

    /// The whole new text of a file, once what was there is known.
    pub(super) fn new_text(&self) -> Result<String, String> {
        let Self::Write { path, change, old } = self else { return Err("not a change of a file".to_owned()) };
        match (change, old) {
            (Change::Whole(text), _) => Ok(text.clone()),
            (Change::Replace { old: from, new }, Old::Text(text)) if text.contains(from) => {
                Ok(text.replacen(from, new, 1))
            }
            (Change::Replace { old: from, .. }, Old::Text(_)) => {
                Err(format!("{path} does not hold {from:?}"))
            }
            (Change::Edits(edits), Old::Text(text)) => edits.apply(path, text),
            (_, Old::Closed(reason)) => Err(format!("{path} cannot be read: {reason}")),
            (Change::Replace { .. } | Change::Edits(_), Old::Absent) => {
                Err(format!("there is no file {path}"))
            }
            (Change::Replace { .. } | Change::Edits(_), _) => Err(format!("{path} cannot be read")),
            (Change::Append(more), Old::Text(text)) if text.is_empty() || text.ends_with('\n') => {
                Ok(format!("{text}{more}"))
            }
            (Change::Append(more), Old::Text(text)) => Ok(format!("{text}\n{more}")),
            (Change::Append(more), _) => Ok(more.clone()),
        }
    }

    /// What the client may show of a change: a diff, unless the old text is not known.
    pub(super) fn preview(&self) -> Value {
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

/// The name of a server's tool, as the server and the tool are called.
pub(super) fn mcp_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

/// What a tool of the edge looks at: `Search "retry" in src`.
fn tool_title(name: &str, arguments: &Value) -> String {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    let mut title = match name {
        "list_files" => "List files".to_owned(),
        "glob" => "Find files".to_owned(),
        "skill" => format!("Read the skill {}", text("name").unwrap_or("?")),
        "survey" => "Look at the project".to_owned(),
        other => capital(other),
    };
    if let Some(words) = text("query") {
        title.push_str(&format!(" {:?}", cut(words, 80)));
    }
    if let Some(pattern) = text("pattern") {
        title.push_str(&format!(" `{}`", cut(&pattern.split_whitespace().collect::<Vec<_>>().join(" "), 80)));
    }
    if let Some(files) = arguments.get("files").and_then(Value::as_array) {
        let names: Vec<&str> = files.iter().filter_map(Value::as_str).collect();
        title.push_str(&format!(" {}", cut(&names.join(", "), 120)));
    }
    for place in ["path", "language"] {
        if let Some(place) = text(place) {
            title.push_str(&format!(" in {}", cut(place, 80)));
        }
    }
    title
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What the answer to the reading says about the file before it changes.
pub(super) fn known_before(answer: &Result<Value, RpcError>) -> Old {
    match answer {
        Ok(answer) => answer
            .get("content")
            .and_then(Value::as_str)
            .map_or_else(|| Old::Closed(NO_CONTENT.to_owned()), |text| Old::Text(text.to_owned())),
        Err(error) => {
            let message = error.message.to_lowercase();
            let absent =
                ["not found", "no such", "not exist", "enoent"].iter().any(|word| message.contains(word));
            match error.code == error_code::RESOURCE_NOT_FOUND || absent {
                true => Old::Absent,
                false => Old::Closed(error.message.trim_end_matches('.').to_owned()),
            }
        }
    }
}
