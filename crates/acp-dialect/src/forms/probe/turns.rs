//! `prompt`: one string in, the whole text again in the answer.

use acp_proto::{method, stop_reason, update};
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use crate::core::{Core, OpenRequest, Wire};
use crate::json::{Map, object, put_meta, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Invented, Lossy, WrongShape};
use crate::shared;

const PROMPT: &str = "prompt";

pub(super) fn decode_prompt(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, PROMPT, "", params);
    let session = re.session("sessionId", "sessionId");
    let message = re.take_text("message");
    if re.restored("prompt").is_none() {
        match message {
            Some(message) => re.set("prompt", json!([{ "type": "text", "text": message }])),
            None => re.note(WrongShape, "message", "the message is missing"),
        }
    }
    re.begin_turn(id, session.as_deref());
    re.ask(id, method::SESSION_PROMPT, session);
}

pub(super) fn encode_prompt(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, PROMPT, "", params);
    let session = re.session("sessionId", "sessionId");
    if let Some(blocks) = re.take_list("prompt") {
        let flat: Vec<(String, bool)> = blocks.iter().map(shared::flatten).collect();
        let message = flat.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join("\n");
        if flat.len() > 1 || flat.iter().any(|(_, whole)| !whole) {
            re.carry("prompt", blocks.into(), Lossy, "probe takes one text; the blocks were joined into it");
        }
        re.set("message", message);
    }
    re.begin_turn(id, session.as_deref());
    re.ask_as(id, PROMPT, OpenRequest::new(method::SESSION_PROMPT, session));
}

pub(super) fn encode_prompted(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let session = asked.session.clone().unwrap_or_default();
    let turn = shared::end_turn(core, &session, id);
    let foreign = core.foreign_id(&session).to_owned();
    let Value::Object(mut result) = result else {
        return shared::wrong_answer(core, id, method::SESSION_PROMPT, "it is not an object", result);
    };
    let reason = shared::stop_reason(core, PROMPT, &result);
    result.shift_remove("stopReason");
    let mut re = ObjectMapper::new(core, PROMPT, "result", result);
    if let Some(error) = re.take_restored("error").and_then(|error| serde_json::from_value(error).ok()) {
        return core.fail(Wire::Foreign, id, &error);
    }
    re.set("sessionId", foreign);
    if turn.truncated {
        re.note(Lossy, "content", "the text was longer than the limit; the chunks had all of it");
    }
    re.set_new("content", json!([{ "type": "text", "text": turn.text }]));
    if let Some(now) = re.core.wall_clock.clone() {
        re.invent("timestamp", now, "v1 gives no time; the translator's clock was taken");
    }
    if reason != stop_reason::END_TURN {
        re.carry_quietly("stopReason", reason.into());
    }
    re.answer(id);
}

pub(super) fn decode_prompted(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let session = asked.session.clone().unwrap_or_default();
    let turn = shared::end_turn(core, &session, id);
    let Value::Object(result) = result else {
        return shared::wrong_answer(core, id, PROMPT, "it is not an object", result);
    };
    if result.get("error") == Some(&Value::Bool(true)) {
        return failed_by_flag(core, id, result);
    }
    let mut re = ObjectMapper::new(core, PROMPT, "result", result);
    re.take("sessionId");
    let content = re.take_list("content").unwrap_or_default();
    let said: String = content.iter().filter_map(|block| text(block.as_object()?, "text")).collect();
    let fresh = turn.streamed == 0 && !content.is_empty();
    if !fresh && !turn.is_repeated_by(&said) {
        let message = "the answer's text is not what was streamed; kept in _meta";
        re.carry("content", content.clone().into(), Lossy, message);
    }
    let reason = if turn.cancelled { stop_reason::CANCELLED } else { stop_reason::END_TURN };
    re.invent("stopReason", reason, "probe has no stop reasons");
    let result = re.finish();
    if fresh {
        let message = "nothing was streamed; the answer's text is told as a chunk";
        core.note(Invented, PROMPT, "result.content", message);
        for block in content {
            let update = object([("sessionUpdate", update::AGENT_MESSAGE_CHUNK.into()), ("content", block)]);
            shared::tell_update(core, &session, update);
        }
    }
    core.answer(Wire::Canonical, id, result);
}

/// A result that says it is an error.
fn failed_by_flag(core: &mut Core, id: &Id, result: Map) {
    core.note(Lossy, PROMPT, "result.error", "a result that says it is an error became -32603");
    let said = result.get("content").and_then(|content| content.get(0)).and_then(|block| block.get("text"));
    let said = said.and_then(Value::as_str).unwrap_or("the prompt failed").to_owned();
    let error =
        RpcError::internal(said).with_data(json!({ "original": { "dialect": "probe", "result": result } }));
    core.fail(Wire::Canonical, id, &error);
}

/// A tool failed and ended the prompt: v1 says so with the tool call. Says whether a call was open to say it with.
pub(super) fn tool_failed(core: &mut Core, id: &Id, asked: &OpenRequest, error: &RpcError) -> bool {
    let session = asked.session.clone().unwrap_or_default();
    let mut open: Vec<String> = core
        .session(&session)
        .tools
        .iter()
        .filter(|(_, tool)| tool.is_open())
        .map(|(id, _)| id.clone())
        .collect();
    open.sort();
    if open.is_empty() {
        return false;
    }
    core.note(Lossy, PROMPT, "error.code", "-32004 became a failed tool call: v1 has no code for it");
    for call in open {
        let update = object([
            ("sessionUpdate", update::TOOL_CALL_UPDATE.into()),
            ("toolCallId", call.into()),
            ("status", "failed".into()),
            ("content", json!([{ "type": "content", "content": { "type": "text", "text": error.message } }])),
        ]);
        shared::tell_update(core, &session, update);
    }
    shared::end_turn(core, &session, id);
    let mut result = object([("stopReason", stop_reason::END_TURN.into())]);
    put_meta(&mut result, core.carry_key(), "error", json!(error));
    core.answer(Wire::Canonical, id, result);
    true
}
