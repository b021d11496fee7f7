//! `initialize` and `authenticate`.

use acp_proto::{error_code, method};
use acp_rpc::Id;
use serde_json::{Value, json};

use super::blocks;
use crate::core::{Core, OpenRequest, Refusal, Wire};
use crate::json::{Map, text, text_of};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Carried, Invented, Lossy, WrongShape};
use crate::options::Credentials;
use crate::shared;

pub(super) fn decode_initialize(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "", params);
    match re.take("protocol_version") {
        Some(Value::String(version)) if version == "2025.1" => {}
        Some(other) => {
            re.carry("protocol_version", other, Lossy, "an unknown version; negotiated to 1");
        }
        None => re.note(Invented, "protocol_version", "no version given; taken to be 2025.1"),
    }
    re.set("protocolVersion", 1);
    let capabilities = re.take_map("capabilities").unwrap_or_default();
    let capabilities = decode_client_capabilities(re.core, capabilities);
    re.set("clientCapabilities", capabilities);
    re.rename("client_info", "clientInfo");
    if let Some(dir) = re.take_text("working_directory") {
        re.carry_quietly("working_directory", dir.clone().into());
        re.core.held_dir = Some(dir);
    }
    if let Some(servers) = re.take_list("mcp_servers") {
        if re.core.options.credentials == Credentials::Deliver {
            re.carry_quietly("mcp_servers", servers.clone().into());
        }
        let servers = servers.into_iter().filter_map(|server| decode_server(re.core, server)).collect();
        re.core.held_servers = servers;
    }
    re.ask(id, method::INITIALIZE, None);
}

fn decode_client_capabilities(core: &mut Core, capabilities: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "capabilities", capabilities);
    if let Some(files) = re.take("text_files") {
        re.set("fs", json!({ "readTextFile": files, "writeTextFile": files }));
    }
    re.keep(&["terminal"]);
    match re.take("experimental") {
        Some(Value::Object(more)) if !more.is_empty() => re.set("_meta", more),
        Some(other) => re.carry_quietly("experimental", other),
        None => {}
    }
    re.finish()
}

/// A server of `2025.1` as v1 knows it.
fn decode_server(core: &mut Core, server: Value) -> Option<Value> {
    let Value::Object(server) = server else {
        core.note(WrongShape, method::INITIALIZE, "mcp_servers", "an entry is not an object; left out");
        return None;
    };
    let name = text(&server, "name").unwrap_or("server").to_owned();
    let url = text(&server, "url").unwrap_or_default().to_owned();
    let pairs = credentials(core, server.get("credentials"));
    if let Some(path) = url.strip_prefix("stdio://") {
        return Some(json!({ "name": name, "command": path, "args": [], "env": pairs }));
    }
    let kind = if url.ends_with("/sse") { "sse" } else { "http" };
    Some(json!({ "type": kind, "name": name, "url": url, "headers": pairs }))
}

fn credentials(core: &mut Core, credentials: Option<&Value>) -> Vec<Value> {
    let Some(Value::Object(entries)) = credentials else { return Vec::new() };
    if entries.is_empty() {
        return Vec::new();
    }
    if core.options.credentials == Credentials::Withhold {
        core.note(Lossy, method::INITIALIZE, "mcp_servers.credentials", "withheld by the setting");
        return Vec::new();
    }
    let message = "v1 has no credentials; given as environment variables or headers";
    core.note(Lossy, method::INITIALIZE, "mcp_servers.credentials", message);
    let entry = |(name, value): (&String, &Value)| json!({ "name": name, "value": text_of(value) });
    entries.iter().map(entry).collect()
}

pub(super) fn encode_initialize(core: &mut Core, id: &Id, params: Map) -> Result<(), Refusal> {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "", params);
    shared::drop_version(&mut re, "2025.1 stands for version 1 alone");
    re.set_new("protocol_version", "2025.1");
    re.rename("clientInfo", "client_info");
    let capabilities = re.take_map("clientCapabilities").unwrap_or_default();
    let capabilities = encode_client_capabilities(re.core, capabilities);
    re.set("capabilities", capabilities);
    let dir = re.core.options.work_dir.clone();
    let message = "v1 names the directory when a session is made; the translator's own was given";
    re.invent("working_directory", dir, message);
    if re.restored("mcp_servers").is_none() {
        let servers = encode_servers(&re.core.options.mcp_servers)?;
        re.set("mcp_servers", servers);
    }
    let params = re.finish();
    core.held_dir = text(&params, "working_directory").map(str::to_owned);
    core.held_servers = params.get("mcp_servers").and_then(Value::as_array).cloned().unwrap_or_default();
    core.request(Wire::Foreign, id, method::INITIALIZE, params, OpenRequest::new(method::INITIALIZE, None));
    Ok(())
}

fn encode_client_capabilities(core: &mut Core, capabilities: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "clientCapabilities", capabilities);
    let fs = re.take_map("fs").unwrap_or_default();
    let can = |name: &str| fs.get(name).and_then(Value::as_bool).unwrap_or(false);
    let (read, write) = (can("readTextFile"), can("writeTextFile"));
    re.set_new("text_files", read && write);
    if read != write {
        re.carry("fs", fs.into(), Lossy, "2025.1 has one flag for reading and writing; it says no");
    }
    re.keep(&["terminal"]);
    if let Some(Value::Object(more)) = re.take("_meta") {
        re.set("experimental", more);
    }
    re.finish()
}

