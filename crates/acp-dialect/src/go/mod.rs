//! `go`: near v1, with its own tool-call, capability, content and MCP-server shapes.

mod capabilities;
mod content;
mod servers;
mod updates;

use acp_proto::{method, stop_reason};
use acp_rpc::{Frame, Id};
use serde_json::Value;

use crate::core::{Asked, Core, Refusal, Wire};
use crate::json::{Map, text};
use crate::note::NoteKind;
use crate::recast::Recast;
use crate::shared;

pub(crate) fn decode_request(
    core: &mut Core,
    frame: &Frame,
    id: &Id,
    method: &str,
    mut params: Map,
) -> Result<(), Refusal> {
    note_snake(core, method, &params);
    match method {
        method::INITIALIZE => forward_same(core, frame, id, Asked::new(method::INITIALIZE, None)),
        method::SESSION_NEW | method::SESSION_LOAD => {
            let session = text(&params, "sessionId").map(str::to_owned);
            let changed = servers::decode(core, method, &mut params);
            forward(core, frame, id, method, params, changed, session);
        }
        method::SESSION_PROMPT => {
            let session = begin_turn(core, id, &params);
            let changed = content::recast_prompt(core, &mut params);
            forward(core, frame, id, method, params, changed, session);
        }
        method::SESSION_REQUEST_PERMISSION => {
            let session = text(&params, "sessionId").map(str::to_owned);
            forward(core, frame, id, method, params, false, session);
        }
        _ => shared::through_quietly(core, frame, id, method),
    }
    Ok(())
}

pub(crate) fn encode_request(
    core: &mut Core,
    frame: &Frame,
    id: &Id,
    method: &str,
    mut params: Map,
) -> Result<(), Refusal> {
    match method {
        method::INITIALIZE => {
            capabilities::note_client(core, &params);
            forward_same(core, frame, id, Asked::new(method::INITIALIZE, None));
        }
        method::SESSION_NEW | method::SESSION_LOAD => {
            let session = text(&params, "sessionId").map(str::to_owned);
            let changed = servers::encode(core, method, &mut params);
            forward(core, frame, id, method, params, changed, session);
        }
        method::SESSION_PROMPT => {
            let session = begin_turn(core, id, &params);
            let changed = content::recast_prompt(core, &mut params);
            forward(core, frame, id, method, params, changed, session);
        }
        method::SESSION_REQUEST_PERMISSION => {
            let session = text(&params, "sessionId").map(str::to_owned);
            let changed = updates::complete_permission(core, session.as_deref(), &mut params);
            forward(core, frame, id, method, params, changed, session);
        }
        _ => shared::through(core, frame, id, method),
    }
    Ok(())
}

pub(crate) fn decode_notification(core: &mut Core, frame: &Frame, method: &str, params: Map) {
    note_snake(core, method, &params);
    match method {
        method::SESSION_UPDATE => updates::decode(core, frame, params),
        method::SESSION_CANCEL => {
            shared::mark_cancelled(core, text(&params, "sessionId"));
            core.pass(frame);
        }
        _ => shared::told_through(core, frame, method),
    }
}

pub(crate) fn encode_notification(core: &mut Core, frame: &Frame, method: &str, params: Map) {
    match method {
        method::SESSION_UPDATE => updates::encode(core, frame, params),
        method::SESSION_CANCEL => core.pass(frame),
        _ => shared::told_through(core, frame, method),
    }
}

pub(crate) fn decode_result(core: &mut Core, id: &Id, asked: Asked, result: Value) {
    match &*asked.method {
        method::INITIALIZE => capabilities::decode(core, id, result),
        method::SESSION_PROMPT => decode_prompted(core, id, &asked, result),
        _ => session_result(core, id, &asked, result, Wire::Canonical),
    }
}

pub(crate) fn encode_result(core: &mut Core, id: &Id, asked: Asked, result: Value) {
    match &*asked.method {
        method::INITIALIZE => capabilities::encode(core, id, result),
        method::SESSION_PROMPT => encode_prompted(core, id, &asked, result),
        _ => session_result(core, id, &asked, result, Wire::Foreign),
    }
}

