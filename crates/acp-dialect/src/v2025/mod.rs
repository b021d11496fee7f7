//! `2025.1`: snake-case names, ids chosen by the client, directory and MCP servers given at initialize.

mod blocks;
mod connect;
mod sessions;
mod updates;
mod world;

use acp_rpc::{Frame, Id};
use serde_json::Value;

use crate::core::{Asked, Core, Refusal, Wire};
use crate::dialect::Dialect;
use crate::json::Map;
use crate::note::NoteKind;
use crate::recast::Recast;
use crate::shared;

pub(crate) use sessions::encode_made;

pub(crate) fn decode_request(
    core: &mut Core,
    frame: &Frame,
    id: &Id,
    method: &str,
    params: Map,
) -> Result<(), Refusal> {
    if is_camel(core, method, &params) {
        shared::through_quietly(core, frame, id, method);
        return Ok(());
    }
    match method {
        "initialize" => connect::decode_initialize(core, id, params),
        "authenticate" => connect::decode_authenticate(core, id, params),
        "session/new" => return sessions::decode_new(core, id, params),
        "session/load" => sessions::decode_load(core, id, params),
        "session/prompt" => sessions::decode_prompt(core, id, params),
        "session/cancel" => {
            decode_cancel(core, params);
            core.note(
                NoteKind::Answered,
                "session/cancel",
                "",
                "sent with an id; acknowledged by the translator",
            );
            core.answer(Wire::Foreign, id, ok());
        }
        "fs/read_text_file" | "fs/write_text_file" => return world::decode_file(core, id, method, params),
        "terminal/create" => return world::decode_create(core, id, params),
        "terminal/output" | "terminal/wait_for_exit" | "terminal/kill" | "terminal/release" => {
            return world::decode_terminal(core, id, method, params);
        }
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
        "initialize" => return connect::encode_initialize(core, id, params),
        "authenticate" => return connect::encode_authenticate(core, id, params),
        "session/new" => return sessions::encode_new(core, id, params),
        "session/load" => return sessions::encode_load(core, id, params),
        "session/prompt" => sessions::encode_prompt(core, id, params),
        "session/request_permission" => shared::answer_unasked(core, id, &params),
        "fs/write_text_file" => {
            shared::needs_asking(core, method, &params)?;
            world::encode_file(core, id, method, params);
        }
        "fs/read_text_file" => world::encode_file(core, id, method, params),
        "terminal/create" => {
            shared::needs_asking(core, method, &params)?;
            world::encode_create(core, id, params);
        }
        "terminal/output" | "terminal/wait_for_exit" | "terminal/kill" | "terminal/release" => {
            world::encode_terminal(core, id, method, params);
        }
        _ if is_v1_only(method) => return Err(Refusal::absent(method, Dialect::V2025_1)),
        _ => shared::through(core, frame, id, method),
    }
    Ok(())
}

pub(crate) fn decode_notification(core: &mut Core, frame: &Frame, method: &str, params: Map) {
    if is_camel(core, method, &params) {
        core.pass(frame);
        return;
    }
    match method {
        "session/update" => updates::decode(core, params),
        "session/cancel" => decode_cancel(core, params),
        _ => shared::told_through(core, frame, method),
    }
}

pub(crate) fn encode_notification(core: &mut Core, frame: &Frame, method: &str, params: Map) {
    match method {
        "session/update" => updates::encode(core, params),
        "session/cancel" => {
            let mut re = Recast::new(core, "session/cancel", "", params);
            let session = re.session("sessionId", "session_id");
            let params = re.finish();
            shared::mark_cancelled(core, session.as_deref());
            core.tell(Wire::Foreign, "session/cancel", params);
        }
        "$/cancel_request" => {
            core.note(
                NoteKind::Lossy,
                "$/cancel_request",
                "",
                "2025.1 cannot cancel a single request; not passed on",
            );
        }
        _ => shared::told_through(core, frame, method),
    }
}

pub(crate) fn decode_result(core: &mut Core, id: &Id, asked: Asked, result: Value) {
    match &*asked.method {
        "initialize" => connect::decode_initialized(core, id, result),
        "session/new" => sessions::decode_made(core, id, &asked, result),
        "session/load" => sessions::decode_loaded(core, id, &asked, result),
        "session/prompt" => sessions::decode_prompted(core, id, &asked, result),
        "authenticate" => {
            let done = sessions::without_status(core, "authenticate", result);
            core.answer(Wire::Canonical, id, done);
        }
        _ => world::decode_result(core, id, asked, result),
    }
}

pub(crate) fn encode_result(core: &mut Core, id: &Id, asked: Asked, result: Value) {
    match &*asked.method {
        "initialize" => connect::encode_initialized(core, id, result),
        "session/new" => {
            if let Some(result) = shared::session_made(core, id, &asked, result) {
                encode_made(core, id, result);
            }
        }
        "session/set_mode" => sessions::mode_set(core, asked),
        "session/load" => sessions::encode_loaded(core, id, &asked, result),
        "session/prompt" => sessions::encode_prompted(core, id, &asked, result),
        "authenticate" => {
            let result = sessions::status_ok(core, "authenticate", result);
            core.answer(Wire::Foreign, id, result);
        }
        _ => world::encode_result(core, id, &asked, result),
    }
}

fn decode_cancel(core: &mut Core, params: Map) {
    let mut re = Recast::new(core, "session/cancel", "", params);
    let session = re.session("session_id", "sessionId");
    let params = re.finish();
    shared::mark_cancelled(core, session.as_deref());
    core.tell(Wire::Canonical, "session/cancel", params);
}

/// Whether the params are in v1's spelling on a `2025.1` wire. They pass as they are: the other side reads v1.
fn is_camel(core: &mut Core, method: &str, params: &Map) -> bool {
    let camel = params.contains_key("sessionId") && !params.contains_key("session_id")
        || method == "initialize"
            && params.contains_key("protocolVersion")
            && !params.contains_key("protocol_version");
    if camel {
        core.note(
            NoteKind::OtherDialect,
            method.to_owned(),
            "",
            "the fields are spelled as in v1 on a 2025.1 connection; passed unchanged",
        );
    }
    camel
}

fn is_v1_only(method: &str) -> bool {
    matches!(method, "logout" | "elicitation/create") || method.starts_with("session/")
}

fn ok() -> Value {
    serde_json::json!({ "status": "ok" })
}
