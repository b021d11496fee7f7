//! Permission: a notification that asks and a notification that answers.

use acp_proto::{error_code, method, option_kind};
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use crate::core::{Core, OnAnswer, OpenRequest, Refusal, Wire};
use crate::json::{Map, object, put_meta, text, written};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Invented, Lossy, UnknownAnswer, WrongShape};
use crate::session::{Ask, MOST_ASKS};
use crate::shared;

const ANSWER: &str = "session/permission_response";

/// A delta agent asks: v1 asks with a request.
pub(super) fn told(core: &mut Core, params: Map) {
    let call = core.invent_name("permission");
    let mut re = ObjectMapper::new(core, method::SESSION_REQUEST_PERMISSION, "", params);
    let session = re.session("sessionId", "sessionId");
    let tool = re.take_text("tool");
    let command = re.take_text("command");
    let title = command.clone().or_else(|| tool.clone()).unwrap_or_else(|| "permission".to_owned());
    let mut tool_call = object([("toolCallId", call.into()), ("title", title.into())]);
    if let Some(tool) = &tool {
        tool_call.insert("name".to_owned(), tool.clone().into());
        tool_call.insert("kind".to_owned(), kind_of(tool).into());
    }
    if let Some(command) = command {
        tool_call.insert("rawInput".to_owned(), json!({ "command": command }));
    }
    if let Some(reason) = re.take_text("reason") {
        let shown = json!([{ "type": "content", "content": { "type": "text", "text": reason } }]);
        tool_call.insert("content".to_owned(), shown);
    }
    if let Some(Value::Object(original)) = re.take_restored("toolCall") {
        tool_call = original;
    } else {
        re.note(Invented, "toolCall.toolCallId", "delta does not name the tool call");
    }
    re.set("toolCall", tool_call);
    re.invent(
        "options",
        json!([
            { "optionId": "allow", "name": "Allow", "kind": option_kind::ALLOW_ONCE },
            { "optionId": "reject", "name": "Reject", "kind": option_kind::REJECT_ONCE },
        ]),
        "delta gives no options; allow and reject were offered",
    );
    let params = re.finish();
    let allow = params
        .get("options")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|option| says_yes(option));
    let allow = allow
        .filter_map(|option| option.get("optionId").and_then(Value::as_str).map(str::to_owned))
        .collect();
    let id = core.invent_id();
    core.request(
        Wire::Canonical,
        &id,
        method::SESSION_REQUEST_PERMISSION,
        params,
        OpenRequest::new(method::SESSION_REQUEST_PERMISSION, session).with(OnAnswer::Told { allow }),
    );
}

fn says_yes(option: &Value) -> bool {
    matches!(
        option.get("kind").and_then(Value::as_str),
        Some(option_kind::ALLOW_ONCE | option_kind::ALLOW_ALWAYS)
    )
}

fn kind_of(tool: &str) -> &'static str {
    match tool.to_ascii_lowercase().as_str() {
        "bash" | "shell" | "exec" | "execute" | "terminal" => "execute",
        "write" | "edit" | "file_write" | "write_file" => "edit",
        "read" | "read_file" => "read",
        "delete" => "delete",
        "fetch" => "fetch",
        _ => "other",
    }
}

/// The v1 client decided: tell the delta agent.
pub(super) fn decided(core: &mut Core, asked: &OpenRequest, result: &Value) {
    let outcome = result.get("outcome");
    let word = outcome.and_then(|outcome| outcome.get("outcome")).and_then(Value::as_str);
    let option =
        outcome.and_then(|outcome| outcome.get("optionId")).and_then(Value::as_str).unwrap_or_default();
    if word.is_none() {
        let message = "the outcome is missing; taken as a denial";
        core.note(WrongShape, method::SESSION_REQUEST_PERMISSION, "result.outcome", message);
    }
    let approved = word == Some("selected")
        && matches!(&asked.job, OnAnswer::Told { allow } if allow.iter().any(|allowed| allowed == option));
    if word == Some("cancelled") {
        core.note(Lossy, ANSWER, "approved", "delta knows yes and no; cancelled was told as no");
    }
    tell(core, asked.session.as_deref(), approved);
}

/// The v1 client answered with an error.
pub(crate) fn failed(core: &mut Core, session: Option<&str>, error: &RpcError) {
    core.note(Lossy, ANSWER, "approved", format!("the client answered with an error, told as no: {error}"));
    tell(core, session, false);
}

