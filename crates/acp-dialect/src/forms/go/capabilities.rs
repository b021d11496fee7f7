//! Capabilities: a list of content types and an `mcp` object.

use acp_proto::method;
use acp_rpc::Id;
use serde_json::{Value, json};

use crate::core::Core;
use crate::json::Map;
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Carried, Passed};

/// Content types that v1 has a flag for; text and links are always there.
const FLAGS: [&str; 3] = ["image", "audio", "embeddedContext"];

/// What a v1 client may say and the Go struct has no field for.
pub(super) fn note_client(core: &mut Core, params: &Map) {
    let known = |name: &str| matches!(name, "fs" | "terminal" | "_meta");
    let more = params.get("clientCapabilities").and_then(Value::as_object);
    for name in more.into_iter().flat_map(Map::keys).filter(|name| !known(name)) {
        let field = format!("clientCapabilities.{name}");
        core.note(Passed, method::INITIALIZE, field, "go has no field for it; passed unchanged");
    }
}

pub(super) fn decode(core: &mut Core, id: &Id, result: Value) {
    let Some(mut re) = ObjectMapper::of_result(core, id, method::INITIALIZE, result) else { return };
    re.keep(&["protocolVersion"]);
    if let Some(capabilities) = re.take_map("agentCapabilities") {
        let capabilities = decode_agent(re.core, capabilities);
        re.set("agentCapabilities", capabilities);
    }
    re.keep(&["agentInfo", "authMethods"]);
    re.answer(id);
}

fn decode_agent(core: &mut Core, capabilities: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "result.agentCapabilities", capabilities);
    re.keep(&["loadSession"]);
    if let Some(prompt) = re.take_map("promptCapabilities") {
        let prompt = decode_prompt(re.core, prompt);
        re.set("promptCapabilities", prompt);
    }
    if let Some(mcp) = re.take_map("mcp") {
        let mut inner = ObjectMapper::new(re.core, method::INITIALIZE, "result.agentCapabilities.mcp", mcp);
        inner.rename("httpTransport", "http");
        inner.rename("sseTransport", "sse");
        let mcp = inner.finish();
        re.set("mcpCapabilities", mcp);
    }
    re.keep(&["mcpCapabilities", "sessionCapabilities", "auth"]);
    re.finish()
}

fn decode_prompt(core: &mut Core, prompt: Map) -> Map {
    let mut re =
        ObjectMapper::new(core, method::INITIALIZE, "result.agentCapabilities.promptCapabilities", prompt);
    re.keep(&FLAGS);
    let Some(list) = re.take_list("content") else { return re.finish() };
    let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    for flag in FLAGS {
        re.set(flag, words.contains(&flag));
    }
    let usual: Vec<&str> =
        std::iter::once("text").chain(FLAGS.into_iter().filter(|flag| words.contains(flag))).collect();
    if words != usual || words.len() != list.len() {
        re.carry("content", list.into(), Carried, "v1 has flags for image, audio and embeddedContext only");
    }
    re.finish()
}

pub(super) fn encode(core: &mut Core, id: &Id, result: Value) {
    let Some(mut re) = ObjectMapper::of_result(core, id, method::INITIALIZE, result) else { return };
    re.keep(&["protocolVersion", "agentInfo"]);
    if let Some(capabilities) = re.take_map("agentCapabilities") {
        let capabilities = encode_agent(re.core, capabilities);
        re.set("agentCapabilities", capabilities);
    }
    pass_unnamed(&mut re, "authMethods");
    re.answer(id);
}

fn encode_agent(core: &mut Core, capabilities: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "result.agentCapabilities", capabilities);
    re.keep(&["loadSession"]);
    if let Some(prompt) = re.take_map("promptCapabilities") {
        let prompt = encode_prompt(re.core, prompt);
        re.set("promptCapabilities", prompt);
    }
    if let Some(mcp) = re.take_map("mcpCapabilities") {
        let mut inner =
            ObjectMapper::new(re.core, method::INITIALIZE, "result.agentCapabilities.mcpCapabilities", mcp);
        inner.rename("http", "httpTransport");
        inner.rename("sse", "sseTransport");
        let mcp = inner.finish();
        re.set("mcp", mcp);
    }
    for name in ["sessionCapabilities", "auth"] {
        pass_unnamed(&mut re, name);
    }
    re.finish()
}

fn encode_prompt(core: &mut Core, prompt: Map) -> Map {
    let mut re =
        ObjectMapper::new(core, method::INITIALIZE, "result.agentCapabilities.promptCapabilities", prompt);
    let mut words = vec!["text"];
    for flag in FLAGS {
        if re.take(flag) == Some(Value::Bool(true)) {
            words.push(flag);
        }
    }
    re.set_new("content", json!(words));
    re.finish()
}

fn pass_unnamed(re: &mut ObjectMapper<'_>, name: &str) {
    let Some(value) = re.take(name) else { return };
    let says_something = match &value {
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    if says_something {
        re.note(Passed, name, "go has no field for it; passed unchanged");
    }
    re.set(name, value);
}
