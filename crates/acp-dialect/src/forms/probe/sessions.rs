//! `newSession`, `loadSession`, `setSessionMode`.

use acp_proto::{method, update};
use acp_rpc::Id;
use serde_json::{Value, json};

use crate::core::{Core, OpenRequest, Refusal, Wire};
use crate::json::{Map, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Lossy, WrongShape};
use crate::shared;

const NEW: &str = "newSession";
const LOAD: &str = "loadSession";
const MODE: &str = "setSessionMode";
const MODES: [&str; 2] = ["NORMAL", "PLANNING"];

pub(super) fn decode_new(core: &mut Core, id: &Id, params: Map) -> Result<(), Refusal> {
    let mut re = ObjectMapper::new(core, NEW, "", params);
    let chosen = re.take_text("sessionId");
    let mode = re.take_text("mode");
    if let Some(chosen) = &chosen
        && (re.core.knows(chosen) || re.core.canonical_id(chosen) != chosen)
    {
        return Err(Refusal::taken("sessionId", chosen));
    }
    place(&mut re);
    re.ask_new(id, "sessionId", chosen, mode);
    Ok(())
}

fn place(re: &mut ObjectMapper<'_>) {
    let dir = re.core.work_dir();
    re.invent("cwd", dir, "probe names the directory at start; the translator's own was taken");
    if re.restored("mcpServers").is_none() {
        let servers = re.core.options.mcp_servers.clone();
        re.set("mcpServers", servers);
    }
}

pub(crate) fn encode_made(core: &mut Core, id: &Id, result: Map) {
    let mut re = ObjectMapper::new(core, NEW, "result", result);
    let canonical = re.session("sessionId", "sessionId");
    if let Some(canonical) = &canonical
        && re.placed("sessionId").and_then(Value::as_str) != Some(canonical)
    {
        re.carry_quietly("sessionId", canonical.clone().into());
    }
    let mode = canonical.and_then(|canonical| re.core.session(&canonical).mode.clone());
    place_mode(&mut re, mode);
    if let Some(now) = re.core.wall_clock.clone() {
        re.invent("createdAt", now, "v1 gives no time; the translator's clock was taken");
    }
    re.answer(id);
}

fn place_mode(re: &mut ObjectMapper<'_>, mode: Option<String>) {
    match mode {
        Some(mode) => re.set("mode", probe_mode(&mode)),
        None => re.invent("mode", MODES[0], "the agent has no modes"),
    }
}

/// NORMAL and PLANNING in the form's own spelling; other modes as they are.
pub(super) fn probe_mode(mode: &str) -> String {
    MODES
        .iter()
        .find(|known| known.eq_ignore_ascii_case(mode))
        .map_or_else(|| mode.to_owned(), |known| (*known).to_owned())
}

pub(super) fn encode_new(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, NEW, "", params);
    displace(&mut re);
    re.ask_as(id, NEW, OpenRequest::new(method::SESSION_NEW, None));
}

/// probe knows one directory, given at its start, and no MCP servers.
fn displace(re: &mut ObjectMapper<'_>) {
    if let Some(cwd) = re.take("cwd")
        && cwd.as_str() != Some(&re.core.options.work_dir)
    {
        re.carry("cwd", cwd, Lossy, "probe takes its directory at start; kept in _meta");
    }
    if let Some(servers) = re.take("mcpServers")
        && servers.as_array().is_none_or(|servers| !servers.is_empty())
    {
        re.carry("mcpServers", servers, Lossy, "probe takes no MCP servers from its client; kept in _meta");
    }
}

pub(super) fn decode_made(core: &mut Core, id: &Id, result: Value) {
    let Value::Object(result) = result else {
        return shared::wrong_answer(core, id, NEW, "it is not an object", result);
    };
    let Some(named) = text(&result, "sessionId").map(str::to_owned) else {
        return shared::wrong_answer(core, id, NEW, "sessionId is missing", Value::Object(result));
    };
    let mut re = ObjectMapper::new(core, NEW, "result", result);
    re.take("sessionId");
    let canonical = match re.take_restored("sessionId") {
        Some(Value::String(canonical)) => canonical,
        _ => named.clone(),
    };
    re.core.pair_ids(&named, &canonical);
    shared::note_second_session(re.core, &canonical);
    re.set("sessionId", canonical.clone());
    recast_mode(&mut re);
    let result = re.finish();
    shared::remember_modes(core, &canonical, &result);
    core.answer(Wire::Canonical, id, result);
}

/// `mode` as the modes of a v1 session.
fn recast_mode(re: &mut ObjectMapper<'_>) {
    let Some(mode) = re.take_text("mode") else { return };
    if re.restored("modes").is_some() {
        return;
    }
    let mut names: Vec<String> = MODES.iter().map(|name| (*name).to_owned()).collect();
    if mode.chars().any(char::is_lowercase) {
        names.iter_mut().for_each(|name| name.make_ascii_lowercase());
    }
    if !names.contains(&mode) {
        names.push(mode.clone());
    }
    re.set("modes", shared::modes_from(&names, &mode));
}