fn tell(core: &mut Core, session: Option<&str>, approved: bool) {
    let params = object([("sessionId", session.into()), ("approved", approved.into())]);
    core.tell(Wire::Foreign, ANSWER, params);
}

/// A v1 agent asks a delta client.
pub(super) fn ask(core: &mut Core, id: &Id, params: Map) -> Result<(), Refusal> {
    let waiting =
        text(&params, "sessionId").map_or(0, |id| core.sessions.get(id).map_or(0, |s| s.asks.len()));
    if waiting >= MOST_ASKS {
        let message = format!("{MOST_ASKS} questions wait for the client's answer; no more are asked");
        return Err(Refusal::new("", error_code::INTERNAL_ERROR, message));
    }
    let mut re = ObjectMapper::new(core, method::SESSION_REQUEST_PERMISSION, "", params);
    let session = re.session("sessionId", "sessionId").unwrap_or_default();
    let call = re.take_map("toolCall").unwrap_or_default();
    let options = re.take_list("options").unwrap_or_default();
    let known = text(&call, "toolCallId")
        .and_then(|id| re.core.session(&session).tools.get(id))
        .cloned()
        .unwrap_or_default();
    let title = text(&call, "title").map_or(known.name, str::to_owned);
    let kind = text(&call, "kind").map_or(known.kind, str::to_owned);
    let tool = text(&call, "name")
        .map_or_else(|| if kind.is_empty() { "tool".to_owned() } else { kind }, str::to_owned);
    let command = call.get("rawInput").and_then(|input| input.get("command")).and_then(Value::as_str);
    re.set("tool", tool);
    re.set("command", command.map_or_else(|| title.clone(), str::to_owned));
    let shown = call.get("content").and_then(|content| content.get(0)).and_then(|block| block.get("content"));
    re.set("reason", shown.map_or(title, |block| shared::flatten(block).0));
    re.carry_quietly("toolCall", call.into());
    let message = "delta knows yes and no; the options are kept in _meta";
    re.carry("options", options.clone().into(), Lossy, message);
    let params = re.finish();
    core.session(&session).asks.push_back(Ask { id: id.clone(), options });
    core.tell(Wire::Foreign, method::SESSION_REQUEST_PERMISSION, params);
    Ok(())
}

/// A v1 agent takes a request back: says whether it was a question that the client has yet to answer.
pub(super) fn withdrawn(core: &mut Core, params: &Map) -> bool {
    let Some(id) = params.get("requestId").and_then(|id| Id::parse(&written(id))) else { return false };
    let mut all = core.sessions.values_mut();
    let found = all.find_map(|session| {
        let at = session.asks.iter().position(|ask| ask.id == id)?;
        session.asks.remove(at)
    });
    let Some(ask) = found else { return false };
    let message = "delta cannot take a question back; the client was not told, and its answer is not awaited";
    core.note(Lossy, method::CANCEL_REQUEST, "requestId", message);
    let error =
        RpcError::new(error_code::REQUEST_CANCELLED, "the question was taken back before it was answered");
    core.fail(Wire::Canonical, &ask.id, &error);
    true
}

/// The delta client answered; the oldest question of the session is meant.
pub(super) fn answered(core: &mut Core, params: Map) {
    let mut re = ObjectMapper::new(core, ANSWER, "", params);
    let session = re.session("sessionId", "sessionId").unwrap_or_default();
    let approved = match re.take("approved") {
        Some(Value::Bool(approved)) => approved,
        other => {
            re.note(
                WrongShape,
                "approved",
                format!("{} is not true or false; taken as no", written(&other.unwrap_or_default())),
            );
            false
        }
    };
    let rest = re.finish();
    let Some(ask) = core.session(&session).asks.pop_front() else {
        let message = format!("the session {session:?} has no open question");
        return core.note(UnknownAnswer, ANSWER, "sessionId", message);
    };
    let chosen = shared::choose(&ask.options, approved);
    if chosen.is_none() {
        let message = "the agent offered no option that says that; answered cancelled";
        core.note(Lossy, ANSWER, "approved", message);
    }
    let mut result = shared::outcome(chosen).as_object().cloned().unwrap_or_default();
    for (name, value) in rest
        .get("_meta")
        .and_then(|meta| meta.get(core.carry_key()))
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        put_meta(&mut result, core.carry_key(), name, value.clone());
    }
    core.answer(Wire::Canonical, &ask.id, result);
}
