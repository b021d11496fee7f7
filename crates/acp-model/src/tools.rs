//! Which of the tools that an agent offers serves an intent, and with what arguments.

use std::collections::BTreeMap;

use acp_match::{Template, Vars};
use acp_profile::ToolHint;
use serde_json::{Map, Value, json};

use crate::fill::{complete, properties};
use crate::patch::patch;
use crate::shapes::{plan, question, shaped};
use crate::talk::{Input, ModelTool};
use crate::wanted::WantedTool;

/// No offered tool serves an intent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no offered tool serves the intent {intent:?}; offered: {}", .offered.join(", "))]
pub struct Unfit {
    /// The intent.
    pub intent: String,
    /// The tools there are.
    pub offered: Vec<String>,
}

/// A tool and what to give it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The tool's name.
    pub name: String,
    /// The group it stands in.
    pub namespace: Option<String>,
    /// Its input.
    pub input: Input,
}

/// Where a call happens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'p> {
    /// The working folder, when the agent tells the model.
    pub cwd: Option<&'p str>,
    /// The present text of the file that the call is about, when it can be read.
    pub present: Option<&'p str>,
}

/// Picks the tool: by the agent's profile first, by name next, by the shape of its schema last; files are read
/// and written through a shell where there is no tool for them.
pub fn choose(
    wanted: &WantedTool,
    tools: &[ModelTool],
    hints: &BTreeMap<String, ToolHint>,
    place: Place<'_>,
) -> Result<Chosen, Unfit> {
    let found = match wanted {
        WantedTool::Tool { name, args } => Some(exact(name, args, tools)),
        WantedTool::Mcp { server, tool, args } => mcp(server.as_deref(), tool, args, tools),
        WantedTool::Append { path, text } => {
            let command = format!("printf '%s\\n' {} >> {}", quote(text), quote(path));
            by_any(&WantedTool::Run { command }, tools, hints, place)
        }
        other => by_any(other, tools, hints, place).or_else(|| through_shell(other, tools, hints, place)),
    };
    found.ok_or_else(|| Unfit {
        intent: wanted.name().to_owned(),
        offered: tools.iter().map(|tool| tool.name.clone()).collect(),
    })
}

fn by_any(
    wanted: &WantedTool,
    tools: &[ModelTool],
    hints: &BTreeMap<String, ToolHint>,
    place: Place<'_>,
) -> Option<Chosen> {
    by_hint(wanted, tools, hints, place).or_else(|| {
        let tool = by_name(wanted, tools).or_else(|| by_shape(wanted, tools))?;
        Some(chosen(tool, arguments(wanted, tool, place)))
    })
}

fn by_hint(
    wanted: &WantedTool,
    tools: &[ModelTool],
    hints: &BTreeMap<String, ToolHint>,
    place: Place<'_>,
) -> Option<Chosen> {
    let hint = hints.get(wanted.name())?;
    let tool = hint.tools.iter().find_map(|name| tools.iter().find(|tool| tool.name == *name))?;
    let Some(template) = &hint.args else { return Some(chosen(tool, arguments(wanted, tool, place))) };
    let mut args = template.clone();
    Template::render_value(&mut args, &particulars(wanted, place)).ok()?;
    let Value::Object(mut args) = args else { return None };
    // A tool's arguments change with the agent's mode: what it does not offer now is left out.
    if let Some(known) = properties(&tool.schema) {
        args.retain(|name, _| known.contains_key(name));
    }
    complete(&mut args, &tool.schema);
    Some(chosen(tool, Input::Json(args.into())))
}

fn chosen(tool: &ModelTool, input: Input) -> Chosen {
    Chosen { name: tool.name.clone(), namespace: tool.namespace.clone(), input }
}

fn exact(name: &str, args: &Value, tools: &[ModelTool]) -> Chosen {
    let tool = tools.iter().find(|tool| tool.name == name);
    let input = match args {
        Value::String(text) => Input::Text(text.clone()),
        other => Input::Json(other.clone()),
    };
    Chosen { name: name.to_owned(), namespace: tool.and_then(|tool| tool.namespace.clone()), input }
}