/// v1 servers as `2025.1` names them. One that it cannot name is refused: without it the agent would lack tools that its
/// client believes it has.
pub(super) fn encode_servers(servers: &[Value]) -> Result<Vec<Value>, Refusal> {
    servers.iter().map(encode_server).collect()
}

fn encode_server(server: &Value) -> Result<Value, Refusal> {
    let field = |name: &str| server.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_empty = |name: &str| server.get(name).and_then(Value::as_array).is_none_or(Vec::is_empty);
    let url = if field("url").is_empty() {
        format!("stdio://{}", field("command"))
    } else {
        field("url").to_owned()
    };
    if !is_empty("args") {
        let message = format!(
            "the MCP server {:?} cannot be used: 2025.1 has no arguments for one; name a program that needs none",
            field("name")
        );
        return Err(Refusal::new("mcpServers.args", error_code::INVALID_PARAMS, message));
    }
    let mut secrets = Map::new();
    for pair in
        ["env", "headers"].iter().filter_map(|name| server.get(name).and_then(Value::as_array)).flatten()
    {
        if let (Some(name), Some(value)) = (pair.get("name").and_then(Value::as_str), pair.get("value")) {
            secrets.insert(name.to_owned(), value.clone());
        }
    }
    Ok(json!({ "name": field("name"), "url": url, "credentials": secrets }))
}

pub(super) fn decode_initialized(core: &mut Core, id: &Id, result: Value) {
    let Some(mut re) = ObjectMapper::of_result(core, id, method::INITIALIZE, result) else { return };
    re.invent("protocolVersion", 1, "2025.1 answers without a version");
    let capabilities = re.take_map("capabilities").unwrap_or_default();
    let capabilities = decode_agent_capabilities(re.core, capabilities);
    re.set("agentCapabilities", capabilities);
    re.rename("agent_info", "agentInfo");
    let methods = match re.core.options.token {
        Some(_) => json!([{ "id": "token", "name": "Token" }]),
        None => json!([]),
    };
    re.set_new("authMethods", methods);
    re.answer(id);
}

fn decode_agent_capabilities(core: &mut Core, capabilities: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "result.capabilities", capabilities);
    let load = re.core.options.load_session;
    re.invent("loadSession", load, "2025.1 cannot say whether sessions can be loaded; set by the translator");
    if let Some(image) = re.take("image")
        && re.restored("promptCapabilities").is_none()
    {
        re.set("promptCapabilities", json!({ "image": image }));
    }
    if let Some(modes) = re.take_list("supported_modes") {
        re.core.held_modes = modes.iter().filter_map(|mode| mode.as_str().map(str::to_owned)).collect();
        re.carry("supported_modes", modes.into(), Carried, "v1 names modes when a session is made");
    }
    re.finish()
}

pub(super) fn encode_initialized(core: &mut Core, id: &Id, result: Value) {
    let Some(mut re) = ObjectMapper::of_result(core, id, method::INITIALIZE, result) else { return };
    shared::drop_version(&mut re, "2025.1 stands for version 1 alone");
    re.rename("agentInfo", "agent_info");
    let capabilities = re.take_map("agentCapabilities").unwrap_or_default();
    let capabilities = encode_agent_capabilities(re.core, capabilities);
    re.set("capabilities", capabilities);
    re.drop_if("authMethods", json!([]));
    re.answer(id);
}

fn encode_agent_capabilities(core: &mut Core, capabilities: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "result.agentCapabilities", capabilities);
    re.invent("streaming", true, "a v1 agent always streams");
    let message = "v1 does not say whether an agent makes sounds; audio means that it hears them";
    re.invent("audio", false, message);
    if let Some(prompt) = re.take_map("promptCapabilities") {
        if let Some(image) = prompt.get("image") {
            re.set("image", image.clone());
        }
        if prompt.len() > usize::from(prompt.contains_key("image")) {
            re.carry("promptCapabilities", prompt.into(), Carried, "2025.1 has a word for images only");
        }
    }
    if re.restored("supported_modes").is_none() {
        re.note(Lossy, "supported_modes", "v1 names modes when a session is made, which is later");
    }
    re.finish()
}

pub(super) fn decode_authenticate(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::AUTHENTICATE, "", params);
    re.rename("type", "methodId");
    if let Some(token) = re.take("token") {
        re.carry("token", token, Carried, "v1 has no field for a token; kept in _meta");
    }
    re.ask(id, method::AUTHENTICATE, None);
}

pub(super) fn encode_authenticate(core: &mut Core, id: &Id, params: Map) -> Result<(), Refusal> {
    let mut re = ObjectMapper::new(core, method::AUTHENTICATE, "", params);
    re.rename("methodId", "type");
    if re.restored("token").is_none() {
        let Some(token) = re.core.options.token.clone() else {
            let message = "a 2025.1 agent wants a token and none is set";
            return Err(Refusal::new("token", error_code::INVALID_PARAMS, message));
        };
        re.set("token", token);
        re.note(Invented, "token", "v1 has no field for a token; the one that was set was given");
    }
    re.ask(id, method::AUTHENTICATE, None);
    Ok(())
}

/// Content blocks of a list, one by one.
pub(super) fn recast_blocks(core: &mut Core, blocks: Vec<Value>) -> Vec<Value> {
    blocks.into_iter().map(|block| blocks::recast(core, method::SESSION_PROMPT, block)).collect()
}
