//! `session/update`: tool calls by `kind`, `input` and `output`, plans as a list of strings.

use acp_proto::{method, update};
use acp_rpc::Frame;
use serde_json::{Value, json};

use super::content;
use crate::core::Core;
use crate::json::{Map, object, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Carried, Invented, Lossy, Passed, WrongShape};
use crate::session::Tool;
use crate::shared;

const KINDS: [&str; 9] = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"];

/// An update in either direction: the original bytes where nothing changed.
pub(super) fn translate(core: &mut Core, frame: &Frame, mut params: Map) {
    let session = text(&params, "sessionId").map(str::to_owned);
    let session = session.as_deref();
    let Some(Value::Object(update)) = params.get("update").cloned() else {
        return shared::pass_without_update(core, frame);
    };
    let now = if core.is_decoding() {
        let now = decode_update(core, update.clone());
        session.inspect(|session| shared::observe(core, session, &now));
        now
    } else {
        let interrupted = session.is_some_and(|session| is_interrupted(core, session, &update));
        session.inspect(|session| shared::observe(core, session, &update));
        let mut now = encode_update(core, session, update.clone());
        if interrupted {
            now.insert("status".to_owned(), "cancelled".into());
        }
        now
    };
    if now == update {
        return core.pass(frame);
    }
    params.insert("update".to_owned(), Value::Object(now));
    core.tell(core.onward(), method::SESSION_UPDATE, params);
}

/// Whether a cancel interrupted this call: v1 says failed, go has a word for it.
fn is_interrupted(core: &Core, session: &str, update: &Map) -> bool {
    let Some(session) = core.sessions.get(session) else { return false };
    let open = text(update, "toolCallId").and_then(|id| session.tools.get(id)).is_some_and(Tool::is_open);
    open && text(update, "status") == Some("failed")
        && session.turn.as_ref().is_some_and(|turn| turn.cancelled)
}

pub(super) fn is_call(word: Option<&str>) -> bool {
    matches!(word, Some(update::TOOL_CALL | update::TOOL_CALL_UPDATE))
}

fn decode_update(core: &mut Core, mut update: Map) -> Map {
    if text(&update, "sessionUpdate").is_none() && is_call(text(&update, "kind")) {
        let variant = update.shift_remove("kind").unwrap_or_default();
        update.shift_insert(0, "sessionUpdate".to_owned(), variant);
    } else if is_call(text(&update, "kind")) {
        update.shift_remove("kind");
    }
    if is_call(text(&update, "sessionUpdate")) {
        return decode_call(core, update);
    }
    if update.get("plan").is_some_and(Value::is_object) {
        return decode_plan(core, update);
    }
    if let Some(block) = update.get("content").filter(|block| block.is_object()).cloned() {
        update.insert("content".to_owned(), content::recast(core, method::SESSION_UPDATE, block));
    }
    update
}

fn decode_call(core: &mut Core, update: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "update", update);
    re.keep(&["sessionUpdate", "toolCallId", "title", "name"]);
    if re.placed("sessionUpdate").and_then(Value::as_str) == Some(update::TOOL_CALL) {
        let title = re.placed("toolCallId").cloned().unwrap_or_default();
        re.invent("title", title, "v1 needs a title; the id was taken");
    }
    let go_kind = re.take("toolKind");
    let kind = re.take("kind");
    if let Some(kind) = go_kind.or(kind)
        && re.restored("kind").is_none()
    {
        re.set("kind", kind);
    }
    match re.take("status") {
        Some(status) if status == "cancelled" => {
            re.set("status", "failed");
            re.carry("status", status, Lossy, "v1 has no cancelled tool calls; said as failed");
        }
        Some(status) => re.set("status", status),
        None => {}
    }
    re.keep(&["rawInput", "rawOutput", "locations"]);
    re.rename("input", "rawInput");
    if let Some(output) = re.take_list("output") {
        let (blocks, strange) = decode_output(re.core, output);
        re.set("content", blocks);
        if !strange.is_empty() {
            re.carry_quietly("output", strange.into());
        }
    } else {
        re.keep(&["content"]);
    }
    re.finish()
}

