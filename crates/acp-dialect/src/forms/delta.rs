//! `delta`: `assistant.message_delta` over TCP, permission by notification, cancel as a request.

mod connect;
mod permission;
mod turns;

use acp_proto::method;
use acp_rpc::{Frame, Id, RpcError};
use serde_json::{Value, json};

use crate::chunk::ChunkForm;
use crate::core::{Core, OnAnswer, OpenRequest, Refusal, Wire};
use crate::detect::is_date;
use crate::form::{Form, Request};
use crate::json::{Map, text};
use crate::note::NoteKind::{Answered, OtherDialect, Passed};
use crate::shared;
use crate::traits::FormTraits;

/// The form itself.
pub(crate) struct Delta;

impl Form for Delta {
    fn traits(&self) -> &'static FormTraits {
        &FormTraits {
            name: "delta",
            version: "\"2025-01-01\"",
            meta_key: "acp-dialect/delta",
            goes_on_like_v1: true,
            ..FormTraits::V1
        }
    }

    fn chunks(&self) -> &'static ChunkForm {
        &turns::CHUNKS
    }

    fn own_methods(&self) -> &'static [&'static str] {
        &["assistant.message_delta", "session/permission_response"]
    }

    fn is_initialize(&self, params: &Map) -> bool {
        text(params, "protocolVersion").is_some_and(is_date)
    }

    fn is_initialized(&self, result: &Map) -> bool {
        text(result, "protocolVersion").is_some_and(is_date)
    }

    fn is_later(&self, params: &Map) -> bool {
        params.contains_key("workDir") || params.get("prompt").is_some_and(Value::is_string)
    }

    fn decode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        let Request { frame, id, method, params } = request;
        note_snake(core, method, &params);
        match method {
            method::INITIALIZE => connect::decode_initialize(core, id, params),
            method::SESSION_NEW => connect::decode_new(core, id, params),
            method::SESSION_LOAD => turns::decode_load(core, id, params),
            method::SESSION_PROMPT => turns::decode_prompt(core, id, params),
            method::SESSION_CANCEL => {
                let session = text(&params, "sessionId").unwrap_or_default().to_owned();
                decode_cancel(core, params);
                let message = "v1 cancels by notification; acknowledged by the translator";
                core.note(Answered, method::SESSION_CANCEL, "", message);
                core.answer(Wire::Foreign, id, json!({ "sessionId": session, "canceled": true }));
            }
            method::SESSION_REQUEST_PERMISSION => shared::through_quietly(core, frame, id, method),
            _ => shared::through(core, frame, id, method),
        }
        Ok(())
    }

    fn encode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        let Request { frame, id, method, params } = request;
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

    fn decode_notification(&self, core: &mut Core, frame: &Frame, method: &str, params: Map) {
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

    fn encode_notification(&self, core: &mut Core, frame: &Frame, method: &str, params: Map) {
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

    fn decode_result(&self, core: &mut Core, id: &Id, asked: OpenRequest, result: Value) {
        match &*asked.method {
            method::INITIALIZE => connect::decode_initialized(core, id, result),
            method::SESSION_NEW => made(core, id, result),
            method::SESSION_LOAD => turns::decode_loaded(core, id, result),
            method::SESSION_PROMPT => turns::decode_prompted(core, id, &asked, result),
            _ => core.answer(Wire::Canonical, id, result),
        }
    }

    fn encode_result(&self, core: &mut Core, id: &Id, asked: OpenRequest, result: Value) {
        match (&*asked.method, &asked.job) {
            (method::INITIALIZE, _) => connect::encode_initialized(core, id, result),
            (method::SESSION_NEW, _) => made(core, id, result),
            (method::SESSION_LOAD, _) => turns::encode_loaded(core, id, &asked, result),
            (method::SESSION_PROMPT, _) => turns::encode_prompted(core, id, &asked, result),
            (_, OnAnswer::Told { .. }) => permission::decided(core, &asked, &result),
            _ => core.answer(Wire::Foreign, id, result),
        }
    }

    fn permission_failed(&self, core: &mut Core, session: Option<&str>, error: &RpcError) {
        permission::failed(core, session, error);
    }
}

fn made(core: &mut Core, id: &Id, result: Value) {
    if !shared::learn_session(core, id, &result) {
        return;
    }
    let names: Vec<String> = result.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    for name in names.iter().filter(|name| *name != "sessionId" && *name != "_meta") {
        let field = format!("result.{name}");
        core.note(Passed, method::SESSION_NEW, field, "delta does not name it; passed unchanged");
    }
    core.answer_on(id, result);
}

fn decode_cancel(core: &mut Core, params: Map) {
    if let Some(session) = shared::decode_cancel(core, method::SESSION_CANCEL, "sessionId", params) {
        shared::cancel_asks(core, &session);
    }
}

/// Notes snake-case params, which are `2025.1` and not delta.
fn note_snake(core: &mut Core, method: &str, params: &Map) {
    if params.contains_key("session_id") || params.contains_key("protocol_version") {
        let message = "the fields are spelled as in 2025.1 on a delta connection";
        core.note(OtherDialect, method.to_owned(), "", message);
    }
}
