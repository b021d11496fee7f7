//! `session/prompt`, `assistant.message_delta`, and `session/load` with its history in one piece.

use acp_proto::{error_code, method, stop_reason, update};
use acp_rpc::{Frame, Id};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::connect::{displace, place};
use crate::chunk::{Chunk, ChunkForm, ChunkKind};
use crate::core::{Core, OpenRequest, Wire};
use crate::json::{Map, object, put_meta, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Carried, Invented, Lossy, Passed, WrongShape};
use crate::shared;

const DELTA: &str = "assistant.message_delta";

/// Streamed text in this form.
pub(super) static CHUNKS: ChunkForm = ChunkForm {
    method: DELTA,
    head: r#"{"jsonrpc":"2.0","method":"assistant.message_delta","params":{"sessionId":"#,
    between: &[(ChunkKind::Agent, r#","content":"#)],
    tail: "}}",
    read: read_chunk,
    sent: &[ChunkKind::Agent],
    counted: None,
    repeated: true,
    canonical: false,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeltaChunk<'a> {
    #[serde(rename = "sessionId", borrow)]
    session_id: &'a RawValue,
    #[serde(borrow)]
    content: &'a RawValue,
}

fn read_chunk(params: &str) -> Option<Chunk<'_>> {
    let chunk: DeltaChunk<'_> = serde_json::from_str(params).ok()?;
    Chunk::new(chunk.session_id.get(), ChunkKind::Agent, chunk.content.get(), None)
}

pub(super) fn decode_prompt(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_PROMPT, "", params);
    let session = re.session("sessionId", "sessionId");
    match re.take("prompt") {
        Some(Value::String(said)) => re.set("prompt", json!([{ "type": "text", "text": said }])),
        Some(blocks) => re.set("prompt", blocks),
        None => re.note(WrongShape, "prompt", "the prompt is missing"),
    }
    re.begin_turn(id, session.as_deref());
    re.ask(id, method::SESSION_PROMPT, session);
}

/// A prompt that is plain text goes as a string; blocks go as v1 writes them.
pub(super) fn encode_prompt(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_PROMPT, "", params);
    let session = re.session("sessionId", "sessionId");
    if let Some(blocks) = re.take("prompt") {
        let said = match blocks.as_array().map(Vec::as_slice) {
            Some([block]) => shared::plain_text(block).map(str::to_owned),
            _ => None,
        };
        match said {
            Some(said) => re.set("prompt", said),
            None => {
                re.note(Passed, "prompt", "delta names no content blocks; passed as v1 writes them");
                re.set("prompt", blocks);
            }
        }
    }
    re.begin_turn(id, session.as_deref());
    re.ask(id, method::SESSION_PROMPT, session);
}

pub(super) fn decode_delta(core: &mut Core, params: Map) {
    let mut re = ObjectMapper::new(core, DELTA, "", params);
    let session = re.session("sessionId", "sessionId");
    let said = re.take("content").unwrap_or_default();
    if let (Some(session), Some(said)) = (session.as_deref(), said.as_str()) {
        let limit = re.core.options.reply_limit;
        re.core.session(session).said(said, limit);
    }
    let mut update = object([
        ("sessionUpdate", update::AGENT_MESSAGE_CHUNK.into()),
        ("content", json!({ "type": "text", "text": said })),
    ]);
    if let Some(id) = re.take_restored("messageId") {
        update.insert("messageId".to_owned(), id);
    }
    re.set("update", update);
    re.tell(method::SESSION_UPDATE);
}

/// Remembers what a v1 update on the delta wire says.
pub(super) fn observe(core: &mut Core, params: &Map) {
    if let (Some(session), Some(Value::Object(update))) = (text(params, "sessionId"), params.get("update")) {
        let session = session.to_owned();
        if text(update, "sessionUpdate") == Some(update::AGENT_MESSAGE_CHUNK) {
            let said = update.get("content").map(|content| shared::flatten(content).0).unwrap_or_default();
            let limit = core.options.reply_limit;
            core.session(&session).said(&said, limit);
        }
        shared::observe(core, &session, update);
    }
}

