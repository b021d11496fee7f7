//! `messageChunk`, `toolCallProgress`, `sessionUpdated`.

use acp_proto::{method, tool_status, update};
use acp_rpc::{Frame, View};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::sessions::probe_mode;
use crate::chunk::{Chunk, ChunkForm, ChunkKind};
use crate::core::{Core, Wire};
use crate::json::{Map, object, put_meta, text, text_of};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Carried, Invented, Lossy, Passed, WrongShape};
use crate::shared;

const CHUNK: &str = "messageChunk";
const PROGRESS: &str = "toolCallProgress";
const UPDATED: &str = "sessionUpdated";
/// Marks the second half of a `sessionUpdated` that became two updates.
const TOLD: &str = "toldWithMode";

/// Streamed text in this form.
pub(super) static CHUNKS: ChunkForm = ChunkForm {
    method: CHUNK,
    head: r#"{"jsonrpc":"2.0","method":"messageChunk","params":{"sessionId":"#,
    between: &[(ChunkKind::Agent, r#","chunk":"#)],
    tail: "}}",
    read: read_chunk,
    sent: &[ChunkKind::Agent],
    counted: Some(r#"}},"_meta":{"acp-dialect/probe":{"index":"#),
    repeated: true,
    canonical: false,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeChunk<'a> {
    #[serde(rename = "sessionId", borrow)]
    session_id: &'a RawValue,
    #[serde(borrow)]
    chunk: &'a RawValue,
    #[serde(default, borrow)]
    index: Option<&'a RawValue>,
}

fn read_chunk(params: &str) -> Option<Chunk<'_>> {
    let chunk: ProbeChunk<'_> = serde_json::from_str(params).ok()?;
    let index = chunk.index.map(RawValue::get);
    let whole = |index: &str| index.bytes().all(|byte| byte.is_ascii_digit());
    let read = Chunk::new(chunk.session_id.get(), ChunkKind::Agent, chunk.chunk.get(), index);
    read.filter(|_| index.is_none_or(whole))
}

pub(super) fn decode_chunk(core: &mut Core, params: Map) {
    let mut re = ObjectMapper::new(core, CHUNK, "", params);
    let session = re.session("sessionId", "sessionId");
    let said = re.take("chunk").unwrap_or_default();
    if let (Some(session), Some(said)) = (session.as_deref(), said.as_str()) {
        let limit = re.core.options.reply_limit;
        re.core.session(session).said(said, limit);
    }
    if let Some(index) = re.take("index") {
        re.carry_quietly("index", index);
    }
    let content = re.take_restored("content").unwrap_or_else(|| json!({ "type": "text", "text": said }));
    let mut update = object([("sessionUpdate", update::AGENT_MESSAGE_CHUNK.into()), ("content", content)]);
    if let Some(id) = re.take_restored("messageId") {
        update.insert("messageId".to_owned(), id);
    }
    re.set("update", update);
    re.tell(method::SESSION_UPDATE);
}

/// The nested form and the flat one that is seen in practice.
pub(super) fn decode_progress(core: &mut Core, params: Map) {
    let mut re = ObjectMapper::new(core, PROGRESS, "", params);
    let session = re.session("sessionId", "sessionId").unwrap_or_default();
    let call = match re.take_map("toolCall") {
        Some(call) => call,
        None => {
            let mut flat = Map::new();
            for (from, to) in [
                ("toolCallId", "id"),
                ("name", "name"),
                ("kind", "kind"),
                ("status", "status"),
                ("result", "result"),
                ("error", "error"),
                ("startTime", "startTime"),
            ] {
                if let Some(value) = re.take(from) {
                    flat.insert(to.to_owned(), value);
                }
            }
            re.note(WrongShape, "toolCall", "the flat form of toolCallProgress; read as the nested one");
            flat
        }
    };
    let update = decode_call(re.core, &session, call);
    shared::observe(re.core, &session, &update);
    re.set("update", update);
    re.tell(method::SESSION_UPDATE);
}

fn decode_call(core: &mut Core, session: &str, call: Map) -> Map {
    let id = text(&call, "id").unwrap_or_default().to_owned();
    let known = core.session(session).tools.contains_key(&id);
    let mut re = ObjectMapper::new(core, PROGRESS, "toolCall", call);
    re.set("sessionUpdate", if known { update::TOOL_CALL_UPDATE } else { update::TOOL_CALL });
    re.rename("id", "toolCallId");
    let name = re.take("name");
    if !known {
        let title = name.clone().unwrap_or_else(|| id.clone().into());
        re.invent("title", title, "v1 needs a title; the tool's name was taken");
    }
    if let Some(name) = name {
        re.set("name", name);
    }
    if let Some(kind) = re.take("kind") {
        let now = decode_kind(&kind);
        if now != kind {
            re.carry("kind", kind, Lossy, "v1 has other kinds of tools; the original is kept in _meta");
        }
        re.set_new("kind", now);
    }
    re.keep(&["status"]);
    if let Some(start) = re.take("startTime") {
        re.carry("startTime", start, Carried, "v1 gives no times with tool calls; kept in _meta");
    }
    decode_outcome(&mut re);
    re.finish()
}

/// `result` and `error` of the flat form.
fn decode_outcome(re: &mut ObjectMapper<'_>) {
    let result = re.take("result");
    let error = re.take("error");
    let shown = error.as_ref().or(result.as_ref()).map(text_of);
    if let Some(shown) = shown
        && re.restored("content").is_none()
    {
        re.set("content", json!([{ "type": "content", "content": { "type": "text", "text": shown } }]));
    }
    if let Some(result) = result {
        re.set("rawOutput", result);
    }
    if let Some(error) = error {
        re.carry_quietly("error", error);
    }
}

fn decode_kind(kind: &Value) -> Value {
    match kind.as_str() {
        Some("query") => "search".into(),
        Some("extract") => "read".into(),
        Some(
            "read" | "edit" | "delete" | "move" | "search" | "execute" | "think" | "fetch" | "switch_mode"
            | "other",
        ) => kind.clone(),
        _ => "other".into(),
    }
}

/// One notification of probe may be two updates of v1: the mode, and the time.
pub(super) fn decode_updated(core: &mut Core, params: Map) {
    let mut re = ObjectMapper::new(core, UPDATED, "", params);
    let session = re.session("sessionId", "sessionId").unwrap_or_default();
    let mode = re.take_text("mode");
    let at = re.take("updatedAt");
    let whole = re.take_restored("update");
    let rest = re.finish();
    if let Some(Value::Object(update)) = whole {
        return shared::tell_update(core, &session, update);
    }
    let key = core.carry_key();
    let both = mode.is_some() && at.is_some();
    if let Some(mode) = mode {
        let mut update =
            object([("sessionUpdate", update::CURRENT_MODE_UPDATE.into()), ("currentModeId", mode.into())]);
        if let Some(at) = &at {
            put_meta(&mut update, key, "updatedAt", at.clone());
        }
        shared::tell_update(core, &session, update);
    }
    let mut info = object([("sessionUpdate", update::SESSION_INFO_UPDATE.into())]);
    if let Some(meta) = rest.get("_meta") {
        info.insert("_meta".to_owned(), meta.clone());
    }
    if let Some(at) = at {
        info.insert("updatedAt".to_owned(), at);
    }
    if info.len() > 1 {
        if both {
            put_meta(&mut info, key, TOLD, true.into());
        }
        shared::tell_update(core, &session, info);
    }
}

/// Names that the form declares without saying their shape.
pub(super) fn decode_declared(core: &mut Core, method: &str, kind: &str, mut params: Map) {
    let message = "declared by the form without a shape; its fields are passed as v1's";
    core.note(Passed, method.to_owned(), "", message);
    let session = match params.shift_remove("sessionId") {
        Some(Value::String(session)) => core.canonical_id(&session).to_owned(),
        _ => core.likely_session().unwrap_or_default().to_owned(),
    };
    params.insert("sessionUpdate".to_owned(), kind.into());
    shared::tell_update(core, &session, params);
}

pub(super) fn encode(core: &mut Core, mut params: Map) {
    let update = match params.shift_remove("update") {
        Some(Value::Object(update)) => update,
        other => {
            let message = "it is missing or not an object; kept in _meta";
            core.note(WrongShape, method::SESSION_UPDATE, "update", message);
            object([("_meta", json!({ "update": other }))])
        }
    };
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "", params);
    let session = re.session("sessionId", "sessionId").unwrap_or_default();
    let mut envelope = re.finish();
    shared::observe(core, &session, &update);
    let kind = text(&update, "sessionUpdate").unwrap_or_default().to_owned();
    if core.session(&session).replay.is_some() {
        return collect(core, &session, &kind, update);
    }
    let mark = || update.get("_meta")?.get(core.target_key())?.get(TOLD);
    if mark().is_some() {
        return;
    }
    let method = match kind.as_str() {
        update::AGENT_MESSAGE_CHUNK => encode_chunk(core, &session, update, &mut envelope),
        update::TOOL_CALL | update::TOOL_CALL_UPDATE => encode_call(core, &session, update, &mut envelope),
        update::CURRENT_MODE_UPDATE => encode_mode(core, update, &mut envelope),
        update::SESSION_INFO_UPDATE => encode_info(core, update, &mut envelope),
        _ => {
            let message =
                format!("probe has no update like {kind}; it travels in the _meta of sessionUpdated");
            core.note(Carried, method::SESSION_UPDATE, "update.sessionUpdate", message);
            put_meta(&mut envelope, shared::V1_KEY, "update", update.into());
            UPDATED
        }
    };
    core.tell(Wire::Foreign, method, envelope);
}

/// An update of a replay, kept for the answer to `loadSession`.
fn collect(core: &mut Core, session: &str, kind: &str, update: Map) {
    let said = update.get("content").map(shared::flatten);
    let Some(replay) = core.session(session).replay.as_mut() else { return };
    match (kind, said) {
        (update::USER_MESSAGE_CHUNK | update::AGENT_MESSAGE_CHUNK, Some((said, whole))) => {
            replay.say(kind == update::USER_MESSAGE_CHUNK, &said, text(&update, "messageId"));
            if !whole {
                replay.keep(update.into());
            }
        }
        _ => replay.keep(update.into()),
    }
}

fn encode_chunk(core: &mut Core, session: &str, mut update: Map, envelope: &mut Map) -> &'static str {
    let content = update.shift_remove("content").unwrap_or_default();
    let (said, whole) = shared::flatten(&content);
    let limit = core.options.reply_limit;
    let state = core.session(session);
    state.said(&said, limit);
    let index = state.index;
    state.index += 1;
    envelope.insert("chunk".to_owned(), said.into());
    if !envelope.contains_key("index") {
        envelope.insert("index".to_owned(), index.into());
    }
    if !whole {
        core.note(Lossy, CHUNK, "update.content", "probe streams text only; the block is kept in _meta");
        put_meta(envelope, shared::V1_KEY, "content", content);
    }
    carry_rest(core, CHUNK, update, envelope);
    CHUNK
}