pub(super) fn decode_load(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, LOAD, "", params);
    let session = re.session("sessionId", "sessionId");
    place(&mut re);
    re.ask_load(id, session, true);
}

pub(super) fn encode_load(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, LOAD, "", params);
    let session = re.session("sessionId", "sessionId");
    displace(&mut re);
    re.ask_as(id, LOAD, OpenRequest::new(method::SESSION_LOAD, session));
}

/// The replay that came before this answer becomes `history`.
pub(super) fn encode_loaded(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let session = asked.session.clone().unwrap_or_default();
    let result = result.as_object().cloned().unwrap_or_default();
    shared::remember_modes(core, &session, &result);
    let replay = core.session(&session).replay.take().unwrap_or_default();
    shared::note_truncated(core, LOAD, &replay);
    let foreign = core.foreign_id(&session).to_owned();
    let mode = core.session(&session).mode.clone();
    let mut re = ObjectMapper::new(core, LOAD, "result", result);
    re.set("sessionId", foreign);
    place_mode(&mut re, mode);
    let role = |by_user: bool| if by_user { "user" } else { "assistant" };
    let history: Vec<Value> = replay
        .messages
        .iter()
        .map(|said| json!({ "role": role(said.by_user), "content": said.text }))
        .collect();
    re.set("history", history);
    if !replay.others.is_empty() {
        let message = "probe history is text; the other updates are in _meta";
        re.carry("updates", replay.others.into(), Lossy, message);
    }
    re.answer(id);
}

/// `history` becomes a replay, and then the answer.
pub(super) fn decode_loaded(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let Value::Object(result) = result else {
        return shared::wrong_answer(core, id, LOAD, "it is not an object", result);
    };
    let session = asked.session.clone().unwrap_or_default();
    let mut re = ObjectMapper::new(core, LOAD, "result", result);
    re.take("sessionId");
    let history = re.take_list("history");
    if history.is_none() {
        re.note(Lossy, "history", "the agent gave no history; nothing is replayed");
    }
    let updates = re.take_restored("updates");
    recast_mode(&mut re);
    let result = re.finish();
    for said in history.into_iter().flatten() {
        replay_message(core, &session, said);
    }
    for update in updates.as_ref().and_then(Value::as_array).into_iter().flatten() {
        if let Value::Object(update) = update {
            shared::tell_update(core, &session, update.clone());
        }
    }
    shared::remember_modes(core, &session, &result);
    core.answer(Wire::Canonical, id, result);
}

fn replay_message(core: &mut Core, session: &str, said: Value) {
    let (role, content) =
        (said.get("role").and_then(Value::as_str), said.get("content").and_then(Value::as_str));
    let (Some(role), Some(content)) = (role, content) else {
        core.note(WrongShape, LOAD, "result.history", "an entry has no role or no text; left out");
        return;
    };
    let kind = match role {
        "user" => update::USER_MESSAGE_CHUNK,
        "assistant" => update::AGENT_MESSAGE_CHUNK,
        other => {
            let message = format!("v1 has no role {other:?}; replayed as the agent's");
            core.note(Lossy, LOAD, "result.history.role", message);
            update::AGENT_MESSAGE_CHUNK
        }
    };
    shared::tell_text(core, session, kind, content);
}

/// The choice of a mode in either direction.
pub(super) fn mode(core: &mut Core, id: &Id, params: Map) {
    let decoding = core.is_decoding();
    let (from, to) = if decoding { ("mode", "modeId") } else { ("modeId", "mode") };
    let mut re = ObjectMapper::new(core, MODE, "", params);
    let session = re.session("sessionId", "sessionId");
    if let Some(mode) = re.take_text(from) {
        let spelled = session.as_deref().map(|session| re.core.session(session).spelled(&mode));
        re.set(to, spelled.unwrap_or(mode));
    }
    let name = if decoding { method::SESSION_SET_MODE } else { MODE };
    re.ask_as(id, name, OpenRequest::new(method::SESSION_SET_MODE, session));
}

pub(super) fn encode_mode_set(core: &mut Core, id: &Id, asked: OpenRequest, result: Value) {
    if let Some((reply_to, result)) = shared::mode_after_new(core, asked, None) {
        return encode_made(core, &reply_to, result);
    }
    let mut re = ObjectMapper::new(core, MODE, "result", result.as_object().cloned().unwrap_or_default());
    re.set("success", true);
    re.answer(id);
}

pub(super) fn decode_mode_set(core: &mut Core, id: &Id, result: Value) {
    let mut re = ObjectMapper::new(core, MODE, "result", result.as_object().cloned().unwrap_or_default());
    re.drop_if("success", true);
    re.answer(id);
}
