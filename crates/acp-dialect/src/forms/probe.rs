//! `probe`: `newSession`, `prompt`, `messageChunk`; text in, text out, history in one piece.

mod connect;
mod files;
mod sessions;
mod turns;
mod updates;

use acp_proto::{error_code, method, update};
use acp_rpc::{Frame, Id, RpcError};
use serde_json::{Value, json};

use crate::chunk::ChunkForm;
use crate::codes::{Codes, Meaning};
use crate::core::{Core, OpenRequest, Refusal, Wire};
use crate::form::{Form, Request};
use crate::json::{Map, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Answered, Lossy, OtherDialect, Passed};
use crate::shared;
use crate::traits::{AgentCard, AgentFiles, FormTraits};

/// The form itself.
pub(crate) struct Probe;

impl Form for Probe {
    fn traits(&self) -> &'static FormTraits {
        &FormTraits {
            name: "probe",
            version: "\"1\"",
            meta_key: "acp-dialect/probe",
            refuses_versions: true,
            clients_can_be_asked: false,
            needs_pauses: true,
            plans_in_words: true,
            tool_errors: true,
            agent_files: Some(AgentFiles {
                read: "readTextFile",
                write: "writeTextFile",
                denied: -32003,
                failed: -32004,
            }),
            ..FormTraits::V1
        }
    }

    fn codes(&self) -> &'static Codes {
        &Codes {
            decoded: &[
                (-32001, error_code::INTERNAL_ERROR, "unsupported_protocol_version"),
                (-32002, error_code::RESOURCE_NOT_FOUND, "session_not_found"),
                (-32003, error_code::INTERNAL_ERROR, "permission_denied"),
                (-32004, error_code::INTERNAL_ERROR, "tool_execution_failed"),
            ],
            ambiguous: &[],
            encoded: &[
                (Meaning::Version, -32001),
                (Meaning::MissingSession, -32002),
                (Meaning::MissingFile, -32002),
                (Meaning::Auth, -32003),
                (Meaning::Denied, -32003),
                (Meaning::ToolFailed, -32004),
            ],
        }
    }

    fn chunks(&self) -> &'static ChunkForm {
        &updates::CHUNKS
    }

    fn own_methods(&self) -> &'static [&'static str] {
        &[
            "newSession",
            "loadSession",
            "setSessionMode",
            "prompt",
            "cancel",
            "readTextFile",
            "writeTextFile",
            "toolCallProgress",
            "messageChunk",
            "sessionUpdated",
        ]
    }

    fn is_initialize(&self, params: &Map) -> bool {
        text(params, "protocolVersion") == Some("1")
    }

    fn is_initialized(&self, result: &Map) -> bool {
        text(result, "protocolVersion") == Some("1")
    }

    fn decode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        let Request { frame, id, method, params } = request;
        match method {
            method::INITIALIZE => return connect::decode_initialize(core, id, params),
            "newSession" => return sessions::decode_new(core, id, params),
            "loadSession" => sessions::decode_load(core, id, params),
            "setSessionMode" => sessions::mode(core, id, params),
            "prompt" => turns::decode_prompt(core, id, params),
            "cancel" => {
                shared::decode_cancel(core, "cancel", "sessionId", params);
                let message = "v1 cancels by notification; acknowledged by the translator";
                core.note(Answered, "cancel", "", message);
                core.answer(Wire::Foreign, id, json!({ "success": true }));
            }
            "readTextFile" | "writeTextFile" => return files::decode(core, id, method, params),
            "requestPermission" => declared(core, id, method, method::SESSION_REQUEST_PERMISSION, params),
            "createTerminal" => declared(core, id, method, method::TERMINAL_CREATE, params),
            _ if is_v1(method) => {
                let message = "a v1 method on a probe connection; passed unchanged";
                core.note(OtherDialect, method.to_owned(), "", message);
                shared::through_quietly(core, frame, id, method);
            }
            _ => shared::through(core, frame, id, method),
        }
        Ok(())
    }

    fn encode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        let Request { frame, id, method, params } = request;
        match method {
            method::INITIALIZE => connect::encode_initialize(core, id, params),
            method::SESSION_NEW => sessions::encode_new(core, id, params),
            method::SESSION_LOAD => sessions::encode_load(core, id, params),
            method::SESSION_SET_MODE => sessions::mode(core, id, params),
            method::SESSION_PROMPT => turns::encode_prompt(core, id, params),
            method::SESSION_REQUEST_PERMISSION => shared::answer_unasked(core, id, &params),
            method::FS_READ_TEXT_FILE | method::FS_WRITE_TEXT_FILE => files::encode(core, id, method, params),
            _ if is_v1(method) => return Err(Refusal::absent(method, core.dialect)),
            _ => shared::through(core, frame, id, method),
        }
        Ok(())
    }

    fn decode_notification(&self, core: &mut Core, frame: &Frame, method: &str, params: Map) {
        match method {
            "messageChunk" => updates::decode_chunk(core, params),
            "toolCallProgress" => updates::decode_progress(core, params),
            "sessionUpdated" => updates::decode_updated(core, params),
            "planUpdated" => updates::decode_declared(core, method, update::PLAN, params),
            "availableCommands" => {
                updates::decode_declared(core, method, update::AVAILABLE_COMMANDS_UPDATE, params);
            }
            "cancel" => drop(shared::decode_cancel(core, "cancel", "sessionId", params)),
            _ if is_v1(method) => {
                let message = "a v1 notification on a probe connection; passed unchanged";
                core.note(OtherDialect, method.to_owned(), "", message);
                core.pass(frame);
            }
            _ => shared::told_through(core, frame, method),
        }
    }

    fn encode_notification(&self, core: &mut Core, frame: &Frame, method: &str, params: Map) {
        match method {
            method::SESSION_UPDATE => updates::encode(core, params),
            method::SESSION_CANCEL => {
                let mut re = ObjectMapper::new(core, "cancel", "", params);
                let session = re.session("sessionId", "sessionId");
                let params = re.finish();
                shared::cancel_as_request(core, "cancel", params, session);
            }
            method::CANCEL_REQUEST => {
                let message = "probe cannot cancel a single request; not passed on";
                core.note(Lossy, method::CANCEL_REQUEST, "", message);
            }
            method::ELICITATION_COMPLETE => {
                core.note(Lossy, method::ELICITATION_COMPLETE, "", "probe has no elicitation; not passed on");
            }
            _ => shared::told_through(core, frame, method),
        }
    }

    fn decode_result(&self, core: &mut Core, id: &Id, asked: OpenRequest, result: Value) {
        match &*asked.method {
            method::INITIALIZE => connect::decode_initialized(core, id, result),
            method::SESSION_NEW => sessions::decode_made(core, id, result),
            method::SESSION_LOAD => sessions::decode_loaded(core, id, &asked, result),
            method::SESSION_SET_MODE => sessions::decode_mode_set(core, id, result),
            method::SESSION_PROMPT => turns::decode_prompted(core, id, &asked, result),
            _ => files::decode_result(core, id, asked, result),
        }
    }

    fn encode_result(&self, core: &mut Core, id: &Id, asked: OpenRequest, result: Value) {
        match &*asked.method {
            method::INITIALIZE => connect::encode_initialized(core, id, result),
            method::SESSION_NEW => {
                if let Some(result) = shared::session_made(core, id, &asked, result) {
                    sessions::encode_made(core, id, result);
                }
            }
            method::SESSION_LOAD => sessions::encode_loaded(core, id, &asked, result),
            method::SESSION_SET_MODE => sessions::encode_mode_set(core, id, asked, result),
            method::SESSION_PROMPT => turns::encode_prompted(core, id, &asked, result),
            _ => files::encode_result(core, id, &asked, result),
        }
    }

    fn error_message(&self, method: &str, message: String) -> String {
        match method {
            method::SESSION_PROMPT => message.replacen("params.prompt", "params.message", 1),
            method::SESSION_SET_MODE => message.replacen("params.modeId", "params.mode", 1),
            _ => message,
        }
    }

    fn decode_failure(&self, core: &mut Core, id: &Id, asked: &OpenRequest, error: &RpcError) -> bool {
        match (&*asked.method, error.code) {
            (method::INITIALIZE, -32001) => {
                connect::version_refused(core, id, error);
                true
            }
            (method::SESSION_PROMPT, -32004) => turns::tool_failed(core, id, asked, error),
            _ => false,
        }
    }

    fn capabilities(&self, card: &AgentCard) -> Option<Value> {
        let tool = |(name, kind): &(String, String)| json!({ "name": name, "kind": kind });
        let tools: Vec<Value> = card.offered.iter().map(tool).collect();
        (!tools.is_empty()).then(|| json!({ "tools": tools, "permissions": false }))
    }

    fn complete(&self, core: &mut Core, frame: Frame, unix_millis: u64) -> Option<Frame> {
        updates::complete(core, frame, unix_millis)
    }

    fn encode_made(&self, core: &mut Core, id: &Id, result: Map) {
        sessions::encode_made(core, id, result);
    }
}

/// Names that the form declares without saying their shape: the v1 shape is assumed.
fn declared(core: &mut Core, id: &Id, method: &str, canonical: &'static str, params: Map) {
    core.note(Passed, method.to_owned(), "", "declared by the form without a shape; passed with v1's");
    let session = params.get("sessionId").and_then(Value::as_str).map(str::to_owned);
    core.request(Wire::Canonical, id, canonical, params, OpenRequest::new(canonical, session));
}

fn is_v1(method: &str) -> bool {
    matches!(method, method::AUTHENTICATE | method::LOGOUT)
        || ["session/", "fs/", "terminal/", "elicitation/"].iter().any(|family| method.starts_with(family))
}