/// v1 blocks, and the blocks that v1 cannot take.
fn decode_output(core: &mut Core, output: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
    let (mut blocks, mut strange) = (Vec::new(), Vec::new());
    for block in output {
        let kind = block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match (kind.as_str(), block) {
            ("diff", Value::Object(block)) => {
                let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "update.output", block);
                re.keep(&["type", "path"]);
                re.rename("oldContent", "oldText");
                re.rename("newContent", "newText");
                re.keep(&["oldText", "newText"]);
                re.invent("newText", "", "an empty newContent is left out in go");
                blocks.push(Value::Object(re.finish()));
            }
            ("terminal", block) => match restored_terminal(&block) {
                Some(block) => blocks.push(block),
                None => {
                    let message = "go does not say which terminal; kept in _meta";
                    core.note(Lossy, method::SESSION_UPDATE, "update.output.terminal", message);
                    strange.push(block);
                }
            },
            (_, block) => blocks.push(block),
        }
    }
    (blocks, strange)
}

fn restored_terminal(block: &Value) -> Option<Value> {
    let carried = || block.get("_meta")?.get(shared::V1_KEY)?.get("terminalId");
    let terminal = block.get("terminalId").or_else(carried)?;
    Some(json!({ "type": "terminal", "terminalId": terminal }))
}

fn decode_plan(core: &mut Core, update: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "update", update);
    re.take("sessionUpdate");
    re.set("sessionUpdate", update::PLAN);
    let mut plan = re.take_map("plan").unwrap_or_default();
    let steps = plan.shift_remove("steps").and_then(|steps| steps.as_array().cloned()).unwrap_or_default();
    if !plan.is_empty() {
        re.carry("plan", plan.into(), Carried, "v1 plans have entries only; the rest is kept in _meta");
    }
    re.note(Invented, "plan.steps", "go steps have neither a priority nor a status: medium and pending");
    let entries: Vec<Value> = steps
        .into_iter()
        .map(|step| json!({ "content": step, "priority": "medium", "status": "pending" }))
        .collect();
    re.set_new("entries", entries);
    re.finish()
}

fn encode_update(core: &mut Core, session: Option<&str>, mut update: Map) -> Map {
    match text(&update, "sessionUpdate") {
        Some(update::TOOL_CALL | update::TOOL_CALL_UPDATE) => encode_call(core, session, update),
        Some(update::PLAN) => encode_plan(core, update),
        Some(update::AGENT_MESSAGE_CHUNK | update::USER_MESSAGE_CHUNK | update::AGENT_THOUGHT_CHUNK) => {
            let block = update.get("content").cloned().unwrap_or_default();
            if block.get("type").and_then(Value::as_str) != Some("text") {
                let message = "go chunks are text; the block is passed in go's shape";
                core.note(Passed, method::SESSION_UPDATE, "update.content", message);
            }
            let now = content::recast(core, method::SESSION_UPDATE, block.clone());
            if now != block {
                update.insert("content".to_owned(), now);
            }
            update
        }
        other => {
            let message =
                format!("go does not name the update {:?}; passed unchanged", other.unwrap_or_default());
            core.note(Passed, method::SESSION_UPDATE, "update.sessionUpdate", message);
            update
        }
    }
}

/// A go client may read either spelling of the variant, so both are there.
fn encode_call(core: &mut Core, session: Option<&str>, update: Map) -> Map {
    let known = session
        .and_then(|session| core.sessions.get(session))
        .zip(text(&update, "toolCallId"))
        .and_then(|(session, id)| session.tools.get(id))
        .cloned()
        .unwrap_or_default();
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "update", update);
    let variant = re.peek("sessionUpdate").cloned().unwrap_or_default();
    re.keep(&["sessionUpdate"]);
    re.set("kind", variant);
    re.keep(&["toolCallId", "title"]);
    if let Some(kind) = re.take("kind") {
        encode_kind(&mut re, "toolKind", kind);
    }
    match re.take_restored("status") {
        Some(status) => {
            re.take("status");
            re.set("status", status);
        }
        None => re.keep(&["status"]),
    }
    re.invent("status", known.status, "go wants a status each time; the last known one was given");
    re.rename("rawInput", "input");
    if let Some(blocks) = re.take_list("content") {
        let output: Vec<Value> = blocks.into_iter().map(|block| encode_output(re.core, block)).collect();
        re.set("output", output);
    }
    let strange = re.take_restored("output");
    if let Some(Value::Array(strange)) = strange {
        let mut output = re.placed("output").and_then(Value::as_array).cloned().unwrap_or_default();
        output.extend(strange);
        re.set("output", output);
    }
    re.finish()
}

