//! `session/new`, `session/load`, `session/prompt`.

use acp_proto::{error_code, method, stop_reason};
use acp_rpc::Id;
use serde_json::{Value, json};

use super::connect::{encode_servers, recast_blocks};
use super::ok;
use crate::core::{Core, OnAnswer, OpenRequest, Refusal, Wire};
use crate::json::{Map, put_meta, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Carried, Invented, Lossy, WrongShape};
use crate::options::START_KEY;
use crate::shared;

pub(super) fn decode_new(core: &mut Core, id: &Id, params: Map) -> Result<(), Refusal> {
    let mut re = ObjectMapper::new(core, method::SESSION_NEW, "", params);
    let chosen = re.take_text("session_id");
    if chosen.is_none() {
        re.note(WrongShape, "session_id", "the client must choose a session id; the agent's will be used");
    }
    let mode = re.take_text("mode");
    if let Some(chosen) = &chosen
        && is_taken(re.core, chosen)
    {
        return Err(Refusal::taken("session_id", chosen));
    }
    place_session(&mut re);
    re.ask_new(id, "session_id", chosen, mode);
    Ok(())
}

fn is_taken(core: &Core, chosen: &str) -> bool {
    let asked = |asked: &OpenRequest| matches!(&asked.job, OnAnswer::New { chosen: Some(other), .. } if other == chosen);
    core.canonical_id(chosen) != chosen || core.knows(chosen) || core.by_foreign.values().any(asked)
}

/// The directory and the servers that were given at initialize.
fn place_session(re: &mut ObjectMapper<'_>) {
    if re.core.held_dir.is_none() {
        re.note(Invented, "cwd", "initialize named no working_directory; the translator's own was taken");
    }
    let dir = re.core.work_dir();
    re.set("cwd", dir);
    let servers: Vec<Value> =
        re.core.held_servers.iter().chain(&re.core.options.mcp_servers).cloned().collect();
    re.set("mcpServers", servers);
}

/// The reverse: `2025.1` took both at initialize, so a session cannot have its own unless an agent is started for it.
fn displace_session(re: &mut ObjectMapper<'_>) -> Result<(), Refusal> {
    let cwd = re.take("cwd");
    let servers = re.take_list("mcpServers").unwrap_or_default();
    if re.core.options.per_folder {
        let servers = encode_servers(&servers)?;
        let dir = cwd.unwrap_or_else(|| re.core.work_dir().into());
        re.set("_meta", json!({ START_KEY: { "working_directory": dir, "mcp_servers": servers } }));
        return Ok(());
    }
    if let Some(cwd) = cwd
        && cwd.as_str() != re.core.held_dir.as_deref()
    {
        let message = "2025.1 has one directory for all sessions, named at initialize";
        re.carry("cwd", cwd, Lossy, message);
    }
    let told = re.core.held_servers.clone();
    let same = |a: &Value, b: &Value| a["name"] == b["name"] && a["url"] == b["url"];
    for server in encode_servers(&servers)? {
        if !told.iter().any(|known| same(known, &server)) {
            let message = format!(
                "the MCP server {} cannot be used: 2025.1 names MCP servers at initialize, which is over",
                server["name"]
            );
            return Err(Refusal::new("mcpServers", error_code::INVALID_PARAMS, message));
        }
    }
    Ok(())
}

pub(crate) fn encode_made(core: &mut Core, id: &Id, result: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_NEW, "result", result);
    let session = re.session("sessionId", "session_id");
    if let Some(canonical) = session
        && re.placed("session_id").and_then(Value::as_str) != Some(&canonical)
    {
        re.carry_quietly("sessionId", canonical.into());
    }
    re.set("status", "ok");
    re.answer(id);
}

/// The mode that a client asked for with `session/new` is set; now its answer can go.
pub(super) fn mode_set(core: &mut Core, asked: OpenRequest) {
    if let Some((reply_to, result)) = shared::mode_after_new(core, asked, None) {
        encode_made(core, &reply_to, result);
    }
}

pub(super) fn encode_new(core: &mut Core, id: &Id, params: Map) -> Result<(), Refusal> {
    let prefix = core.options.session_prefix.clone();
    let mut re = ObjectMapper::new(core, method::SESSION_NEW, "", params);
    let chosen = match re.take_restored("session_id") {
        Some(Value::String(chosen)) => chosen,
        _ => {
            re.note(Invented, "session_id", "2025.1 wants the client to choose the id");
            re.core.invent_name(&prefix)
        }
    };
    re.set("session_id", chosen.clone());
    if let Some(first) = re.core.held_modes.first().cloned() {
        re.invent("mode", first, "v1 chooses the mode later; the first one was taken");
    }
    displace_session(&mut re)?;
    let params = re.finish();
    let mode = text(&params, "mode").map(str::to_owned);
    let job = OnAnswer::New { chosen: Some(chosen), mode };
    core.request(
        Wire::Foreign,
        id,
        method::SESSION_NEW,
        params,
        OpenRequest::new(method::SESSION_NEW, None).with(job),
    );
    Ok(())
}

