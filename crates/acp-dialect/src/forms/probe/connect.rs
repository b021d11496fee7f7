//! `initialize`.

use acp_proto::{error_code, method};
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use crate::core::{Core, Refusal, Wire};
use crate::json::{Map, put_meta, written};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Lossy, WrongShape};
use crate::shared;

pub(super) fn decode_initialize(core: &mut Core, id: &Id, params: Map) -> Result<(), Refusal> {
    let files = core.options.client_files;
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "", params);
    match re.take("protocolVersion") {
        Some(Value::String(version)) if version == "1" => {}
        Some(Value::Number(version)) if version.as_u64() == Some(1) => {
            re.note(WrongShape, "protocolVersion", "probe writes the version as the string \"1\"");
        }
        other => {
            let advice = match other.as_ref().and_then(Value::as_str) {
                Some("2025.1") => "; the form 2025.1 gives its version as \"protocol_version\"",
                _ => "",
            };
            let given = other.as_ref().map_or_else(|| "no version".to_owned(), written);
            let mut refusal = Refusal::new(
                "protocolVersion",
                error_code::INTERNAL_ERROR,
                format!("unsupported protocol version {given}; only \"1\" is spoken here{advice}"),
            );
            refusal.error.data = Some(json!({ "reason": "unsupported_protocol_version" }));
            return Err(refusal);
        }
    }
    re.set("protocolVersion", 1);
    let capabilities =
        if files { json!({ "fs": { "readTextFile": true, "writeTextFile": true } }) } else { json!({}) };
    re.set_new("clientCapabilities", capabilities);
    re.keep(&["clientInfo"]);
    re.ask(id, method::INITIALIZE, None);
    Ok(())
}

pub(super) fn encode_initialize(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "", params);
    shared::drop_version(&mut re, "probe has one version, \"1\"");
    re.set("protocolVersion", "1");
    re.drop_if("clientCapabilities", json!({}));
    re.ask(id, method::INITIALIZE, None);
}

pub(super) fn decode_initialized(core: &mut Core, id: &Id, result: Value) {
    let Some(mut re) = ObjectMapper::of_result(core, id, method::INITIALIZE, result) else { return };
    match re.take("protocolVersion") {
        Some(version) if version == "1" || version == 1 => {}
        Some(other) => re.carry("protocolVersion", other, Lossy, "an unknown version; taken as 1"),
        None => re.note(WrongShape, "protocolVersion", "the version is missing; taken as 1"),
    }
    re.set_new("protocolVersion", 1);
    let capabilities = re.take_map("capabilities").unwrap_or_default();
    let capabilities = decode_capabilities(re.core, capabilities);
    re.set("agentCapabilities", capabilities);
    re.rename("serverInfo", "agentInfo");
    re.set_new("authMethods", json!([]));
    re.answer(id);
}

fn decode_capabilities(core: &mut Core, capabilities: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "result.capabilities", capabilities);
    if let Some(managed) = re.take("sessionManagement") {
        let load = managed == Value::Bool(true);
        re.carry("sessionManagement", managed, Lossy, "taken to mean that sessions can be loaded");
        re.set_new("loadSession", load);
    }
    re.finish()
}

pub(super) fn encode_initialized(core: &mut Core, id: &Id, result: Value) {
    let Some(mut re) = ObjectMapper::of_result(core, id, method::INITIALIZE, result) else { return };
    shared::drop_version(&mut re, "probe has one version, \"1\"");
    re.set("protocolVersion", "1");
    re.rename("agentInfo", "serverInfo");
    let capabilities = re.take_map("agentCapabilities").unwrap_or_default();
    let capabilities = encode_capabilities(re.core, capabilities);
    re.set("capabilities", capabilities);
    re.drop_if("authMethods", json!([]));
    re.answer(id);
}

fn encode_capabilities(core: &mut Core, capabilities: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::INITIALIZE, "result.agentCapabilities", capabilities);
    re.invent("tools", json!([]), "v1 agents do not list their tools");
    let load = re.take("loadSession").unwrap_or(Value::Bool(false));
    re.set_new("sessionManagement", load);
    re.invent("streaming", true, "a v1 agent always streams");
    re.invent("permissions", false, "probe clients are never asked for permission");
    re.finish()
}

/// A version refused is no error in v1: the answer names the version that is spoken.
pub(super) fn version_refused(core: &mut Core, id: &Id, error: &RpcError) {
    let message = format!("v1 answers a version it does not speak with its own; the refusal was: {error}");
    core.note(Lossy, method::INITIALIZE, "error", message);
    let mut result = crate::json::object([("protocolVersion", 1.into()), ("agentCapabilities", json!({}))]);
    put_meta(&mut result, core.carry_key(), "error", json!({ "code": error.code, "message": error.message }));
    core.answer(Wire::Canonical, id, result);
}
