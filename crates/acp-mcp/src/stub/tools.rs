//! The five tools.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// What a call asks the server to do next.
pub(super) enum Next {
    /// Answer with this.
    Answer(CallToolResult),
    /// Answer with this JSON-RPC error.
    Refuse(ErrorData),
    /// Answer `waited N ms` after so long, unless cancelled.
    Wait(Duration),
    /// End the process with this code, without an answer.
    Die(i32),
}

/// The longest that `slow` waits.
const LONGEST: u64 = 600_000;

pub(super) fn all() -> Vec<Tool> {
    let text = json!({"type": "string"});
    vec![
        tool("ping", "Answers pong.", true, json!({}), &[]),
        tool("echo", "Answers with the text it is given.", true, json!({"text": text}), &["text"]),
        tool(
            "list-files",
            "Lists the names in a folder, one per line.",
            true,
            json!({"path": {"type": "string", "description": "The folder; the server's working folder when absent"}}),
            &[],
        ),
        tool(
            "slow",
            "Answers after a while.",
            true,
            json!({"ms": {"type": "integer", "minimum": 0, "maximum": LONGEST, "description": "How long to wait; 1000 when absent"}}),
            &[],
        ),
        tool(
            "fail",
            "Fails.",
            false,
            json!({"message": text, "kind": {"type": "string", "enum": ["tool", "protocol", "exit"], "description": "A failed result (the default), a JSON-RPC error, or the end of the server"}}),
            &[],
        ),
    ]
}

pub(super) fn call(name: &str, arguments: &Value) -> Next {
    match name {
        "ping" => text("pong"),
        "echo" => match arguments["text"].as_str() {
            Some(words) => text(words),
            None => Next::Refuse(ErrorData::invalid_params("echo needs a string \"text\"", None)),
        },
        "list-files" => list_files(arguments["path"].as_str().unwrap_or(".")),
        "slow" => Next::Wait(Duration::from_millis(arguments["ms"].as_u64().unwrap_or(1000).min(LONGEST))),
        "fail" => fail(arguments),
        _ => Next::Refuse(ErrorData::invalid_params(format!("there is no tool {name:?}"), None)),
    }
}

fn list_files(path: &str) -> Next {
    let read = std::fs::read_dir(path).and_then(|entries| {
        entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<Vec<_>>>()
    });
    match read {
        Ok(mut names) => {
            names.sort();
            text(&names.join("\n"))
        }
        Err(error) => failed(&format!("cannot list {path:?}: {error}")),
    }
}

fn fail(arguments: &Value) -> Next {
    let message = arguments["message"].as_str().unwrap_or("failed as asked");
    match arguments["kind"].as_str() {
        Some("protocol") => Next::Refuse(ErrorData::internal_error(message.to_owned(), None)),
        Some("exit") => Next::Die(9),
        _ => failed(message),
    }
}

fn text(words: &str) -> Next {
    Next::Answer(CallToolResult::success(vec![ContentBlock::text(words)]))
}

fn failed(words: &str) -> Next {
    Next::Answer(CallToolResult::error(vec![ContentBlock::text(words)]))
}

fn tool(
    name: &'static str,
    description: &'static str,
    read_only: bool,
    properties: Value,
    required: &[&str],
) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    let mut hints = ToolAnnotations::new();
    hints.read_only_hint = Some(read_only);
    Tool::new(name, description, Arc::new(schema)).with_annotations(hints)
}