/// Names under which agents are known to offer an intent, the plainest first.
fn names(wanted: &WantedTool) -> &'static [&'static str] {
    match wanted {
        WantedTool::Read { .. } => &[
            "read",
            "read_file",
            "view",
            "read_text_file",
            "read_files",
            "view_file",
            "open_file",
            "fs_read",
            "str_replace_editor",
            "str_replace_based_edit_tool",
            "extract",
        ],
        WantedTool::Run { .. } => &[
            "bash",
            "run_shell_command",
            "shell",
            "exec_command",
            "shell_command",
            "execute_command",
            "run_commands",
            "run_command",
            "execute",
            "terminal",
            "run_terminal_cmd",
            "run_in_terminal",
            "launch-process",
            "local_shell",
        ],
        WantedTool::Write { .. } => &[
            "write",
            "write_file",
            "create",
            "create_file",
            "write_to_file",
            "write_text_file",
            "save-file",
            "str_replace_editor",
            "str_replace_based_edit_tool",
            "apply_patch",
        ],
        WantedTool::Edit { .. } => &[
            "edit",
            "replace",
            "edit_file",
            "str_replace",
            "search_replace",
            "str_replace_editor",
            "str_replace_based_edit_tool",
            "apply_patch",
        ],
        WantedTool::Plan { .. } => &[
            "todowrite",
            "todo_write",
            "write_todos",
            "update_plan",
            "update_todos",
            "update_todo",
            "todolist",
            "todo",
            "plan",
        ],
        WantedTool::Search { .. } => {
            &["grep", "search_file_content", "grep_search", "search_files", "rg", "search", "codebase_search"]
        }
        WantedTool::Ask { .. } => &[
            "askuserquestion",
            "ask_user_question",
            "request_user_input",
            "ask_user",
            "ask_followup_question",
            "ask_question",
        ],
        _ => &[],
    }
}

fn by_name<'t>(wanted: &WantedTool, tools: &'t [ModelTool]) -> Option<&'t ModelTool> {
    let lower = |tool: &ModelTool| tool.name.to_lowercase();
    let last = |tool: &ModelTool| lower(tool).rsplit("__").next().unwrap_or_default().to_owned();
    let stray = |name: &str| {
        ["image", "output", "media", "notebook", "memory"].iter().any(|word| name.contains(word))
    };
    let fitting = || tools.iter().filter(|tool| fits(wanted, tool));
    let names = names(wanted);
    names
        .iter()
        .find_map(|name| fitting().find(|tool| lower(tool) == *name))
        .or_else(|| names.iter().find_map(|name| fitting().find(|tool| last(tool) == *name)))
        .or_else(|| {
            let near =
                |name: &&str| fitting().find(|tool| lower(tool).contains(*name) && !stray(&lower(tool)));
            // Short names stand inside too many others.
            names.iter().filter(|name| name.len() > 3).find_map(near)
        })
}

fn by_shape<'t>(wanted: &WantedTool, tools: &'t [ModelTool]) -> Option<&'t ModelTool> {
    // Reading and searching have no shape of their own: a path or a text says nothing about what is done.
    let telling =
        matches!(wanted, WantedTool::Run { .. } | WantedTool::Write { .. } | WantedTool::Edit { .. });
    tools.iter().filter(|_| telling).find(|tool| !is_mcp(tool) && fits(wanted, tool))
}

pub(crate) const PATHS: &[&str] = &[
    "file_path",
    "absolute_path",
    "filePath",
    "path",
    "target_file",
    "filename",
    "file",
    "files",
    "paths",
    "targets",
];
const TEXTS: &[&str] = &["content", "file_text", "contents", "file_content", "new_text", "text", "data"];
pub(crate) const COMMANDS: &[&str] = &["command", "cmd", "script", "commands"];
const OLDS: &[&str] = &["old_string", "oldString", "old_str", "old_text", "oldText", "search", "find", "old"];
const NEWS: &[&str] =
    &["new_string", "newString", "new_str", "new_text", "newText", "replace", "replacement", "new"];
const PATCHES: &[&str] = &["input", "patch", "patchText", "patch_text", "diff"];
const QUERIES: &[&str] = &["pattern", "query", "regex", "search", "text"];
const QUESTIONS: &[&str] = &["questions", "question", "prompt", "message"];
const LISTS: &[&str] = &["todos", "plan", "items", "steps", "tasks", "entries"];