fn encode_call(core: &mut Core, session: &str, update: Map, envelope: &mut Map) -> &'static str {
    let known = text(&update, "toolCallId")
        .and_then(|id| core.session(session).tools.get(id))
        .cloned()
        .unwrap_or_default();
    let mut re = ObjectMapper::new(core, PROGRESS, "update", update);
    re.take("sessionUpdate");
    re.rename("toolCallId", "id");
    let title = re.take("title");
    // The name that was given first stays.
    let name = re.take("name").or_else(|| (!known.tool.is_empty()).then(|| known.tool.clone().into()));
    match name {
        Some(name) => {
            if let Some(title) = title.filter(|title| *title != name) {
                re.carry("title", title, Carried, "probe has a name but no title; kept in _meta");
            }
            re.set("name", name);
        }
        None => {
            let name = title.unwrap_or_else(|| known.name.clone().into());
            re.set("name", name);
        }
    }
    let kind = re
        .take("kind")
        .unwrap_or_else(|| if known.kind.is_empty() { "other".into() } else { known.kind.clone().into() });
    re.set_new("kind", kind);
    re.keep(&["status"]);
    if re.placed("status").is_none() {
        re.set("status", known.status);
    }
    let call = re.finish();
    envelope.insert("toolCall".to_owned(), call.into());
    PROGRESS
}

