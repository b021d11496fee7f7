//! Parameters, read strictly: a refusal names the place and what was expected there.
//!
//! The official types are lenient on purpose (a wrong item of a list is skipped), so they cannot refuse for us.

use acp_rpc::RpcError;
use serde_json::{Map, Value};

/// The parameters of one message: an object.
pub struct Params(Value);

impl Params {
    /// Reads the raw text; absent parameters are an empty object.
    pub fn parse(params: Option<&str>) -> Result<Self, RpcError> {
        let Some(text) = params else { return Ok(Self(Value::Object(Map::new()))) };
        match serde_json::from_str(text) {
            Ok(value @ Value::Object(_)) => Ok(Self(value)),
            Ok(Value::Null) => Ok(Self(Value::Object(Map::new()))),
            Ok(other) => Err(wrong("params", "an object", &other)),
            Err(error) => Err(RpcError::invalid_params(format!("params: {error}"))),
        }
    }

    /// The whole object.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// A required string.
    pub fn text(&self, key: &str) -> Result<&str, RpcError> {
        text_of(&self.0, "params", key)
    }

    /// An optional string; null counts as absent.
    pub fn optional_text(&self, key: &str) -> Result<Option<&str>, RpcError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&format!("params.{key}"), "a string", other)),
        }
    }

    /// A required list.
    pub fn list(&self, key: &str) -> Result<&[Value], RpcError> {
        match self.0.get(key) {
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(wrong(&format!("params.{key}"), "an array", other)),
            None => Err(missing("params", key)),
        }
    }

    /// An optional list; null counts as absent.
    pub fn optional_list(&self, key: &str) -> Result<&[Value], RpcError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(&[]),
            Some(_) => self.list(key),
        }
    }
}

/// A required string inside `value`.
pub fn text_of<'a>(value: &'a Value, place: &str, key: &str) -> Result<&'a str, RpcError> {
    match value.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(wrong(&format!("{place}.{key}"), "a string", other)),
        None => Err(missing(place, key)),
    }
}

/// Whether a path is absolute on any platform a client may run on.
pub fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    let drive = bytes.len() > 2
        && bytes[0].is_ascii_alphabetic()
        && bytes[1] == b':'
        && matches!(bytes[2], b'/' | b'\\');
    path.starts_with('/') || path.starts_with(r"\\") || drive
}

/// A required absolute path.
pub fn absolute(path: &str, place: &str) -> Result<String, RpcError> {
    if is_absolute(path) {
        return Ok(path.to_owned());
    }
    Err(RpcError::invalid_params(format!("{place}: {path:?} is not an absolute path")))
}

/// Checks a prompt's content blocks.
pub fn content_blocks(blocks: &[Value]) -> Result<(), RpcError> {
    for (at, block) in blocks.iter().enumerate() {
        content_block(block, &format!("params.prompt[{at}]"))?;
    }
    Ok(())
}

fn content_block(block: &Value, place: &str) -> Result<(), RpcError> {
    match text_of(block, place, "type")? {
        "text" => text_of(block, place, "text").map(drop),
        "image" | "audio" => {
            text_of(block, place, "data")?;
            text_of(block, place, "mimeType").map(drop)
        }
        "resource_link" => {
            text_of(block, place, "uri")?;
            text_of(block, place, "name").map(drop)
        }
        "resource" => {
            let resource = block.get("resource").ok_or_else(|| missing(place, "resource"))?;
            let place = format!("{place}.resource");
            text_of(resource, &place, "uri")?;
            if resource.get("blob").is_some() {
                return text_of(resource, &place, "blob").map(drop);
            }
            text_of(resource, &place, "text").map(drop)
        }
        other => Err(RpcError::invalid_params(format!("{place}.type: {other:?} is not a kind of content"))),
    }
}

/// Checks an entry of `mcpServers`.
pub fn mcp_server(server: &Value, place: &str) -> Result<(), RpcError> {
    text_of(server, place, "name")?;
    match server.get("type").and_then(Value::as_str).unwrap_or("stdio") {
        "stdio" => {
            text_of(server, place, "command")?;
            strings(server, place, "args")?;
            pairs(server, place, "env")
        }
        "http" => {
            text_of(server, place, "url")?;
            pairs(server, place, "headers")
        }
        other => Err(RpcError::invalid_params(format!(
            "{place}.type: {other:?} servers are not supported; see agentCapabilities.mcpCapabilities"
        ))),
    }
}

fn strings(value: &Value, place: &str, key: &str) -> Result<(), RpcError> {
    match value.get(key) {
        None => Err(missing(place, key)),
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => Ok(()),
        Some(other) => Err(wrong(&format!("{place}.{key}"), "an array of strings", other)),
    }
}

fn pairs(value: &Value, place: &str, key: &str) -> Result<(), RpcError> {
    let pair = |item: &Value| {
        item.get("name").is_some_and(Value::is_string) && item.get("value").is_some_and(Value::is_string)
    };
    match value.get(key) {
        None => Err(missing(place, key)),
        Some(Value::Array(items)) if items.iter().all(pair) => Ok(()),
        Some(other) => Err(wrong(&format!("{place}.{key}"), "an array of {name, value}", other)),
    }
}

fn missing(place: &str, key: &str) -> RpcError {
    RpcError::invalid_params(format!("{place}.{key} is missing"))
}

fn wrong(place: &str, expected: &str, found: &Value) -> RpcError {
    let kind = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    RpcError::invalid_params(format!("{place} must be {expected}, not {kind}"))
}