fn property<'t>(tool: &'t ModelTool, names: &[&str]) -> Option<(String, &'t Value)> {
    let all = properties(&tool.schema)?;
    names.iter().find_map(|name| all.get(*name).map(|schema| ((*name).to_owned(), schema)))
}

fn is_patch(tool: &ModelTool) -> bool {
    tool.name.to_lowercase().ends_with("apply_patch")
}

/// An editor with several commands in one tool.
fn editor_command(tool: &ModelTool, word: &str) -> bool {
    let words = tool.schema["properties"]["command"]["enum"].as_array();
    words.is_some_and(|words| words.iter().any(|given| given == word))
}

fn fits(wanted: &WantedTool, tool: &ModelTool) -> bool {
    let has = |names| property(tool, names).is_some();
    match wanted {
        WantedTool::Read { .. } if editor_command(tool, "create") => editor_command(tool, "view"),
        WantedTool::Read { .. } => has(PATHS) && !has(TEXTS) && !has(OLDS),
        WantedTool::Run { .. } => {
            property(tool, COMMANDS).is_some_and(|(_, schema)| schema.get("enum").is_none())
        }
        WantedTool::Write { .. } => {
            is_patch(tool) || (has(PATHS) && has(TEXTS) && !has(OLDS)) || editor_command(tool, "create")
        }
        WantedTool::Edit { .. } => is_patch(tool) || (has(PATHS) && has(OLDS) && has(NEWS)),
        WantedTool::Plan { .. } => has(LISTS),
        WantedTool::Ask { .. } => has(QUESTIONS),
        WantedTool::Search { .. } => has(QUERIES),
        _ => false,
    }
}

fn arguments(wanted: &WantedTool, tool: &ModelTool, place: Place<'_>) -> Input {
    let cwd = place.cwd;
    let mut args = Map::new();
    let mut set = |names: &[&str], text: &str| {
        let (name, schema) = property(tool, names).unwrap_or_else(|| (names[0].to_owned(), &Value::Null));
        args.insert(name.clone(), shaped(&name, schema, text));
    };
    match wanted {
        WantedTool::Write { .. } | WantedTool::Edit { .. } if is_patch(tool) => {
            let patch = patch(wanted, place.present);
            if tool.free_text {
                return Input::Text(patch);
            }
            set(PATCHES, &patch);
        }
        WantedTool::Read { path, line, limit } => {
            set(PATHS, &absolute(path, cwd));
            let lines = [("offset", line), ("start_line", line), ("line", line), ("limit", limit)];
            let known = properties(&tool.schema);
            for (name, count) in lines {
                if let (Some(count), true) = (count, known.is_some_and(|all| all.contains_key(name))) {
                    args.insert(name.to_owned(), (*count).into());
                }
            }
        }
        WantedTool::Write { path, text } => {
            set(PATHS, &absolute(path, cwd));
            set(TEXTS, text);
        }
        WantedTool::Edit { path, old, new } => {
            set(PATHS, &absolute(path, cwd));
            set(OLDS, old);
            set(NEWS, new);
        }
        WantedTool::Run { command } => set(COMMANDS, command),
        WantedTool::Search { text, path } => {
            set(QUERIES, text);
            if let Some(path) = path.as_ref().filter(|_| property(tool, PATHS).is_some()) {
                set(PATHS, &absolute(path, cwd));
            }
        }
        WantedTool::Plan { steps } => {
            let (name, schema) = property(tool, LISTS).unwrap_or_else(|| ("todos".to_owned(), &Value::Null));
            args.insert(name, plan(steps, schema));
        }
        WantedTool::Ask { question: words, topic } => {
            let (name, schema) =
                property(tool, QUESTIONS).unwrap_or_else(|| ("question".to_owned(), &Value::Null));
            args.insert(name, question(words, topic, schema));
        }
        _ => {}
    }
    for (word, intent) in [("view", "read"), ("create", "write"), ("str_replace", "edit")] {
        if intent == wanted.name() && editor_command(tool, word) {
            args.insert("command".to_owned(), word.into());
        }
    }
    complete(&mut args, &tool.schema);
    Input::Json(args.into())
}

