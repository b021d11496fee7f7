//! The fields of a `drive` step as values for words.

use acp_match::Vars;
use serde_json::{Map, Value, json};

use crate::place::ExamPlace;
use crate::words::WordValues;

/// The fields that words take as they are.
const PLAIN: [&str; 6] = ["text", "session", "mode", "option", "value", "method"];

/// The values of a test, and those of one step.
pub(super) fn values_of(
    values: &WordValues,
    fields: &Value,
    session: Option<&str>,
    place: &ExamPlace,
) -> Result<WordValues, String> {
    let mut values = values.clone();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(session) = session {
        values.single.set("session", session);
    }
    for name in PLAIN {
        if let Some(value) = fields.get(name) {
            values.single.set(name, text(value));
        }
    }
    if let Some(file) = fields.get("file").and_then(Value::as_str) {
        values.single.set("file", place.cell.sandbox.join(file).to_string_lossy().as_ref());
    }
    if let Some(dirs) = fields.get("dirs").and_then(Value::as_array) {
        values.repeated.push(("dir", dirs.iter().map(text).collect()));
    }
    if let Some(server) = fields.get("server") {
        set_server(&mut values.single, server, place)?;
    }
    Ok(values)
}

/// A server as the protocol has it, and in a file as most clients have it.
fn set_server(vars: &mut Vars, server: &Value, place: &ExamPlace) -> Result<(), String> {
    let pairs = |name: &str| -> Map<String, Value> {
        let list = server.get(name).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|pair| Some((pair.get("name")?.as_str()?.to_owned(), pair.get("value")?.clone())))
            .collect()
    };
    let name = server.get("name").and_then(Value::as_str).unwrap_or("server").to_owned();
    let entry = match server.get("url") {
        Some(url) => json!({ "type": server.get("type"), "url": url, "headers": pairs("headers") }),
        None => json!({ "command": server.get("command"), "args": server.get("args"), "env": pairs("env") }),
    };
    let file = place.cell.root().join(format!("mcp-{}.json", name.replace(['/', '.'], "-")));
    let content = json!({ "mcpServers": { name: entry } });
    std::fs::write(&file, format!("{content:#}\n"))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    vars.set("mcp", server.to_string());
    vars.set("mcpFile", file.to_string_lossy().as_ref());
    Ok(())
}
