//! Content: `resourceLink`, and resources without a wrapper.

use acp_proto::method;
use serde_json::Value;

use crate::core::Core;
use crate::json::{Map, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Lossy, WrongShape};

/// Recasts the blocks of a prompt in place; says whether anything changed.
pub(super) fn recast_prompt(core: &mut Core, params: &mut Map) -> bool {
    let Some(Value::Array(list)) = params.get_mut("prompt") else {
        if params.contains_key("prompt") {
            let message = "not a list of content blocks; passed unchanged";
            core.note(WrongShape, method::SESSION_PROMPT, "prompt", message);
        }
        return false;
    };
    let mut changed = false;
    for block in list {
        let now = recast(core, method::SESSION_PROMPT, block.clone());
        changed |= now != *block;
        *block = now;
    }
    changed
}

/// A block in the other form, whichever way the current frame goes.
pub(super) fn recast(core: &mut Core, method: &'static str, block: Value) -> Value {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let decoding = core.is_decoding();
    match (kind.as_str(), decoding, block) {
        ("resourceLink", true, Value::Object(mut block)) => {
            block.insert("type".to_owned(), "resource_link".into());
            Value::Object(block)
        }
        ("resource_link", false, Value::Object(mut block)) => {
            block.insert("type".to_owned(), "resourceLink".into());
            Value::Object(block)
        }
        ("resource", true, Value::Object(block)) if !block.contains_key("resource") => {
            wrap(core, method, block)
        }
        ("resource", false, Value::Object(block)) if block.contains_key("resource") => {
            unwrap(core, method, block)
        }
        (_, _, block) => block,
    }
}

fn wrap(core: &mut Core, method: &'static str, block: Map) -> Value {
    let mut re = ObjectMapper::new(core, method, "prompt", block);
    re.keep(&["type"]);
    let mut resource = Map::new();
    for field in ["uri", "mimeType", "text", "blob"] {
        if let Some(value) = re.take(field) {
            resource.insert(field.to_owned(), value);
        }
    }
    re.set("resource", resource);
    Value::Object(re.finish())
}

fn unwrap(core: &mut Core, method: &'static str, block: Map) -> Value {
    let mut re = ObjectMapper::new(core, method, "prompt", block);
    re.keep(&["type"]);
    let resource = re.take_map("resource").unwrap_or_default();
    if text(&resource, "blob").is_some() {
        re.note(Lossy, "resource.blob", "the Go struct has no field for bytes, though its table names one");
    }
    for (field, value) in resource {
        re.set(&field, value);
    }
    Value::Object(re.finish())
}
