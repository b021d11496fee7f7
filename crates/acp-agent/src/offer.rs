//! The tools that a model is offered.

use acp_script::agent::Question;
use serde_json::{Value, json};

use crate::provider::ToolSpec;

/// What the agent can do, besides what the question says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    pub(crate) edit: bool,
    pub(crate) delegate: bool,
}

/// The tools for this question: those that change nothing, and the others where it may change things.
pub(crate) fn tools(question: &Question, abilities: Abilities) -> Vec<ToolSpec> {
    let spec = |name: &str, description: &str, schema: Value| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        schema,
    };
    let text = |about: &str| json!({ "type": "string", "description": about });
    let number = |about: &str| json!({ "type": "integer", "description": about });
    let object = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required });
    let mut tools: Vec<ToolSpec> = acp_code::tool::schemas()
        .into_iter()
        .map(|tool| spec(tool.name, tool.description, tool.input))
        .collect();
    let path = text("A file, relative to the working folder or absolute");
    let ranges =
        json!({ "path": path, "line": number("First line, from 1"), "limit": number("How many lines") });
    tools.push(spec("read_file", "Read a text file, or some of its lines", object(ranges, &["path"])));
    let entry = object(
        json!({
            "content": text("What is to be done"),
            "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
            "priority": { "type": "string", "enum": ["high", "medium", "low"] },
        }),
        &["content", "status"],
    );
    let entries = json!({ "entries": { "type": "array", "items": entry } });
    tools.push(spec("update_plan", "Show the whole plan, with what is done", object(entries, &["entries"])));
    if question.planning {
        return tools;
    }
    if abilities.edit {
        let whole = json!({ "path": path, "content": text("The whole new text") });
        tools.push(spec(
            "write_file",
            "Create or overwrite a text file",
            object(whole, &["path", "content"]),
        ));
        let part = json!({ "path": path, "old": text("Text that is there exactly once"), "new": text("Text to put there") });
        tools.push(spec(
            "edit_file",
            "Replace one piece of a text file",
            object(part, &["path", "old", "new"]),
        ));
    }
    let command = json!({
        "command": text("As in a shell"),
        "timeout": number("Seconds after which it is killed; 600 without it"),
    });
    tools.push(spec("run_command", "Run a command in the working folder", object(command, &["command"])));
    if abilities.delegate && !question.delegated {
        let task = json!({ "task": text("Everything the helper must know") });
        let about = "Hand a task to a helper with the same tools; several in one answer work side by side";
        tools.push(spec("delegate", about, object(task, &["task"])));
    }
    tools.extend(question.mcp.iter().map(|tool| {
        let schema = if tool.schema.is_object() { tool.schema.clone() } else { object(json!({}), &[]) };
        spec(&tool.name, &tool.description, schema)
    }));
    tools
}
