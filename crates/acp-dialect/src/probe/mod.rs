//! `probe`: `newSession`, `prompt`, `messageChunk`; text in, text out, history in one piece.

mod connect;
mod files;
mod sessions;
mod turns;
mod updates;

use acp_proto::{method, update};
use acp_rpc::{Frame, Id, RpcError};
use serde_json::{Value, json};

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
    match method {
        method::INITIALIZE => return connect::decode_initialize(core, id, params),
        "newSession" => return sessions::decode_new(core, id, params),
        "loadSession" => sessions::decode_load(core, id, params),
        "setSessionMode" => sessions::decode_mode(core, id, params),
        "prompt" => turns::decode_prompt(core, id, params),
        "cancel" => {
            decode_cancel(core, params);
            core.note(
                NoteKind::Answered,
                "cancel",
                "",
                "v1 cancels by notification; acknowledged by the translator",
            );
            core.answer(Wire::Foreign, id, json!({ "success": true }));
        }
        "readTextFile" | "writeTextFile" => return files::decode(core, id, method, params),
        "requestPermission" => declared(core, id, method, method::SESSION_REQUEST_PERMISSION, params),
        "createTerminal" => declared(core, id, method, method::TERMINAL_CREATE, params),
        _ if is_v1(method) => {
            let message = "a v1 method on a probe connection; passed unchanged";
            core.note(NoteKind::OtherDialect, method.to_owned(), "", message);
            shared::through_quietly(core, frame, id, method);
        }
        _ => shared::through(core, frame, id, method),
    }
    Ok(())
}

/// What is wrong with a request, with the name that its field has in this form.
pub(crate) fn in_its_words(method: &str, message: String) -> String {
    match method {
        method::SESSION_PROMPT => message.replacen("params.prompt", "params.message", 1),
        method::SESSION_SET_MODE => message.replacen("params.modeId", "params.mode", 1),
        _ => message,
    }
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
        method::SESSION_NEW => sessions::encode_new(core, id, params),
        method::SESSION_LOAD => sessions::encode_load(core, id, params),
        method::SESSION_SET_MODE => sessions::encode_mode(core, id, params),
        method::SESSION_PROMPT => turns::encode_prompt(core, id, params),
        method::SESSION_REQUEST_PERMISSION => shared::answer_unasked(core, id, &params),
        method::FS_READ_TEXT_FILE | method::FS_WRITE_TEXT_FILE => files::encode(core, id, method, params),
        _ if is_v1(method) => return Err(Refusal::absent(method, Dialect::Probe)),
        _ => shared::through(core, frame, id, method),
    }
    Ok(())
}

pub(crate) fn decode_notification(core: &mut Core, frame: &Frame, method: &str, params: Map) {
    match method {
        "messageChunk" => updates::decode_chunk(core, params),
        "toolCallProgress" => updates::decode_progress(core, params),
        "sessionUpdated" => updates::decode_updated(core, params),
        "planUpdated" => updates::decode_declared(core, method, update::PLAN, params),
        "availableCommands" => {
            updates::decode_declared(core, method, update::AVAILABLE_COMMANDS_UPDATE, params);
        }
        "cancel" => decode_cancel(core, params),
        _ if is_v1(method) => {
            let message = "a v1 notification on a probe connection; passed unchanged";
            core.note(NoteKind::OtherDialect, method.to_owned(), "", message);
            core.pass(frame);
        }
        _ => shared::told_through(core, frame, method),
    }
}

pub(crate) fn encode_notification(core: &mut Core, frame: &Frame, method: &str, params: Map) {
    match method {
        method::SESSION_UPDATE => updates::encode(core, params),
        method::SESSION_CANCEL => {
            let mut re = Recast::new(core, "cancel", "", params);
            let session = re.session("sessionId", "sessionId");
            let params = re.finish();
            shared::cancel_as_request(core, "cancel", params, session);
        }
        method::CANCEL_REQUEST => {
            core.note(
                NoteKind::Lossy,
                method::CANCEL_REQUEST,
                "",
                "probe cannot cancel a single request; not passed on",
            );
        }
        method::ELICITATION_COMPLETE => {
            core.note(
                NoteKind::Lossy,
                method::ELICITATION_COMPLETE,
                "",
                "probe has no elicitation; not passed on",
            );
        }
        _ => shared::told_through(core, frame, method),
    }
}

pub(crate) fn decode_result(core: &mut Core, id: &Id, asked: Asked, result: Value) {
    match &*asked.method {
        method::INITIALIZE => connect::decode_initialized(core, id, result),
        method::SESSION_NEW => sessions::decode_made(core, id, result),
        method::SESSION_LOAD => sessions::decode_loaded(core, id, &asked, result),
        method::SESSION_SET_MODE => sessions::decode_mode_set(core, id, result),
        method::SESSION_PROMPT => turns::decode_prompted(core, id, &asked, result),
        _ => files::decode_result(core, id, asked, result),
    }
}

pub(crate) fn encode_result(core: &mut Core, id: &Id, asked: Asked, result: Value) {
    match &*asked.method {
        method::INITIALIZE => connect::encode_initialized(core, id, result),
        method::SESSION_NEW => {
            if let Some(result) = shared::session_made(core, id, &asked, result) {
                encode_made(core, id, result);
            }
        }
        method::SESSION_LOAD => sessions::encode_loaded(core, id, &asked, result),
        method::SESSION_SET_MODE => sessions::encode_mode_set(core, id, asked, result),
        method::SESSION_PROMPT => turns::encode_prompted(core, id, &asked, result),
        _ => files::encode_result(core, id, &asked, result),
    }
}

/// Errors of this form that v1 does not express as errors. Says whether it was one and is dealt with.
pub(crate) fn error_is_no_error(core: &mut Core, id: &Id, asked: &Asked, error: &RpcError) -> bool {
    match (&*asked.method, error.code) {
        (method::INITIALIZE, -32001) => {
            connect::version_refused(core, id, error);
            true
        }
        (method::SESSION_PROMPT, -32004) => turns::tool_failed(core, id, asked, error),
        _ => false,
    }
}

fn decode_cancel(core: &mut Core, params: Map) {
    let mut re = Recast::new(core, "cancel", "", params);
    let session = re.session("sessionId", "sessionId");
    let params = re.finish();
    if let Some(session) = session
        && let Some(turn) = core.session(&session).turn.as_mut()
    {
        turn.cancelled = true;
    }
    core.tell(Wire::Canonical, method::SESSION_CANCEL, params);
}

/// Names that the form declares without saying their shape: the v1 shape is assumed.
fn declared(core: &mut Core, id: &Id, method: &str, canonical: &'static str, params: Map) {
    core.note(
        NoteKind::Passed,
        method.to_owned(),
        "",
        "declared by the form without a shape; passed with v1's",
    );
    let session = params.get("sessionId").and_then(Value::as_str).map(str::to_owned);
    core.request(Wire::Canonical, id, canonical, params, Asked::new(canonical, session));
}

fn is_v1(method: &str) -> bool {
    matches!(method, method::AUTHENTICATE | method::LOGOUT)
        || ["session/", "fs/", "terminal/", "elicitation/"].iter().any(|family| method.starts_with(family))
}