/// The answers to `session/new`, `session/load` and permission requests are the same in both forms.
fn session_result(core: &mut Core, id: &Id, asked: &Asked, result: Value, wire: Wire) {
    if asked.method == method::SESSION_NEW {
        let Some(session) = result.get("sessionId").and_then(Value::as_str).map(str::to_owned) else {
            return shared::wrong_answer(core, id, method::SESSION_NEW, "sessionId is missing", result);
        };
        shared::note_second_session(core, &session);
        core.session(&session);
    }
    core.answer(wire, id, result);
}

fn decode_prompted(core: &mut Core, id: &Id, asked: &Asked, result: Value) {
    if let Some(session) = asked.session.as_deref() {
        shared::end_turn(core, session, id);
    }
    let Value::Object(result) = result else {
        return shared::wrong_answer(core, id, method::SESSION_PROMPT, "it is not an object", result);
    };
    let mut re = Recast::new(core, method::SESSION_PROMPT, "result", result);
    if let Some(named) = re.take("sessionId")
        && named.as_str() != asked.session.as_deref()
    {
        re.carry(
            "sessionId",
            named,
            NoteKind::WrongShape,
            "the answer names another session than the prompt",
        );
    }
    if re.restored("stopReason").is_some() {
        re.take("stopReason");
    } else {
        re.keep(&["stopReason"]);
    }
    if re.placed("stopReason").is_none() && re.restored("stopReason").is_none() {
        re.note(NoteKind::WrongShape, "stopReason", "the stop reason is missing");
    }
    let result = re.finish();
    core.answer(Wire::Canonical, id, result);
}

fn encode_prompted(core: &mut Core, id: &Id, asked: &Asked, result: Value) {
    if let Some(session) = asked.session.as_deref() {
        shared::end_turn(core, session, id);
    }
    let Value::Object(result) = result else {
        return shared::wrong_answer(core, id, method::SESSION_PROMPT, "it is not an object", result);
    };
    let mut re = Recast::new(core, method::SESSION_PROMPT, "result", result);
    if let Some(session) = asked.session.clone() {
        re.set("sessionId", session);
    }
    match re.take("stopReason") {
        Some(reason) if reason == stop_reason::MAX_TURN_REQUESTS => {
            re.set("stopReason", stop_reason::MAX_TOKENS);
            re.carry(
                "stopReason",
                reason,
                NoteKind::Lossy,
                "go has no max_turn_requests; said as max_tokens",
            );
        }
        Some(reason) => re.set("stopReason", reason),
        None => re.note(NoteKind::WrongShape, "stopReason", "the stop reason is missing"),
    }
    let result = re.finish();
    core.answer(Wire::Foreign, id, result);
}

fn begin_turn(core: &mut Core, id: &Id, params: &Map) -> Option<String> {
    let session = text(params, "sessionId").map(str::to_owned)?;
    core.session(&session).begin_turn(id);
    Some(session)
}

/// The original bytes where nothing changed, else the changed params.
fn forward(
    core: &mut Core,
    frame: &Frame,
    id: &Id,
    method: &str,
    params: Map,
    changed: bool,
    session: Option<String>,
) {
    let asked = Asked::new(method.to_owned(), session);
    if !changed {
        return forward_same(core, frame, id, asked);
    }
    let wire = if core.is_decoding() { Wire::Canonical } else { Wire::Foreign };
    core.request(wire, id, method, params, asked);
}

fn forward_same(core: &mut Core, frame: &Frame, id: &Id, asked: Asked) {
    let wire = if core.is_decoding() { Wire::Canonical } else { Wire::Foreign };
    core.expect(wire, id, asked);
    core.pass(frame);
}

/// Notes snake-case params, which are `2025.1` and not go.
fn note_snake(core: &mut Core, method: &str, params: &Map) {
    if params.contains_key("session_id") || params.contains_key("protocol_version") {
        let message = "the fields are spelled as in 2025.1 on a go connection; passed as they are";
        core.note(NoteKind::OtherDialect, method.to_owned(), "", message);
    }
}
