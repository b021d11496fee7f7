//! `session/update {session_id, type, data}`.

use acp_proto::{join, method, tool_status, update};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::chunk::{Chunk, ChunkForm, ChunkKind, NOTIFICATION};
use crate::core::{Core, Wire};
use crate::json::{Map, into_map, object, text, text_of};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Carried, Invented, Lossy, Passed, WrongShape};
use crate::shared;

/// Streamed text in this form.
pub(super) static CHUNKS: ChunkForm = ChunkForm {
    method: method::SESSION_UPDATE,
    head: join!(NOTIFICATION, method::SESSION_UPDATE, r#"","params":{"session_id":"#),
    between: &[
        (ChunkKind::Agent, join!(r#","type":""#, update::AGENT_MESSAGE_CHUNK, r#"","data":{"text":"#)),
        (ChunkKind::Thought, join!(r#","type":""#, update::AGENT_THOUGHT_CHUNK, r#"","data":{"text":"#)),
        (ChunkKind::User, join!(r#","type":""#, update::USER_MESSAGE_CHUNK, r#"","data":{"text":"#)),
    ],
    tail: "}}}",
    read: read_chunk,
    sent: &[ChunkKind::Agent, ChunkKind::Thought],
    counted: None,
    repeated: false,
    canonical: false,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnakeChunk<'a> {
    #[serde(borrow)]
    session_id: &'a RawValue,
    #[serde(rename = "type")]
    kind: ChunkKind,
    #[serde(borrow)]
    data: SnakeData<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnakeData<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

fn read_chunk(params: &str) -> Option<Chunk<'_>> {
    let chunk: SnakeChunk<'_> = serde_json::from_str(params).ok()?;
    Chunk::new(chunk.session_id.get(), chunk.kind, chunk.data.text.get(), None)
}

pub(super) fn decode(core: &mut Core, params: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "", params);
    let session = re.session("session_id", "sessionId");
    let kind = re.take_text("type").unwrap_or_default();
    let data = re.take_map("data").unwrap_or_default();
    let update = decode_data(re.core, &kind, data);
    if let Some(session) = session.as_deref() {
        shared::observe(re.core, session, &update);
    }
    re.set("update", update);
    re.tell(method::SESSION_UPDATE);
}

fn decode_data(core: &mut Core, kind: &str, data: Map) -> Map {
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "data", data);
    re.set("sessionUpdate", kind);
    match kind {
        update::AGENT_MESSAGE_CHUNK | update::AGENT_THOUGHT_CHUNK | update::USER_MESSAGE_CHUNK => {
            let said = re.take("text");
            re.set_new("content", json!({ "type": "text", "text": said.unwrap_or_default() }));
        }
        update::TOOL_CALL => decode_tool_call(&mut re),
        update::TOOL_CALL_UPDATE => decode_tool_update(&mut re),
        update::PLAN => decode_plan(&mut re),
        _ => {
            let message = format!("2025.1 does not name the update {kind:?}");
            re.note(Passed, "type", message);
        }
    }
    re.finish()
}

fn decode_tool_call(re: &mut ObjectMapper<'_>) {
    re.rename("id", "toolCallId");
    let name = re.take("name");
    if re.restored("name").is_none()
        && let Some(name) = name.clone()
    {
        re.set("name", name);
    }
    re.invent("title", name.unwrap_or_default(), "v1 needs a title; the tool's name was taken");
    re.rename("arguments", "rawInput");
    re.invent("kind", "other", "2025.1 has no kinds of tools");
    re.invent("status", "pending", "2025.1 gives no status with a new call");
}

fn decode_tool_update(re: &mut ObjectMapper<'_>) {
    re.rename("id", "toolCallId");
    re.keep(&["status"]);
    let Some(result) = re.take("result") else { return };
    if re.restored("content").is_none()
        && let Some(said) = result.get("content").and_then(Value::as_str)
    {
        re.set("content", json!([{ "type": "content", "content": { "type": "text", "text": said } }]));
    }
    re.set_new("rawOutput", result);
}

fn decode_plan(re: &mut ObjectMapper<'_>) {
    let steps = re.take_list("steps").unwrap_or_default();
    let entries: Vec<Value> = steps.into_iter().map(|step| decode_step(re.core, step)).collect();
    re.set("entries", entries);
}

fn decode_step(core: &mut Core, step: Value) -> Value {
    let Some(step) = into_map(step) else {
        core.note(WrongShape, method::SESSION_UPDATE, "data.steps", "a step is not an object");
        return json!({ "content": "", "priority": "medium", "status": "pending" });
    };
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "data.steps", step);
    re.rename("description", "content");
    re.invent("priority", "medium", "2025.1 has no priorities");
    re.keep(&["status"]);
    re.invent("status", "pending", "the step has no status");
    Value::Object(re.finish())
}

pub(super) fn encode(core: &mut Core, params: Map) {
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "", params);
    let session = re.session("sessionId", "session_id");
    let update = re.take_map("update").unwrap_or_default();
    let kind = text(&update, "sessionUpdate").unwrap_or_default().to_owned();
    if let Some(session) = session.as_deref() {
        shared::observe(re.core, session, &update);
    }
    if !has_place(&kind) && !is_carried(re.core, &update) {
        let message = format!("2025.1 does not name the update {kind}; left out");
        re.note(Lossy, "update.sessionUpdate", message);
        return;
    }
    let later = later_state(&kind, &update);
    let data = encode_update(re.core, &kind, update);
    re.set("type", kind);
    re.set("data", data);
    let params = re.finish();
    let foreign = params.get("session_id").cloned().unwrap_or_default();
    core.tell(Wire::Foreign, method::SESSION_UPDATE, params);
    if let Some(later) = later {
        let kind = update::TOOL_CALL_UPDATE;
        let data = encode_update(core, kind, later);
        let params = [("session_id", foreign), ("type", kind.into()), ("data", data.into())];
        core.tell(Wire::Foreign, method::SESSION_UPDATE, object(params));
    }
}

/// Whether `2025.1` has an update for this; a user's message is sent as the agent's are, so that a history has both sides.
fn has_place(kind: &str) -> bool {
    const KINDS: [&str; 6] = [
        update::AGENT_MESSAGE_CHUNK,
        update::AGENT_THOUGHT_CHUNK,
        update::USER_MESSAGE_CHUNK,
        update::TOOL_CALL,
        update::TOOL_CALL_UPDATE,
        update::PLAN,
    ];
    KINDS.contains(&kind)
}

/// Whether an earlier translation from `2025.1` left fields of it here: then it goes back as it came.
fn is_carried(core: &Core, update: &Map) -> bool {
    update.get("_meta").is_some_and(|meta| meta.get(core.target_key()).is_some())
}

/// The update that tells how a call ended which is told whole, as in a replay: `2025.1` begins calls without a state.
fn later_state(kind: &str, update: &Map) -> Option<Map> {
    if kind != update::TOOL_CALL
        || !matches!(text(update, "status"), Some(tool_status::COMPLETED | tool_status::FAILED))
    {
        return None;
    }
    let told = ["toolCallId", "status", "content", "rawOutput"];
    Some(told.iter().filter_map(|key| Some(((*key).to_owned(), update.get(*key)?.clone()))).collect())
}

fn encode_update(core: &mut Core, kind: &str, mut update: Map) -> Map {
    update.shift_remove("sessionUpdate");
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "update", update);
    match kind {
        update::AGENT_MESSAGE_CHUNK | update::AGENT_THOUGHT_CHUNK => encode_chunk(&mut re),
        update::USER_MESSAGE_CHUNK => {
            let message = "2025.1 does not name user_message_chunk; sent in the same shape";
            re.note(Passed, "sessionUpdate", message);
            encode_chunk(&mut re);
        }
        update::TOOL_CALL => encode_tool_call(&mut re),
        update::TOOL_CALL_UPDATE => encode_tool_update(&mut re),
        update::PLAN => encode_plan(&mut re),
        _ => {
            let message = format!("2025.1 does not name the update {kind}; its fields are in _meta");
            re.note(Carried, "sessionUpdate", message);
            re.carry_all_quietly();
        }
    }
    re.finish()
}

fn encode_chunk(re: &mut ObjectMapper<'_>) {
    let content = re.take("content").unwrap_or_default();
    let (said, whole) = shared::flatten(&content);
    re.set("text", said);
    if !whole {
        re.carry("content", content, Lossy, "2025.1 streams text only; the block is kept in _meta");
    }
}

fn encode_tool_call(re: &mut ObjectMapper<'_>) {
    re.rename("toolCallId", "id");
    let title = re.take("title");
    let name = re.take("name");
    match (name, title) {
        (Some(name), title) => {
            if let Some(title) = title.filter(|title| *title != name) {
                re.carry("title", title, Carried, "2025.1 has a name but no title; kept in _meta");
            }
            re.set("name", name);
        }
        (None, Some(title)) => {
            re.set("name", title);
            re.note(Invented, "name", "the call has no name; its title was taken");
        }
        (None, None) => re.note(WrongShape, "title", "the call has neither a name nor a title"),
    }
    re.rename("rawInput", "arguments");
    re.invent("arguments", Map::new(), "the call shows no input; empty arguments were taken");
    for (field, default) in [("kind", "other"), ("status", "pending")] {
        re.drop_if(field, default);
    }
}

fn encode_tool_update(re: &mut ObjectMapper<'_>) {
    re.rename("toolCallId", "id");
    re.keep(&["status"]);
    let content = re.take("content");
    let output = re.take("rawOutput");
    let (said, whole) = content.as_ref().map_or((None, true), text_of_content);
    match (output, said) {
        (Some(output), said) if from_output_is(&output, said.as_deref()) => re.set("result", output),
        (Some(output), said) => {
            re.set("result", json!({ "content": said.unwrap_or_else(|| text_of(&output)) }));
            re.carry("rawOutput", output, Carried, "2025.1 has one result; the raw output is kept in _meta");
        }
        (None, Some(said)) => re.set("result", json!({ "content": said })),
        (None, None) if content.as_ref().is_some_and(is_cleared) => {
            re.set("result", json!({ "content": "" }));
        }
        (None, None) => {}
    }
    if !whole && let Some(content) = content {
        re.carry("content", content, Lossy, "2025.1 shows text only; the whole content is kept in _meta");
    }
}

/// Whether the raw output is a `2025.1` result that says the same as the content.
fn from_output_is(output: &Value, said: Option<&str>) -> bool {
    output.as_object().is_some_and(|output| {
        let inner = text(output, "content");
        inner.is_some() && (said.is_none() || said == inner)
    })
}

/// The text of tool-call content, and whether that is all of it.
fn text_of_content(content: &Value) -> (Option<String>, bool) {
    let Some(list) = content.as_array() else { return (None, false) };
    let mut said = String::new();
    let mut whole = true;
    for block in list {
        match block.get("content").filter(|_| block.get("type").and_then(Value::as_str) == Some("content")) {
            Some(inner) => {
                let (flat, exact) = shared::flatten(inner);
                said.push_str(&flat);
                whole &= exact;
            }
            None => whole = false,
        }
    }
    ((!list.is_empty()).then_some(said), whole && list.len() == 1)
}

/// Whether content takes away what was shown before.
fn is_cleared(content: &Value) -> bool {
    content.as_array().is_some_and(Vec::is_empty)
}

fn encode_plan(re: &mut ObjectMapper<'_>) {
    let entries = re.take_list("entries").unwrap_or_default();
    let mut steps = Vec::new();
    for (number, entry) in (1..).zip(entries) {
        steps.push(encode_entry(re.core, number, entry));
    }
    re.set("steps", steps);
}

fn encode_entry(core: &mut Core, number: u64, entry: Value) -> Value {
    let Some(entry) = into_map(entry) else {
        core.note(WrongShape, method::SESSION_UPDATE, "update.entries", "an entry is not an object");
        return Value::Object(object([("id", number.into())]));
    };
    let mut re = ObjectMapper::new(core, method::SESSION_UPDATE, "update.entries", entry);
    re.invent("id", number, "v1 entries have no ids; counted from one");
    re.rename("content", "description");
    re.keep(&["status"]);
    re.drop_if("priority", "medium");
    Value::Object(re.finish())
}
