//! `go`: near v1, with its own tool-call, capability, content and MCP-server shapes.

mod capabilities;
mod content;
mod servers;
mod updates;

use acp_proto::{error_code, method, stop_reason};
use acp_rpc::{Frame, Id};
use serde_json::Value;

use crate::codes::{Codes, Meaning};
use crate::core::{Core, OpenRequest, Refusal};
use crate::form::{Form, Request};
use crate::json::{Map, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Lossy, OtherDialect, WrongShape};
use crate::shared;
use crate::traits::FormTraits;

/// The form itself.
pub(crate) struct Go;

impl Form for Go {
    fn traits(&self) -> &'static FormTraits {
        &FormTraits {
            name: "go",
            meta_key: "acp-dialect/go",
            begins_like_v1: true,
            goes_on_like_v1: true,
            mode_ids: &["default", "acceptEdits", "bypassPermissions", "plan"],
            ..FormTraits::V1
        }
    }

    fn codes(&self) -> &'static Codes {
        &Codes {
            decoded: &[
                (-32000, error_code::INTERNAL_ERROR, "connection_closed"),
                (-32001, error_code::INTERNAL_ERROR, "timeout"),
                (-32002, error_code::INTERNAL_ERROR, "permission_denied"),
                (-32003, error_code::RESOURCE_NOT_FOUND, "session_expired"),
            ],
            ambiguous: &[],
            encoded: &[
                (Meaning::Closed, -32000),
                (Meaning::Timeout, -32001),
                (Meaning::Auth, -32002),
                (Meaning::Denied, -32002),
                (Meaning::MissingSession, -32003),
                (Meaning::MissingFile, error_code::INVALID_PARAMS),
            ],
        }
    }

    fn is_initialized(&self, result: &Map) -> bool {
        let capabilities = result.get("agentCapabilities");
        let prompt = capabilities.and_then(|capabilities| capabilities.get("promptCapabilities"));
        let has_list = prompt.and_then(|prompt| prompt.get("content")).is_some_and(Value::is_array);
        let is_go = has_list || capabilities.is_some_and(|capabilities| capabilities.get("mcp").is_some());
        is_go && text(result, "protocolVersion").is_none()
    }

    fn is_later(&self, params: &Map) -> bool {
        let own = ["toolKind", "input", "output", "plan"];
        let is_go = |update: &Map| {
            updates::is_call(text(update, "kind")) || own.iter().any(|name| update.contains_key(*name))
        };
        let servers = params.get("mcpServers").is_some_and(Value::is_object);
        params.get("update").and_then(Value::as_object).is_some_and(is_go)
            || servers && !params.contains_key("workDir")
    }

    fn decode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        note_snake(core, request.method, &request.params);
        translate_request(core, request);
        Ok(())
    }

    fn encode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        translate_request(core, request);
        Ok(())
    }

    fn decode_notification(&self, core: &mut Core, frame: &Frame, method: &str, params: Map) {
        note_snake(core, method, &params);
        match method {
            method::SESSION_UPDATE => updates::translate(core, frame, params),
            method::SESSION_CANCEL => {
                shared::mark_cancelled(core, text(&params, "sessionId"));
                core.pass(frame);
            }
            _ => shared::told_through(core, frame, method),
        }
    }

    fn encode_notification(&self, core: &mut Core, frame: &Frame, method: &str, params: Map) {
        match method {
            method::SESSION_UPDATE => updates::translate(core, frame, params),
            method::SESSION_CANCEL => core.pass(frame),
            _ => shared::told_through(core, frame, method),
        }
    }

    fn decode_result(&self, core: &mut Core, id: &Id, asked: OpenRequest, result: Value) {
        match &*asked.method {
            method::INITIALIZE => capabilities::decode(core, id, result),
            method::SESSION_PROMPT => decode_prompted(core, id, &asked, result),
            _ => session_result(core, id, &asked, result),
        }
    }

    fn encode_result(&self, core: &mut Core, id: &Id, asked: OpenRequest, result: Value) {
        match &*asked.method {
            method::INITIALIZE => capabilities::encode(core, id, result),
            method::SESSION_PROMPT => encode_prompted(core, id, &asked, result),
            _ => session_result(core, id, &asked, result),
        }
    }
}

