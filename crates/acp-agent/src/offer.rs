//! The tools that a model is offered.

use acp_script::agent::ModelQuestion;
use serde_json::{Value, json};

use crate::provider::ToolSpec;

/// What the agent can do, besides what the question says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    pub(crate) edit: bool,
    pub(crate) delegate: bool,
}

/// The tools for this question: those that change nothing, and the others where it may change things.
pub(crate) fn tools(question: &ModelQuestion, abilities: Abilities) -> Vec<ToolSpec> {
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
        .chain(acp_code::tool::listing_schemas())
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
        let about = "Change parts of a text file: by the text that stands there (old), by lines (start_line, end_line, \
                     after_line), or a whole declaration by its name (symbol). Several edits in one call are found in the \
                     file as it is now, and made together or not at all. White space may differ a little";
        tools.push(spec("edit_file", about, edit_schema(&path)));
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

/// The arguments of `edit_file`: one edit, or a list of them.
fn edit_schema(path: &Value) -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let number = |about: &str| json!({ "type": "integer", "description": about });
    let edit = json!({
        "old": text("The text to replace. It must stand in the file, or in the given lines or declaration, exactly once"),
        "new": text("What to put there; nothing removes it"),
        "all": { "type": "boolean", "description": "Replace old wherever it stands" },
        "start_line": number("First line to replace, from 1; with old, the first line to look in"),
        "end_line": number("Last line; start_line without it"),
        "after_line": number("Insert new behind this line; 0 is the beginning of the file"),
        "symbol": text("A declaration to replace, with its comment: name or Type.method; with old, where to look"),
    });
    let mut properties = edit.clone();
    properties["path"] = path.clone();
    properties["edits"] = json!({
        "type": "array",
        "description": "Several edits, instead of one",
        "items": { "type": "object", "properties": edit, "required": ["new"] },
    });
    json!({ "type": "object", "properties": properties, "required": ["path"] })
}
