//! `2025.1`: snake-case names, ids chosen by the client, directory and MCP servers given at initialize.

mod blocks;
mod connect;
mod sessions;
mod updates;
mod world;

use acp_proto::{error_code, method};
use acp_rpc::{Frame, Id};
use serde_json::{Value, json};

use crate::chunk::ChunkForm;
use crate::codes::{Codes, Meaning};
use crate::core::{Core, OpenRequest, Refusal, Wire};
use crate::form::{Form, Request};
use crate::json::Map;
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Answered, Lossy, OtherDialect};
use crate::shared;
use crate::traits::{AgentCard, FormTraits};

/// The form itself.
pub(crate) struct V2025;

impl Form for V2025 {
    fn traits(&self) -> &'static FormTraits {
        &FormTraits {
            name: "2025.1",
            version: "\"2025.1\"",
            meta_key: "acp-dialect/2025.1",
            clients_can_be_asked: false,
            folder_at_initialize: true,
            mode_aliases: true,
            ..FormTraits::V1
        }
    }

    fn codes(&self) -> &'static Codes {
        &Codes {
            decoded: &[
                (-32001, error_code::RESOURCE_NOT_FOUND, "resource_not_found"),
                (-32002, error_code::INTERNAL_ERROR, "permission_denied"),
                (-32003, error_code::INVALID_REQUEST, "invalid_state"),
                (-32004, error_code::METHOD_NOT_FOUND, "capability_not_supported"),
            ],
            // On the way back they would be read as a state or a missing capability.
            ambiguous: &[error_code::INVALID_REQUEST, error_code::METHOD_NOT_FOUND],
            encoded: &[
                (Meaning::MissingSession, -32001),
                (Meaning::MissingFile, -32001),
                (Meaning::Auth, -32002),
                (Meaning::Denied, -32002),
                (Meaning::State, -32003),
                (Meaning::Gated, -32004),
            ],
        }
    }

    fn chunks(&self) -> &'static ChunkForm {
        &updates::CHUNKS
    }

    fn is_initialize(&self, params: &Map) -> bool {
        let own = ["protocol_version", "working_directory", "mcp_servers", "client_info"];
        own.iter().any(|name| params.contains_key(*name))
    }

    fn is_initialized(&self, result: &Map) -> bool {
        result.contains_key("agent_info")
            || !result.contains_key("protocolVersion") && result.contains_key("capabilities")
    }

    fn is_later(&self, params: &Map) -> bool {
        params.contains_key("session_id")
    }

    fn decode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        let Request { frame, id, method, params } = request;
        if is_camel(core, method, &params) {
            shared::through_quietly(core, frame, id, method);
            return Ok(());
        }
        match method {
            method::INITIALIZE => connect::decode_initialize(core, id, params),
            method::AUTHENTICATE => connect::decode_authenticate(core, id, params),
            method::SESSION_NEW => return sessions::decode_new(core, id, params),
            method::SESSION_LOAD => sessions::decode_load(core, id, params),
            method::SESSION_PROMPT => sessions::prompt(core, id, params),
            method::SESSION_CANCEL => {
                shared::decode_cancel(core, method::SESSION_CANCEL, "session_id", params);
                let message = "sent with an id; acknowledged by the translator";
                core.note(Answered, method::SESSION_CANCEL, "", message);
                core.answer(Wire::Foreign, id, ok());
            }
            method::FS_READ_TEXT_FILE | method::FS_WRITE_TEXT_FILE => {
                return world::decode_file(core, id, method, params);
            }
            method::TERMINAL_CREATE => return world::decode_create(core, id, params),
            method::TERMINAL_OUTPUT
            | method::TERMINAL_WAIT_FOR_EXIT
            | method::TERMINAL_KILL
            | method::TERMINAL_RELEASE => {
                return world::decode_terminal(core, id, method, params);
            }
            _ => shared::through(core, frame, id, method),
        }
        Ok(())
    }

    fn encode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        let Request { frame, id, method, params } = request;
        match method {
            method::INITIALIZE => return connect::encode_initialize(core, id, params),
            method::AUTHENTICATE => return connect::encode_authenticate(core, id, params),
            method::SESSION_NEW => return sessions::encode_new(core, id, params),
            method::SESSION_LOAD => return sessions::encode_load(core, id, params),
            method::SESSION_PROMPT => sessions::prompt(core, id, params),
            method::SESSION_REQUEST_PERMISSION => shared::answer_unasked(core, id, &params),
            method::FS_WRITE_TEXT_FILE => {
                shared::needs_asking(core, method, &params)?;
                world::encode_file(core, id, method, params);
            }
            method::FS_READ_TEXT_FILE => world::encode_file(core, id, method, params),
            method::TERMINAL_CREATE => {
                shared::needs_asking(core, method, &params)?;
                world::encode_create(core, id, params);
            }
            method::TERMINAL_OUTPUT
            | method::TERMINAL_WAIT_FOR_EXIT
            | method::TERMINAL_KILL
            | method::TERMINAL_RELEASE => {
                world::encode_terminal(core, id, method, params);
            }
            _ if is_v1_only(method) => return Err(Refusal::absent(method, core.dialect)),
            _ => shared::through(core, frame, id, method),
        }
        Ok(())
    }

    fn decode_notification(&self, core: &mut Core, frame: &Frame, method: &str, params: Map) {
        if is_camel(core, method, &params) {
            core.pass(frame);
            return;
        }
        match method {
            method::SESSION_UPDATE => updates::decode(core, params),
            method::SESSION_CANCEL => {
                shared::decode_cancel(core, method::SESSION_CANCEL, "session_id", params);
            }
            _ => shared::told_through(core, frame, method),
        }
    }

    fn encode_notification(&self, core: &mut Core, frame: &Frame, method: &str, params: Map) {
        match method {
            method::SESSION_UPDATE => updates::encode(core, params),
            method::SESSION_CANCEL => {
                let mut re = ObjectMapper::new(core, method::SESSION_CANCEL, "", params);
                let session = re.session("sessionId", "session_id");
                let params = re.finish();
                shared::mark_cancelled(core, session.as_deref());
                core.tell(Wire::Foreign, method::SESSION_CANCEL, params);
            }
            method::CANCEL_REQUEST => {
                let message = "2025.1 cannot cancel a single request; not passed on";
                core.note(Lossy, method::CANCEL_REQUEST, "", message);
            }
            _ => shared::told_through(core, frame, method),
        }
    }

    fn decode_result(&self, core: &mut Core, id: &Id, asked: OpenRequest, result: Value) {
        match &*asked.method {
            method::INITIALIZE => connect::decode_initialized(core, id, result),
            method::SESSION_NEW => sessions::decode_made(core, id, &asked, result),
            method::SESSION_LOAD => sessions::decode_loaded(core, id, &asked, result),
            method::SESSION_PROMPT => sessions::decode_prompted(core, id, &asked, result),
            method::AUTHENTICATE => {
                let done = sessions::without_status(core, method::AUTHENTICATE, result);
                core.answer(Wire::Canonical, id, done);
            }
            _ => world::decode_result(core, id, asked, result),
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
            method::SESSION_SET_MODE => sessions::mode_set(core, asked),
            method::SESSION_LOAD => sessions::encode_loaded(core, id, &asked, result),
            method::SESSION_PROMPT => sessions::encode_prompted(core, id, &asked, result),
            method::AUTHENTICATE => {
                let result = sessions::status_ok(core, method::AUTHENTICATE, result);
                core.answer(Wire::Foreign, id, result);
            }
            _ => world::encode_result(core, id, &asked, result),
        }
    }

    fn capabilities(&self, card: &AgentCard) -> Option<Value> {
        Some(json!({ "audio": false, "supported_modes": card.modes, "tools": card.tools }))
    }

    fn introduction(&self, card: &AgentCard) -> Option<Value> {
        Some(json!({ "instructions": card.instructions }))
    }

    fn encode_made(&self, core: &mut Core, id: &Id, result: Map) {
        sessions::encode_made(core, id, result);
    }
}

/// Whether the params are in v1's spelling on a `2025.1` wire. They pass as they are: the other side reads v1.
fn is_camel(core: &mut Core, method: &str, params: &Map) -> bool {
    let camel = params.contains_key("sessionId") && !params.contains_key("session_id")
        || method == method::INITIALIZE
            && params.contains_key("protocolVersion")
            && !params.contains_key("protocol_version");
    if camel {
        let message = "the fields are spelled as in v1 on a 2025.1 connection; passed unchanged";
        core.note(OtherDialect, method.to_owned(), "", message);
    }
    camel
}

fn is_v1_only(method: &str) -> bool {
    matches!(method, method::LOGOUT | method::ELICITATION_CREATE) || method.starts_with("session/")
}

fn ok() -> Value {
    json!({ "status": "ok" })
}