pub(super) fn encode_update(core: &mut Core, frame: &Frame, mut params: Map) {
    let session = text(&params, "sessionId").unwrap_or_default().to_owned();
    let Some(Value::Object(update)) = params.get("update").cloned() else {
        return shared::pass_without_update(core, frame);
    };
    shared::observe(core, &session, &update);
    let kind = text(&update, "sessionUpdate").unwrap_or_default().to_owned();
    let said = update.get("content").and_then(shared::plain_text).map(str::to_owned);
    match (kind.as_str(), said) {
        (update::USER_MESSAGE_CHUNK | update::AGENT_MESSAGE_CHUNK, Some(said))
            if core.session(&session).replay.is_some() =>
        {
            if let Some(replay) = core.session(&session).replay.as_mut() {
                replay.say(kind == update::USER_MESSAGE_CHUNK, &said, text(&update, "messageId"));
            }
        }
        (update::AGENT_MESSAGE_CHUNK, Some(said)) => {
            let limit = core.options.reply_limit;
            core.session(&session).said(&said, limit);
            params.shift_remove("update");
            params.insert("content".to_owned(), said.into());
            for (name, value) in update {
                match name.as_str() {
                    "sessionUpdate" | "content" => {}
                    "_meta" => {
                        params.insert(name, value);
                    }
                    _ => {
                        let message = "delta has no field for it; kept in _meta";
                        core.note(Carried, DELTA, format!("update.{name}"), message);
                        put_meta(&mut params, shared::V1_KEY, &name, value);
                    }
                }
            }
            core.tell(Wire::Foreign, DELTA, params);
        }
        _ => {
            let message = format!("delta streams text only; {kind} is passed as v1 writes it");
            core.note(Passed, method::SESSION_UPDATE, "update.sessionUpdate", message);
            core.pass(frame);
        }
    }
}

pub(super) fn encode_prompted(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let session = asked.session.clone().unwrap_or_default();
    let turn = shared::end_turn(core, &session, id);
    let Value::Object(mut result) = result else {
        return shared::wrong_answer(core, id, method::SESSION_PROMPT, "it is not an object", result);
    };
    let reason = text(&result, "stopReason").unwrap_or_default().to_owned();
    result.shift_remove("stopReason");
    let mut re = ObjectMapper::new(core, method::SESSION_PROMPT, "result", result);
    re.set("sessionId", session);
    if turn.truncated {
        re.note(Lossy, "content", "the text was longer than the limit; the deltas had all of it");
    }
    re.set_new("content", turn.text);
    if re.restored("artifacts").is_none() {
        let artifacts: Vec<Value> = turn.artifacts.iter().map(|path| json!({ "path": path })).collect();
        re.set("artifacts", artifacts);
    }
    match reason.as_str() {
        stop_reason::END_TURN => {}
        stop_reason::CANCELLED => re.set("canceled", true),
        "" => re.note(WrongShape, "stopReason", "the stop reason is missing"),
        _ => {
            let message = format!("delta has no stop reasons; {reason} is kept in _meta");
            re.carry("stopReason", reason.into(), Lossy, message);
        }
    }
    re.answer(id);
}

pub(super) fn decode_prompted(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let session = asked.session.clone().unwrap_or_default();
    let turn = shared::end_turn(core, &session, id);
    let Some(mut re) = ObjectMapper::of_result(core, id, method::SESSION_PROMPT, result) else { return };
    re.take("sessionId");
    let content = re.take_text("content").unwrap_or_default();
    let fresh = turn.streamed == 0 && !content.is_empty();
    if !fresh && !turn.is_repeated_by(&content) {
        let message = "the answer's text is not what was streamed; kept in _meta";
        re.carry("content", content.clone().into(), Lossy, message);
    }
    let artifacts = re.take_list("artifacts").unwrap_or_default();
    if !artifacts.is_empty() {
        let message = "v1 has no artifacts; told as links and kept in _meta";
        re.carry("artifacts", artifacts.clone().into(), Lossy, message);
    }
    let canceled = re.take("canceled") == Some(Value::Bool(true));
    re.keep(&["stopReason"]);
    if canceled || turn.cancelled {
        re.set("stopReason", stop_reason::CANCELLED);
    }
    re.invent("stopReason", stop_reason::END_TURN, "delta has no stop reasons");
    let result = re.finish();
    if fresh {
        let message = "nothing was streamed; the answer's text is told as a chunk";
        core.note(Invented, method::SESSION_PROMPT, "result.content", message);
        shared::tell_text(core, &session, update::AGENT_MESSAGE_CHUNK, &content);
    }
    for artifact in &artifacts {
        tell_artifact(core, &session, artifact);
    }
    core.answer(Wire::Canonical, id, result);
}

/// A file that the turn left behind, as a link.
fn tell_artifact(core: &mut Core, session: &str, artifact: &Value) {
    let field = |name: &str| artifact.get(name).and_then(Value::as_str);
    let Some(path) = field("uri").or_else(|| field("path")).or_else(|| artifact.as_str()) else {
        let message = "an artifact names no path; kept in _meta only";
        core.note(WrongShape, method::SESSION_PROMPT, "result.artifacts", message);
        return;
    };
    let uri = if path.contains("://") {
        path.to_owned()
    } else {
        format!("file://{}", shared::absolute(&core.work_dir(), path))
    };
    let name = field("name").unwrap_or_else(|| shared::basename(path)).to_owned();
    let link = json!({ "type": "resource_link", "uri": uri, "name": name });
    let update = object([("sessionUpdate", update::AGENT_MESSAGE_CHUNK.into()), ("content", link)]);
    shared::tell_update(core, session, update);
}

