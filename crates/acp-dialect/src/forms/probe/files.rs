//! `readTextFile`, `writeTextFile`: paths relative to the directory given at start, no session; in both directions.

use acp_proto::{Side, method};
use acp_rpc::Id;
use serde_json::{Value, json};

use crate::core::{Core, OpenRequest, Refusal, Wire};
use crate::json::{Map, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Lossy, Passed};
use crate::shared;

pub(super) fn decode(core: &mut Core, id: &Id, method: &str, params: Map) -> Result<(), Refusal> {
    let canonical =
        if method == "readTextFile" { method::FS_READ_TEXT_FILE } else { method::FS_WRITE_TEXT_FILE };
    if core.side == Side::Client {
        let message = "v1 clients do not read the agent's files; passed on for agents that answer anyway";
        core.note(Passed, method.to_owned(), "", message);
    }
    let session = match text(&params, "sessionId") {
        Some(session) => core.canonical_id(session).to_owned(),
        None => shared::infer_session(core, method)?,
    };
    let base = core.options.work_dir.clone();
    let mut re = ObjectMapper::new(core, method.to_owned(), "", params);
    re.take("sessionId");
    re.set("sessionId", session.clone());
    if let Some(path) = re.take_text("path") {
        let full = shared::absolute(&base, &path);
        if full != path {
            re.carry_quietly("path", path.into());
        }
        re.set("path", full);
    }
    re.keep(&["content"]);
    re.ask_as(id, canonical, OpenRequest::new(canonical, Some(session)));
    Ok(())
}

pub(super) fn encode(core: &mut Core, id: &Id, method: &str, params: Map) {
    let name = if method == method::FS_READ_TEXT_FILE { "readTextFile" } else { "writeTextFile" };
    let base = format!("{}/", core.options.work_dir.trim_end_matches('/'));
    let mut re = ObjectMapper::new(core, name, "", params);
    let session = re.take_text("sessionId");
    if let Some(session) = &session {
        let foreign = re.core.foreign_id(session).to_owned();
        re.note(Lossy, "sessionId", "probe names no session here; sent all the same");
        re.set("sessionId", foreign);
    }
    if let Some(path) = re.take_text("path") {
        if re.restored("path").is_none() {
            let relative = path.strip_prefix(&base).unwrap_or(&path).to_owned();
            re.set("path", relative);
        }
        if let (Some(session), "writeTextFile") = (&session, name) {
            re.core.session(session).wrote(&path);
        }
    }
    re.keep(&["content"]);
    let job = re.take_range("probe reads whole files; the translator cuts out the lines");
    re.ask_as(id, name, OpenRequest::new(method.to_owned(), session).with(job));
}

pub(super) fn encode_result(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    match result {
        Value::Null => core.answer(Wire::Foreign, id, json!({ "success": true })),
        Value::Object(result) => {
            let mut re = ObjectMapper::new(core, asked.method.to_string(), "result", result);
            re.keep(&["content", "outcome", "terminalId"]);
            if asked.method == method::FS_WRITE_TEXT_FILE {
                re.set("success", true);
            }
            re.answer(id);
        }
        other => shared::wrong_answer(core, id, &asked.method, "it is not an object", other),
    }
}

pub(super) fn decode_result(core: &mut Core, id: &Id, asked: OpenRequest, result: Value) {
    let mut result = match result {
        Value::Null => Map::new(),
        Value::Object(result) => result,
        other => return shared::wrong_answer(core, id, &asked.method, "it is not an object", other),
    };
    shared::cut_content(&mut result, &asked);
    let mut re = ObjectMapper::new(core, asked.method.to_string(), "result", result);
    re.drop_if("success", true);
    re.keep(&["content"]);
    re.answer(id);
}
