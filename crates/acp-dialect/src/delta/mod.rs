//! `delta`: `assistant.message_delta` over TCP, permission by notification, cancel as a request.

mod connect;
mod permission;
mod turns;

use acp_proto::method;
use acp_rpc::{Frame, Id};
use serde_json::{Value, json};

use crate::core::{Asked, Core, Job, Refusal, Wire};
use crate::json::{Map, text};
use crate::note::NoteKind;
use crate::recast::Recast;
use crate::shared;

pub(crate) use permission::failed as permission_failed;

pub(crate) fn decode_request(
    core: &mut Core,
    frame: &Frame,
    id: &Id,
    method: &str,
    params: Map,
) -> Result<(), Refusal> {
    note_snake(core, method, &params);
    match method {
        method::INITIALIZE => connect::decode_initialize(core, id, params),
        method::SESSION_NEW => connect::decode_new(core, id, params),
        method::SESSION_LOAD => turns::decode_load(core, id, params),
        method::SESSION_PROMPT => turns::decode_prompt(core, id, params),
        method::SESSION_CANCEL => {
            let session = text(&params, "sessionId").unwrap_or_default().to_owned();
            decode_cancel(core, params);
            core.note(
                NoteKind::Answered,
                method::SESSION_CANCEL,
                "",
                "v1 cancels by notification; acknowledged by the translator",
            );
            core.answer(Wire::Foreign, id, json!({ "sessionId": session, "canceled": true }));
        }
        method::SESSION_REQUEST_PERMISSION => shared::through_quietly(core, frame, id, method),
        _ => shared::through(core, frame, id, method),
    }
    Ok(())
}

pub(crate) fn encode_request(
    core: &mut Core,
    frame: &Frame,
    id: &Id,
    method: &str,
    params: Map,
) -> Result<(), Refusal> {
    match method {
        method::INITIALIZE => connect::encode_initialize(core, id, params),
        method::SESSION_NEW => connect::encode_new(core, id, params),
        method::SESSION_LOAD => turns::encode_load(core, id, params),
        method::SESSION_PROMPT => turns::encode_prompt(core, id, params),
        method::SESSION_REQUEST_PERMISSION => return permission::ask(core, id, params),
        method::FS_WRITE_TEXT_FILE => {
            if let (Some(session), Some(path)) = (text(&params, "sessionId"), text(&params, "path")) {
                core.session(session).wrote(path);
            }
            shared::through(core, frame, id, method);
        }
        _ => shared::through(core, frame, id, method),
    }
    Ok(())
}

pub(crate) fn decode_notification(core: &mut Core, frame: &Frame, method: &str, params: Map) {
    note_snake(core, method, &params);
    match method {
        "assistant.message_delta" => turns::decode_delta(core, params),
        method::SESSION_UPDATE if params.contains_key("history") => turns::decode_history(core, params),
        method::SESSION_UPDATE => {
            turns::observe(core, &params);
            core.pass(frame);
        }
        method::SESSION_REQUEST_PERMISSION => permission::told(core, params),
        "session/permission_response" => permission::answered(core, params),
        method::SESSION_CANCEL => decode_cancel(core, params),
        _ => shared::told_through(core, frame, method),
    }
}

pub(crate) fn encode_notification(core: &mut Core, frame: &Frame, method: &str, params: Map) {
    match method {
        method::SESSION_UPDATE => turns::encode_update(core, frame, params),
        method::SESSION_CANCEL => {
            let session = text(&params, "sessionId").map(str::to_owned);
            shared::cancel_as_request(core, method::SESSION_CANCEL, params, session);
        }
        method::CANCEL_REQUEST if permission::withdrawn(core, &params) => {}
        _ => shared::told_through(core, frame, method),
    }
}

pub(crate) fn decode_result(core: &mut Core, id: &Id, asked: Asked, result: Value) {
    match &*asked.method {
        method::INITIALIZE => connect::decode_initialized(core, id, result),
        method::SESSION_NEW => made(core, id, result, Wire::Canonical),
        method::SESSION_LOAD => turns::decode_loaded(core, id, result),
        method::SESSION_PROMPT => turns::decode_prompted(core, id, &asked, result),
        _ => core.answer(Wire::Canonical, id, result),
    }
}

pub(crate) fn encode_result(core: &mut Core, id: &Id, asked: Asked, result: Value) {
    match (&*asked.method, &asked.job) {
        (method::INITIALIZE, _) => connect::encode_initialized(core, id, result),
        (method::SESSION_NEW, _) => made(core, id, result, Wire::Foreign),
        (method::SESSION_LOAD, _) => turns::encode_loaded(core, id, &asked, result),
        (method::SESSION_PROMPT, _) => turns::encode_prompted(core, id, &asked, result),
        (_, Job::Told { .. }) => permission::decided(core, &asked, &result),
        _ => core.answer(Wire::Foreign, id, result),
    }
}

fn made(core: &mut Core, id: &Id, result: Value, wire: Wire) {
    let Some(session) = result.get("sessionId").and_then(Value::as_str).map(str::to_owned) else {
        return shared::wrong_answer(core, id, method::SESSION_NEW, "sessionId is missing", result);
    };
    shared::note_second_session(core, &session);
    core.session(&session);
    let names: Vec<String> = result.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    for name in names.iter().filter(|name| *name != "sessionId" && *name != "_meta") {
        let field = format!("result.{name}");
        core.note(NoteKind::Passed, method::SESSION_NEW, field, "delta does not name it; passed unchanged");
    }
    core.answer(wire, id, result);
}

fn decode_cancel(core: &mut Core, params: Map) {
    let mut re = Recast::new(core, method::SESSION_CANCEL, "", params);
    let session = re.session("sessionId", "sessionId");
    let params = re.finish();
    core.tell(Wire::Canonical, method::SESSION_CANCEL, params);
    let Some(session) = session else { return };
    if let Some(turn) = core.session(&session).turn.as_mut() {
        turn.cancelled = true;
    }
    shared::cancel_asks(core, &session);
}

/// Notes snake-case params, which are `2025.1` and not delta.
fn note_snake(core: &mut Core, method: &str, params: &Map) {
    if params.contains_key("session_id") || params.contains_key("protocol_version") {
        let message = "the fields are spelled as in 2025.1 on a delta connection";
        core.note(NoteKind::OtherDialect, method.to_owned(), "", message);
    }
}