fn through_shell(
    wanted: &WantedTool,
    tools: &[ModelTool],
    hints: &BTreeMap<String, ToolHint>,
    place: Place<'_>,
) -> Option<Chosen> {
    let command = match wanted {
        WantedTool::Read { path, line: None, limit: None } => format!("cat {}", quote(path)),
        WantedTool::Read { path, line, limit } => {
            let from = line.unwrap_or(1);
            let to = limit.map_or("$".to_owned(), |limit| (from + limit.max(1) - 1).to_string());
            format!("sed -n '{from},{to}p' {}", quote(path))
        }
        WantedTool::Write { path, text } => format!("printf '%s\\n' {} > {}", quote(text), quote(path)),
        WantedTool::Edit { path, old, new } => {
            let plain =
                |text: &str| text.replace(['\\', '/', '&', '.', '*', '[', ']', '^', '$'], "?").contains('?');
            if plain(old) || plain(new) || old.contains('\n') || new.contains('\n') {
                return None;
            }
            format!("sed -i {} {}", quote(&format!("s/{old}/{new}/g")), quote(path))
        }
        WantedTool::Search { text, path } => {
            format!("grep -rn -F {} {}", quote(text), quote(path.as_deref().unwrap_or(".")))
        }
        _ => return None,
    };
    by_any(&WantedTool::Run { command }, tools, hints, place)
}

fn mcp(server: Option<&str>, wanted: &str, args: &Map<String, Value>, tools: &[ModelTool]) -> Option<Chosen> {
    let plain = |text: &str| {
        text.chars()
            .map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
            .collect::<String>()
    };
    let (end, group) = (plain(wanted), server.map(plain));
    // The more of the full name is right, the better: a server's own "ping" must not lose to another's.
    let score = |tool: &ModelTool| {
        let full = plain(&format!("{}__{}", tool.namespace.as_deref().unwrap_or_default(), tool.name));
        let named = full.ends_with(&format!("_{end}"));
        let of_server = group.as_ref().is_none_or(|group| full.contains(group.as_str()));
        match (named, of_server, is_mcp(tool)) {
            (true, true, true) => 3,
            (true, true, false) if full.trim_start_matches('_') != end => 2,
            (true, true, false) => 1,
            _ => 0,
        }
    };
    let best = tools
        .iter()
        .map(|tool| (score(tool), tool))
        .filter(|(score, _)| *score > 0)
        .max_by_key(|(score, _)| *score)?
        .1;
    let mut args = args.clone();
    complete(&mut args, &best.schema);
    Some(chosen(best, Input::Json(args.into())))
}

/// Whether a tool comes from an MCP server, by its name.
pub(crate) fn is_mcp(tool: &ModelTool) -> bool {
    let group = tool.namespace.as_deref().unwrap_or_default();
    tool.name.starts_with("mcp_") || tool.name.contains("__") || group.starts_with("mcp")
}

fn particulars(wanted: &WantedTool, place: Place<'_>) -> Vars {
    let cwd = place.cwd;
    let vars = Vars::new().with("patch", patch(wanted, place.present));
    match wanted {
        WantedTool::Read { path, .. } => vars.with("path", absolute(path, cwd)),
        WantedTool::Write { path, text } => vars.with("path", absolute(path, cwd)).with("text", text.clone()),
        WantedTool::Edit { path, old, new } => {
            vars.with("path", absolute(path, cwd)).with("old", old.clone()).with("new", new.clone())
        }
        WantedTool::Run { command } => vars.with("command", command.clone()),
        WantedTool::Plan { steps } => vars.with("steps", json!(steps)),
        WantedTool::Ask { question, topic } => {
            vars.with("question", question.clone()).with("topic", topic.clone())
        }
        WantedTool::Search { text, path } => {
            vars.with("text", text.clone()).with("path", path.clone().unwrap_or_else(|| ".".to_owned()))
        }
        _ => vars,
    }
}

/// Most tools want absolute paths, and all take them.
pub(crate) fn absolute(path: &str, cwd: Option<&str>) -> String {
    match cwd {
        Some(cwd) if !path.starts_with('/') && !path.starts_with('~') => {
            format!("{}/{path}", cwd.trim_end_matches('/'))
        }
        _ => path.to_owned(),
    }
}

fn quote(text: &str) -> String {
    let plain =
        !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_'));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
