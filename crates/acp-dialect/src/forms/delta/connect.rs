//! `initialize` and `session/new`.

use acp_proto::method;
use acp_rpc::Id;
use serde_json::{Value, json};

use crate::core::Core;
use crate::json::Map;
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Invented, Lossy, Passed};
use crate::shared;

const VERSION: &str = "2025-01-01";

pub(super) fn decode_initialize(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "", params);
    decode_version(&mut re);
    re.keep(&["clientCapabilities"]);
    re.rename("capabilities", "clientCapabilities");
    if re.placed("clientCapabilities").is_none() {
        re.set("clientCapabilities", json!({}));
    }
    re.keep(&["clientInfo"]);
    re.ask(id, method::INITIALIZE, None);
}

/// The fixed table: one date, one version.
fn decode_version(re: &mut ObjectMapper<'_>) {
    match re.take("protocolVersion") {
        Some(version) if version == VERSION => {}
        Some(other) => {
            re.carry("protocolVersion", other, Lossy, "another version than 2025-01-01; taken as 1");
        }
        None => re.note(Invented, "protocolVersion", "no version given; taken as 1"),
    }
    re.set_new("protocolVersion", 1);
}

fn encode_version(re: &mut ObjectMapper<'_>) {
    shared::drop_version(re, "delta has one version, 2025-01-01");
    re.set_new("protocolVersion", VERSION);
}

pub(super) fn encode_initialize(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "", params);
    encode_version(&mut re);
    re.rename("clientCapabilities", "capabilities");
    re.keep(&["clientInfo"]);
    re.ask(id, method::INITIALIZE, None);
}

pub(super) fn decode_initialized(core: &mut Core, id: &Id, result: Value) {
    let Some(mut re) = ObjectMapper::of_result(core, id, method::INITIALIZE, result) else { return };
    decode_version(&mut re);
    re.keep(&["agentCapabilities", "agentInfo"]);
    re.rename("capabilities", "agentCapabilities");
    re.rename("serverInfo", "agentInfo");
    re.keep(&["authMethods"]);
    if re.placed("agentCapabilities").is_none() {
        re.set("agentCapabilities", json!({}));
    }
    re.answer(id);
}

pub(super) fn encode_initialized(core: &mut Core, id: &Id, result: Value) {
    let Some(mut re) = ObjectMapper::of_result(core, id, method::INITIALIZE, result) else { return };
    encode_version(&mut re);
    re.rename("agentCapabilities", "capabilities");
    re.rename("agentInfo", "serverInfo");
    match re.take("authMethods") {
        Some(methods) if methods.as_array().is_none_or(|methods| !methods.is_empty()) => {
            re.note(Passed, "authMethods", "delta does not name it; passed unchanged");
            re.set("authMethods", methods);
        }
        _ => {}
    }
    re.answer(id);
}

pub(super) fn decode_new(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_NEW, "", params);
    place(&mut re);
    re.ask(id, method::SESSION_NEW, None);
}

/// `workDir` and the servers, with what is missing made up.
pub(super) fn place(re: &mut ObjectMapper<'_>) {
    re.keep(&["cwd"]);
    re.rename("workDir", "cwd");
    let dir = re.core.work_dir();
    re.invent("cwd", dir, "no workDir given; the translator's own was taken");
    let mut servers = re.take_list("mcpServers").unwrap_or_default();
    servers.extend(re.core.options.mcp_servers.iter().cloned());
    re.set("mcpServers", servers);
}

pub(super) fn encode_new(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_NEW, "", params);
    displace(&mut re);
    re.ask(id, method::SESSION_NEW, None);
}

pub(super) fn displace(re: &mut ObjectMapper<'_>) {
    re.rename("cwd", "workDir");
    if let Some(servers) = re.take("mcpServers")
        && servers.as_array().is_none_or(|servers| !servers.is_empty())
    {
        re.set("mcpServers", servers);
    }
}