/// The answers to `session/new`, `session/load` and permission requests are the same in both forms.
fn session_result(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    if asked.method != method::SESSION_NEW || shared::learn_session(core, id, &result) {
        core.answer_on(id, result);
    }
}

fn decode_prompted(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    if let Some(session) = asked.session.as_deref() {
        shared::end_turn(core, session, id);
    }
    let Some(mut re) = ObjectMapper::of_result(core, id, method::SESSION_PROMPT, result) else { return };
    if let Some(named) = re.take("sessionId")
        && named.as_str() != asked.session.as_deref()
    {
        re.carry("sessionId", named, WrongShape, "the answer names another session than the prompt");
    }
    if re.restored("stopReason").is_some() {
        re.take("stopReason");
    } else {
        re.keep(&["stopReason"]);
    }
    if re.placed("stopReason").is_none() && re.restored("stopReason").is_none() {
        re.note(WrongShape, "stopReason", "the stop reason is missing");
    }
    re.answer(id);
}

fn encode_prompted(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    if let Some(session) = asked.session.as_deref() {
        shared::end_turn(core, session, id);
    }
    let Some(mut re) = ObjectMapper::of_result(core, id, method::SESSION_PROMPT, result) else { return };
    if let Some(session) = asked.session.clone() {
        re.set("sessionId", session);
    }
    match re.take("stopReason") {
        Some(reason) if reason == stop_reason::MAX_TURN_REQUESTS => {
            re.set("stopReason", stop_reason::MAX_TOKENS);
            re.carry("stopReason", reason, Lossy, "go has no max_turn_requests; said as max_tokens");
        }
        Some(reason) => re.set("stopReason", reason),
        None => re.note(WrongShape, "stopReason", "the stop reason is missing"),
    }
    re.answer(id);
}

/// A request in either direction: the original bytes where nothing changed, else the changed params.
fn translate_request(core: &mut Core, request: Request<'_>) {
    let Request { frame, id, method, mut params } = request;
    let decoding = core.is_decoding();
    let mut session = text(&params, "sessionId").map(str::to_owned);
    let changed = match method {
        method::INITIALIZE => {
            session = None;
            if !decoding {
                capabilities::note_client(core, &params);
            }
            false
        }
        method::SESSION_NEW | method::SESSION_LOAD if decoding => servers::decode(core, method, &mut params),
        method::SESSION_NEW | method::SESSION_LOAD => servers::encode(core, method, &mut params),
        method::SESSION_PROMPT => {
            if let Some(session) = &session {
                core.session(session).begin_turn(id);
            }
            content::recast_prompt(core, &mut params)
        }
        method::SESSION_REQUEST_PERMISSION if decoding => false,
        method::SESSION_REQUEST_PERMISSION => {
            updates::complete_permission(core, session.as_deref(), &mut params)
        }
        _ if decoding => return shared::through_quietly(core, frame, id, method),
        _ => return shared::through(core, frame, id, method),
    };
    let asked = OpenRequest::new(method.to_owned(), session);
    if changed {
        return core.request(core.onward(), id, method, params, asked);
    }
    core.expect(core.onward(), id, asked);
    core.pass(frame);
}

/// Notes snake-case params, which are `2025.1` and not go.
fn note_snake(core: &mut Core, method: &str, params: &Map) {
    if params.contains_key("session_id") || params.contains_key("protocol_version") {
        let message = "the fields are spelled as in 2025.1 on a go connection; passed as they are";
        core.note(OtherDialect, method.to_owned(), "", message);
    }
}
