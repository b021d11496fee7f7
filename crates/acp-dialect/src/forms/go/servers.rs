//! MCP servers: a map from name to settings, or v1's list.

use acp_proto::method;
use serde_json::{Value, json};

use crate::core::Core;
use crate::json::{Map, text};
use crate::note::NoteKind::{Lossy, WrongShape};

/// Turns a map of servers into v1's list; says whether anything changed.
pub(super) fn decode(core: &mut Core, method: &str, params: &mut Map) -> bool {
    match params.shift_remove("mcpServers") {
        None if method == method::SESSION_LOAD => {
            params.insert("mcpServers".to_owned(), json!([]));
            true
        }
        None => false,
        Some(Value::Object(map)) => {
            let list: Vec<Value> =
                map.into_iter().map(|(name, server)| decode_entry(core, method, &name, server)).collect();
            params.insert("mcpServers".to_owned(), list.into());
            true
        }
        Some(Value::Array(list)) => {
            let mut changed = false;
            let list: Vec<Value> = list
                .into_iter()
                .map(|server| {
                    let name = server.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                    let now = decode_entry(core, method, &name, server.clone());
                    changed |= now != server;
                    now
                })
                .collect();
            params.insert("mcpServers".to_owned(), list.into());
            changed
        }
        Some(other) => {
            let message = "neither a list nor a map; passed unchanged";
            core.note(WrongShape, method.to_owned(), "mcpServers", message);
            params.insert("mcpServers".to_owned(), other);
            false
        }
    }
}

fn decode_entry(core: &mut Core, method: &str, name: &str, server: Value) -> Value {
    let Value::Object(mut server) = server else {
        let message = format!("the server {name:?} is not an object; passed unchanged");
        core.note(WrongShape, method.to_owned(), "mcpServers", message);
        return server;
    };
    if text(&server, "type") == Some("stdio") {
        server.shift_remove("type");
    }
    let mut out = Map::new();
    for field in ["type", "name", "command", "args", "env", "url", "headers"] {
        let value = server.shift_remove(field);
        let value = match (field, value) {
            ("name", value) => Some(value.unwrap_or_else(|| name.into())),
            ("env" | "headers", Some(Value::Object(map))) => Some(pairs(map)),
            ("args" | "env", None) if out.contains_key("command") => Some(json!([])),
            ("headers", None) if out.contains_key("url") => Some(json!([])),
            (_, value) => value,
        };
        if let Some(value) = value {
            out.insert(field.to_owned(), value);
        }
    }
    out.extend(server);
    Value::Object(out)
}

fn pairs(map: Map) -> Value {
    map.into_iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// v1's list as go reads it: `session/new` takes the list when every server is a program, and only the map has a place
/// for the others; `session/load` takes the map.
pub(super) fn encode(core: &mut Core, method: &str, params: &mut Map) -> bool {
    let Some(Value::Array(list)) = params.get("mcpServers") else { return false };
    let remote = list.iter().any(|server| server.get("url").is_some());
    if method == method::SESSION_LOAD && list.is_empty() {
        params.shift_remove("mcpServers");
        return true;
    }
    if method == method::SESSION_NEW && !remote {
        return false;
    }
    let list = list.clone();
    let mut map = Map::new();
    for server in list {
        let (name, server) = encode_entry(core, method, server);
        let mut key = name.clone();
        for number in 2.. {
            if !map.contains_key(&key) {
                break;
            }
            key = format!("{name}-{number}");
        }
        if key != name {
            let message = format!("go keys servers by name; the second {name:?} became {key:?}");
            core.note(Lossy, method.to_owned(), "mcpServers.name", message);
        }
        map.insert(key, server);
    }
    params.insert("mcpServers".to_owned(), Value::Object(map));
    true
}

fn encode_entry(core: &mut Core, method: &str, server: Value) -> (String, Value) {
    let Value::Object(mut server) = server else { return ("server".to_owned(), server) };
    let name = match server.shift_remove("name") {
        Some(Value::String(name)) => name,
        _ => "server".to_owned(),
    };
    let mut out = Map::new();
    let kind = server.shift_remove("type").unwrap_or_else(|| "stdio".into());
    out.insert("type".to_owned(), kind);
    for (field, value) in server {
        let value = match (field.as_str(), value) {
            ("env" | "headers", Value::Array(list)) => {
                Value::Object(unpair(core, method, &name, &field, list))
            }
            (_, value) => value,
        };
        out.insert(field, value);
    }
    (name, Value::Object(out))
}

/// The list as a map, which has one value for a name: the last one, as a later entry overrides an earlier one.
fn unpair(core: &mut Core, method: &str, server: &str, field: &str, list: Vec<Value>) -> Map {
    let mut map = Map::new();
    for pair in list {
        let Some(name) = pair.get("name").and_then(Value::as_str) else {
            let message = format!("an entry of the server {server:?} has no name; left out");
            core.note(WrongShape, method.to_owned(), format!("mcpServers.{field}"), message);
            continue;
        };
        let value = pair.get("value").cloned().unwrap_or_default();
        if map.insert(name.to_owned(), value).is_some() {
            let message =
                format!("go has one value for a name; of the server {server:?}, {name:?} keeps the last");
            core.note(Lossy, method.to_owned(), format!("mcpServers.{field}"), message);
        }
    }
    map
}