fn encode_mode(core: &mut Core, mut update: Map, envelope: &mut Map) -> &'static str {
    if let Some(Value::String(mode)) = update.shift_remove("currentModeId") {
        envelope.insert("mode".to_owned(), probe_mode(&mode).into());
    }
    if let Some(now) = core.wall_clock.clone() {
        core.note(Invented, UPDATED, "updatedAt", "v1 gives no time; the translator's clock was taken");
        envelope.insert("updatedAt".to_owned(), now.into());
    }
    carry_rest(core, UPDATED, update, envelope);
    UPDATED
}

fn encode_info(core: &mut Core, mut update: Map, envelope: &mut Map) -> &'static str {
    if let Some(at) = update.get("updatedAt").cloned() {
        envelope.insert("updatedAt".to_owned(), at);
    }
    if update.keys().any(|name| !matches!(name.as_str(), "sessionUpdate" | "updatedAt" | "_meta")) {
        core.note(Carried, UPDATED, "update", "probe has the time only; the rest is kept in _meta");
        put_meta(envelope, shared::V1_KEY, "update", update.clone().into());
    }
    update.retain(|name, _| name == "_meta");
    carry_rest(core, UPDATED, update, envelope);
    UPDATED
}

/// What is left of an update, in the envelope's `_meta`.
fn carry_rest(core: &mut Core, method: &'static str, update: Map, envelope: &mut Map) {
    let mut update = update;
    update.shift_remove("sessionUpdate");
    for (name, value) in crate::json::take_meta(&mut update, core.target_key()) {
        envelope.insert(name, value);
    }
    for (name, value) in update {
        if name == "_meta" {
            let meta = envelope.entry("_meta").or_insert_with(|| json!({}));
            if let (Some(meta), Value::Object(more)) = (meta.as_object_mut(), value) {
                meta.extend(more);
            }
            continue;
        }
        core.note(Carried, method, format!("update.{name}"), "probe has no field for it; kept in _meta");
        put_meta(envelope, shared::V1_KEY, &name, value);
    }
}

/// A notification with what an agent of this form says beyond v1: the kind of a tool by its name, and when a call began.
/// An update without a counterpart is left out, because a client of this form does not look into `_meta`.
pub(super) fn complete(core: &mut Core, frame: Frame, unix_millis: u64) -> Option<Frame> {
    let View::Notification { method, params: Some(params) } = frame.view() else { return Some(frame) };
    match method {
        PROGRESS => {
            let mut params: Value = serde_json::from_str(params).ok()?;
            let call = &mut params["toolCall"];
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            if let Some("search" | "query" | "extract") = call["name"].as_str() {
                call["kind"] = call["name"].clone();
            }
            let start = *core.begun.entry(id.clone()).or_insert(unix_millis);
            call["startTime"] = start.into();
            if matches!(call["status"].as_str(), Some(tool_status::COMPLETED | tool_status::FAILED)) {
                core.begun.remove(&id);
            }
            Some(Frame::notification(PROGRESS, &params))
        }
        UPDATED => {
            let params: Value = serde_json::from_str(params).ok()?;
            params["mode"].is_string().then_some(frame)
        }
        _ => Some(frame),
    }
}