pub(super) fn decode_made(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let OnAnswer::New { chosen, mode } = &asked.job else { return };
    let result = without_status(core, method::SESSION_NEW, result);
    let mut re = ObjectMapper::new(core, method::SESSION_NEW, "result", result);
    let named = re.take_text("session_id").or_else(|| chosen.clone()).unwrap_or_default();
    let canonical = match re.take_restored("sessionId") {
        Some(Value::String(canonical)) => canonical,
        _ => named.clone(),
    };
    re.core.pair_ids(&named, &canonical);
    shared::note_second_session(re.core, &canonical);
    re.set("sessionId", canonical.clone());
    place_modes(&mut re, mode.as_deref());
    let result = re.finish();
    shared::remember_modes(core, &canonical, &result);
    core.answer(Wire::Canonical, id, result);
}

fn place_modes(re: &mut ObjectMapper<'_>, current: Option<&str>) {
    let modes = re.core.held_modes.clone();
    let Some(first) = modes.first() else { return };
    let current = current.unwrap_or(first);
    let message = "made from the modes that were named at initialize";
    re.invent("modes", shared::modes_from(&modes, current), message);
}

pub(super) fn decode_load(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_LOAD, "", params);
    let session = re.session("session_id", "sessionId");
    place_session(&mut re);
    re.ask_load(id, session, false);
}

pub(super) fn encode_load(core: &mut Core, id: &Id, params: Map) -> Result<(), Refusal> {
    let mut re = ObjectMapper::new(core, method::SESSION_LOAD, "", params);
    let session = re.session("sessionId", "session_id");
    displace_session(&mut re)?;
    re.ask_load(id, session, false);
    Ok(())
}

pub(super) fn encode_loaded(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    if let (Some(session), Some(result)) = (asked.session.as_deref(), result.as_object()) {
        shared::remember_modes(core, session, result);
    }
    let result = status_ok(core, method::SESSION_LOAD, result);
    core.answer(Wire::Foreign, id, result);
}

pub(super) fn decode_loaded(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let result = without_status(core, method::SESSION_LOAD, result);
    let mut re = ObjectMapper::new(core, method::SESSION_LOAD, "result", result);
    re.take("session_id");
    place_modes(&mut re, None);
    let result = re.finish();
    if let Some(session) = &asked.session {
        shared::remember_modes(core, session, &result);
    }
    core.answer(Wire::Canonical, id, result);
}

/// A prompt in either direction.
pub(super) fn prompt(core: &mut Core, id: &Id, params: Map) {
    let snake = ("session_id", "content");
    let camel = ("sessionId", "prompt");
    let (from, to) = if core.is_decoding() { (snake, camel) } else { (camel, snake) };
    let mut re = ObjectMapper::new(core, method::SESSION_PROMPT, "", params);
    let session = re.session(from.0, to.0);
    if let Some(blocks) = re.take_list(from.1) {
        let blocks = recast_blocks(re.core, blocks);
        re.set(to.1, blocks);
    }
    re.begin_turn(id, session.as_deref());
    re.ask(id, method::SESSION_PROMPT, session);
}

pub(super) fn encode_prompted(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    if let Some(session) = asked.session.as_deref() {
        shared::end_turn(core, session, id);
    }
    let Value::Object(mut result) = result else {
        return shared::wrong_answer(core, id, method::SESSION_PROMPT, "it is not an object", result);
    };
    let reason = shared::stop_reason(core, method::SESSION_PROMPT, &result);
    result.shift_remove("stopReason");
    let mut re = ObjectMapper::new(core, method::SESSION_PROMPT, "result", result);
    re.set_new("status", "ok");
    if reason != stop_reason::END_TURN {
        re.carry_quietly("stopReason", reason.into());
    }
    re.answer(id);
}

pub(super) fn decode_prompted(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let turn =
        asked.session.as_deref().map(|session| shared::end_turn(core, session, id)).unwrap_or_default();
    let Some(mut re) = ObjectMapper::of_result(core, id, method::SESSION_PROMPT, result) else { return };
    let status = re.take("status");
    let word = status.as_ref().and_then(Value::as_str).unwrap_or_default();
    let cancelled = turn.cancelled || matches!(word, stop_reason::CANCELLED | "canceled");
    match status {
        Some(status) if status != "ok" => {
            re.carry("status", status, Carried, "2025.1 knows no status but ok; kept in _meta");
        }
        Some(_) => {}
        None => re.note(WrongShape, "status", "the status is missing"),
    }
    let reason = if cancelled { stop_reason::CANCELLED } else { stop_reason::END_TURN };
    re.invent("stopReason", reason, "2025.1 has no stop reasons");
    re.answer(id);
}

/// An empty v1 answer as `2025.1` writes one; what it held besides is carried.
pub(super) fn status_ok(core: &mut Core, method: &'static str, result: Value) -> Value {
    let Value::Object(result) = result else { return ok() };
    let mut re = ObjectMapper::new(core, method, "result", result);
    re.set("status", "ok");
    Value::Object(re.finish())
}

/// The reverse: `status: ok` says nothing in v1.
pub(super) fn without_status(core: &mut Core, method: &'static str, result: Value) -> Map {
    match result {
        Value::Object(mut result) => {
            if text(&result, "status") == Some("ok") {
                result.shift_remove("status");
            }
            result
        }
        Value::Null => Map::new(),
        other => {
            core.note(WrongShape, method, "result", "it is not an object; taken as empty");
            let mut empty = Map::new();
            put_meta(&mut empty, core.carry_key(), "result", json!(other));
            empty
        }
    }
}