pub(super) fn decode_load(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_LOAD, "", params);
    let session = re.session("sessionId", "sessionId");
    place(&mut re);
    re.ask_load(id, session, true);
}

pub(super) fn encode_load(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_LOAD, "", params);
    let session = re.session("sessionId", "sessionId");
    displace(&mut re);
    re.ask(id, method::SESSION_LOAD, session);
}

/// The replayed text as pairs of prompt and response, then the answer.
pub(super) fn encode_loaded(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let session = asked.session.clone().unwrap_or_default();
    let replay = core.session(&session).replay.take().unwrap_or_default();
    shared::note_truncated(core, method::SESSION_LOAD, &replay);
    let mut history: Vec<Map> = Vec::new();
    for said in replay.messages {
        match (said.by_user, history.last_mut()) {
            (false, Some(last)) => {
                last.insert("response".to_owned(), said.text.into());
            }
            (true, _) => history.push(object([("prompt", said.text.into()), ("response", "".into())])),
            (false, None) => history.push(object([("prompt", "".into()), ("response", said.text.into())])),
        }
    }
    let told = object([("sessionId", session.clone().into()), ("history", json!(history))]);
    core.tell(Wire::Foreign, method::SESSION_UPDATE, told);
    let mut re = ObjectMapper::new(
        core,
        method::SESSION_LOAD,
        "result",
        result.as_object().cloned().unwrap_or_default(),
    );
    re.set("sessionId", session);
    re.set("loaded", true);
    re.answer(id);
}

pub(super) fn decode_history(core: &mut Core, params: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "", params);
    let session = re.session("sessionId", "sessionId").unwrap_or_default();
    let history = re.take_list("history").unwrap_or_default();
    // What stands beside the history travels with the first chunk, what stands beside a turn with the turn's first.
    let mut beside = re.finish().shift_remove("_meta");
    for turn in history {
        for update in decode_past(core, turn) {
            shared::observe(core, &session, &update);
            let mut params = object([("sessionId", session.clone().into()), ("update", update.into())]);
            params.extend(beside.take().map(|meta| ("_meta".to_owned(), meta)));
            core.tell(Wire::Canonical, method::SESSION_UPDATE, params);
        }
    }
    if beside.is_some() {
        let message = "the history is empty; what stands beside it is left out";
        core.note(Lossy, method::SESSION_UPDATE, "history", message);
    }
}

/// A turn of a history as chunks: what was asked, then what was answered.
fn decode_past(core: &mut Core, turn: Value) -> Vec<Map> {
    let turn = match turn {
        Value::Object(turn) if turn.contains_key("prompt") || turn.contains_key("response") => turn,
        _ => {
            let message = "an entry has neither a prompt nor a response; left out";
            core.note(WrongShape, method::SESSION_UPDATE, "history", message);
            return Vec::new();
        }
    };
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "history", turn);
    let mut updates = Vec::new();
    for (field, kind) in [("prompt", update::USER_MESSAGE_CHUNK), ("response", update::AGENT_MESSAGE_CHUNK)] {
        let blocks = match re.take(field).unwrap_or_default() {
            Value::String(said) if said.is_empty() => Vec::new(),
            Value::String(said) => vec![json!({ "type": "text", "text": said })],
            Value::Array(blocks) => blocks,
            Value::Null => Vec::new(),
            other => {
                re.carry(field, other, WrongShape, "neither text nor content blocks; kept in _meta");
                Vec::new()
            }
        };
        let chunk = |block| object([("sessionUpdate", kind.into()), ("content", block)]);
        updates.extend(blocks.into_iter().map(chunk));
    }
    let beside = re.finish();
    match updates.first_mut() {
        Some(first) => first.extend(beside),
        None if beside.is_empty() => {}
        None => {
            let message = "an entry says nothing; what stands beside it is left out";
            core.note(Lossy, method::SESSION_UPDATE, "history", message);
        }
    }
    updates
}

pub(super) fn decode_loaded(core: &mut Core, id: &Id, result: Value) {
    let Some(mut re) = ObjectMapper::of_result(core, id, method::SESSION_LOAD, result) else { return };
    re.take("sessionId");
    if re.take("loaded") == Some(Value::Bool(false)) {
        re.finish();
        core.note(Lossy, method::SESSION_LOAD, "result.loaded", "not loaded: told as an error, as v1 does");
        let error =
            acp_rpc::RpcError::new(error_code::RESOURCE_NOT_FOUND, "the agent did not load the session");
        return core.fail(Wire::Canonical, id, &error);
    }
    re.keep(&["modes", "configOptions"]);
    re.answer(id);
}