fn encode_kind(re: &mut ObjectMapper<'_>, field: &str, kind: Value) {
    if kind.as_str().is_none_or(|kind| KINDS.contains(&kind)) {
        return re.set(field, kind);
    }
    re.set(field, "other");
    re.carry("kind", kind, Lossy, "go does not know this kind of tool; said as other");
}

fn encode_output(core: &mut Core, block: Value) -> Value {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match (kind.as_str(), block) {
        ("diff", Value::Object(block)) => {
            let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "update.content", block);
            re.keep(&["type", "path"]);
            re.rename("oldText", "oldContent");
            re.rename("newText", "newContent");
            Value::Object(re.finish())
        }
        ("terminal", Value::Object(block)) => {
            let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "update.content", block);
            re.keep(&["type"]);
            if let Some(terminal) = re.take("terminalId") {
                re.carry("terminalId", terminal, Lossy, "go has no field for the terminal; kept in _meta");
            }
            Value::Object(re.finish())
        }
        (_, block) => block,
    }
}

fn encode_plan(core: &mut Core, update: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "update", update);
    re.take("sessionUpdate");
    let entries = re.take_list("entries").unwrap_or_default();
    let steps: Vec<Value> =
        entries.iter().map(|entry| entry.get("content").cloned().unwrap_or_default()).collect();
    let mut plan = match re.take_restored("plan") {
        Some(Value::Object(plan)) => plan,
        _ => object([("description", "Plan".into())]),
    };
    plan.insert("steps".to_owned(), steps.into());
    re.set("plan", plan);
    let usual = |entry: &Value| {
        entry.get("priority").and_then(Value::as_str) == Some("medium")
            && entry.get("status").and_then(Value::as_str) == Some("pending")
    };
    if !entries.iter().all(usual) {
        let message = "go plans have neither status nor priority; kept in _meta";
        re.carry("entries", entries.into(), Lossy, message);
    }
    re.finish()
}

/// The Go struct wants a title and a kind with each permission request; says whether anything changed.
pub(super) fn complete_permission(core: &mut Core, session: Option<&str>, params: &mut Map) -> bool {
    let Some(Value::Object(call)) = params.get("toolCall").cloned() else {
        let message = "it is missing or not an object; passed unchanged";
        core.note(WrongShape, method::SESSION_REQUEST_PERMISSION, "toolCall", message);
        return false;
    };
    let id = text(&call, "toolCallId").unwrap_or_default().to_owned();
    let known = session
        .and_then(|session| core.sessions.get(session))
        .and_then(|session| session.tools.get(&id))
        .cloned()
        .unwrap_or_default();
    let mut re = ObjectMapper::new(core, method::SESSION_REQUEST_PERMISSION, "toolCall", call.clone());
    re.keep(&["toolCallId", "title"]);
    let title = if known.name.is_empty() { id } else { known.name };
    re.invent("title", title, "go wants a title; the last known one was given");
    if let Some(kind) = re.take("kind") {
        encode_kind(&mut re, "kind", kind);
    }
    let kind = if KINDS.contains(&known.kind.as_str()) { known.kind } else { "other".to_owned() };
    re.invent("kind", kind, "go wants a kind; the last known one was given");
    for field in ["status", "rawInput", "rawOutput", "content", "locations", "name"] {
        if let Some(value) = re.take(field) {
            re.note(Passed, field, "go has no field for it here; passed unchanged");
            re.set(field, value);
        }
    }
    let now = re.finish();
    let changed = now != call;
    params.insert("toolCall".to_owned(), Value::Object(now));
    changed
}
