//! Steps that several forms take.

use acp_proto::{error_code, method, option_kind, stop_reason, tool_status, update};
use acp_rpc::{Frame, Id, RpcError};
use serde_json::{Value, json};

use crate::core::{Core, OnAnswer, OpenRequest, Refusal, Wire};
use crate::json::{Map, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::{Answered, DuplicateSession, Invented, Lossy, Passed, WrongShape};
use crate::options::Unasked;
use crate::session::Turn;

/// A request that the form does not name goes through unchanged, and so will its answer.
pub(crate) fn through(core: &mut Core, frame: &Frame, id: &Id, method: &str) {
    core.note(Passed, method.to_owned(), "", "the form does not name this method; passed unchanged");
    through_quietly(core, frame, id, method);
}

/// The same where the two forms agree about the method, so that there is nothing to note.
pub(crate) fn through_quietly(core: &mut Core, frame: &Frame, id: &Id, method: &str) {
    core.expect(core.onward(), id, OpenRequest::new(method.to_owned(), None).with(OnAnswer::Through));
    core.pass(frame);
}

/// A notification that the form does not name goes through unchanged.
pub(crate) fn told_through(core: &mut Core, frame: &Frame, method: &str) {
    core.note(Passed, method.to_owned(), "", "the form does not name this notification; passed unchanged");
    core.pass(frame);
}

/// A `session/update` without an update goes through unchanged.
pub(crate) fn pass_without_update(core: &mut Core, frame: &Frame) {
    let message = "it is missing or not an object; passed unchanged";
    core.note(WrongShape, method::SESSION_UPDATE, "update", message);
    core.pass(frame);
}

/// An answer of the wrong shape becomes an error that names the flaw and keeps the answer.
pub(crate) fn wrong_answer(core: &mut Core, id: &Id, method: &str, flaw: &str, answer: Value) {
    core.note(WrongShape, method.to_owned(), "result", flaw.to_owned());
    let error = RpcError::internal(format!("the answer to {method} has the wrong shape: {flaw}"))
        .with_data(json!({ "answer": answer }));
    core.fail(core.onward(), id, &error);
}

/// Takes v1's version out of a frame for a form that has one version only.
pub(crate) fn drop_version(re: &mut ObjectMapper<'_>, one_version: &'static str) {
    match re.take("protocolVersion") {
        Some(version) if version == 1 => {}
        Some(other) => re.carry("protocolVersion", other, Lossy, one_version),
        None => re.note(WrongShape, "protocolVersion", "the version is missing"),
    }
}

/// Chooses an option of a permission request; `None` when no option says that.
pub(crate) fn choose(options: &[Value], approve: bool) -> Option<String> {
    let kinds = if approve {
        [option_kind::ALLOW_ONCE, option_kind::ALLOW_ALWAYS]
    } else {
        [option_kind::REJECT_ONCE, option_kind::REJECT_ALWAYS]
    };
    kinds.iter().find_map(|kind| {
        let found = options.iter().find(|option| option.get("kind").and_then(Value::as_str) == Some(kind))?;
        found.get("optionId").and_then(Value::as_str).map(str::to_owned)
    })
}

/// The result of a permission request.
pub(crate) fn outcome(chosen: Option<String>) -> Value {
    match chosen {
        Some(option) => json!({ "outcome": { "outcome": "selected", "optionId": option } }),
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    }
}

/// Answers a v1 permission request that the client's form cannot be asked.
pub(crate) fn answer_unasked(core: &mut Core, id: &Id, params: &Map) {
    let options = params.get("options").and_then(Value::as_array).cloned().unwrap_or_default();
    let must_ask = text(params, "sessionId").and_then(|id| core.sessions.get(id)).is_some_and(|s| s.must_ask);
    let setting = if must_ask { Unasked::Reject } else { core.options.permission };
    let chosen = match setting {
        Unasked::Reject => choose(&options, false),
        Unasked::Allow => choose(&options, true),
        Unasked::Cancel => None,
    };
    let said = chosen.as_deref().unwrap_or("cancelled").to_owned();
    let message = format!(
        "{} cannot be asked for permission; answered {}: {said}",
        core.dialect,
        if must_ask { "as the mode ask wants it" } else { "by the setting" }
    );
    core.note(Answered, method::SESSION_REQUEST_PERMISSION, "", message);
    core.answer(Wire::Canonical, id, outcome(chosen));
}

/// Refuses what a v1 agent wants to change in a session whose client wants to be asked and cannot be.
pub(crate) fn needs_asking(core: &Core, method: &str, params: &Map) -> Result<(), Refusal> {
    let session = text(params, "sessionId").and_then(|id| core.sessions.get(id));
    if !session.is_some_and(|session| session.must_ask) {
        return Ok(());
    }
    let message =
        format!("permission denied: {method} in a session of the mode ask, whose client cannot be asked");
    let mut refusal = Refusal::new("", error_code::INTERNAL_ERROR, message);
    refusal.error.data = Some(json!({ "reason": "permission_denied" }));
    Err(refusal)
}

/// Lines `line` (from 1) up to `limit` of them.
fn cut_lines(content: &str, line: Option<u64>, limit: Option<u64>) -> String {
    let skip = usize::try_from(line.unwrap_or(1).saturating_sub(1)).unwrap_or(usize::MAX);
    let take = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    content.split_inclusive('\n').skip(skip).take(take).collect()
}

/// The text of an answer to a request for whole files, cut to the lines that were asked for.
pub(crate) fn cut_content(result: &mut Map, asked: &OpenRequest) {
    if let OnAnswer::Read { line, limit } = asked.job
        && let Some(content) = text(result, "content")
    {
        let cut = cut_lines(content, line, limit);
        result.insert("content".to_owned(), cut.into());
    }
}

/// A path made absolute against `base`.
pub(crate) fn absolute(base: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let path = path.strip_prefix("./").unwrap_or(path);
    format!("{}/{path}", base.trim_end_matches('/'))
}

/// The last part of a URI or path.
pub(crate) fn basename(uri: &str) -> &str {
    let end = uri.trim_end_matches('/');
    end.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(uri)
}

/// The text of a v1 content block that is plain text and nothing more.
pub(crate) fn plain_text(block: &Value) -> Option<&str> {
    let block = block.as_object()?;
    (block.len() == 2 && text(block, "type") == Some("text")).then(|| text(block, "text")).flatten()
}

/// Any v1 content block as text for a reader, and whether that says everything.
pub(crate) fn flatten(block: &Value) -> (String, bool) {
    if let Some(text) = plain_text(block) {
        return (text.to_owned(), true);
    }
    let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    let flat = match field("type") {
        "text" => field("text").to_owned(),
        "resource_link" => format!("[{}]({})", field("name"), field("uri")),
        "resource" => {
            let resource = block.get("resource");
            let inner = |name: &str| resource.and_then(|r| r.get(name)).and_then(Value::as_str);
            match inner("text") {
                Some(text) => {
                    format!("<resource uri=\"{}\">\n{text}\n</resource>", inner("uri").unwrap_or_default())
                }
                None => format!("[resource {}]", inner("uri").unwrap_or_default()),
            }
        }
        kind @ ("image" | "audio") => format!("[{kind} {}]", field("mimeType")),
        other => format!("[{other}]"),
    };
    (flat, false)
}

/// Remembers what a v1 update says about tool calls, modes and files.
pub(crate) fn observe(core: &mut Core, session: &str, update: &Map) {
    let session = core.session(session);
    match text(update, "sessionUpdate") {
        Some(update::TOOL_CALL | update::TOOL_CALL_UPDATE) => observe_tool(session, update),
        Some(update::CURRENT_MODE_UPDATE) => session.mode = text(update, "currentModeId").map(str::to_owned),
        _ => {}
    }
}

fn observe_tool(session: &mut crate::session::Session, update: &Map) {
    let Some(id) = text(update, "toolCallId") else { return };
    let tool = session.tool(id);
    for (field, slot) in [
        ("title", &mut tool.name),
        ("name", &mut tool.tool),
        ("kind", &mut tool.kind),
        ("status", &mut tool.status),
    ] {
        if let Some(value) = text(update, field) {
            value.clone_into(slot);
        }
    }
    if tool.status.is_empty() {
        tool_status::PENDING.clone_into(&mut tool.status);
    }
    let failed = tool.status == tool_status::FAILED;
    if let Some(turn) = session.turn.as_mut() {
        turn.failed_tool = failed;
    }
    for block in update.get("content").and_then(Value::as_array).into_iter().flatten() {
        if block.get("type").and_then(Value::as_str) == Some("diff")
            && let Some(path) = block.get("path").and_then(Value::as_str)
        {
            session.wrote(path);
        }
    }
}

/// A v1 agent made a session for a foreign client: remembers it, and sets the mode if the client asked for one.
/// Returns the answer that is to be recast now, or nothing if it must wait.
pub(crate) fn session_made(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) -> Option<Map> {
    let OnAnswer::New { chosen, mode } = &asked.job else { return None };
    let Value::Object(result) = result else {
        wrong_answer(core, id, method::SESSION_NEW, "it is not an object", result);
        return None;
    };
    let Some(canonical) = text(&result, "sessionId").map(str::to_owned) else {
        wrong_answer(core, id, method::SESSION_NEW, "sessionId is missing", Value::Object(result));
        return None;
    };
    note_second_session(core, &canonical);
    if let Some(chosen) = chosen {
        core.pair_ids(chosen, &canonical);
    }
    remember_modes(core, &canonical, &result);
    let Some(mode) = mode else { return Some(result) };
    let aliases = core.dialect.traits().mode_aliases;
    let session = core.session(&canonical);
    session.must_ask = aliases && mode.eq_ignore_ascii_case("ask");
    let wanted = if aliases { session.meant(mode) } else { Some(session.spelled(mode)) };
    let Some(wanted) = wanted.filter(|wanted| session.modes.contains(wanted)) else {
        let message = format!("the agent has no mode {mode:?}; the session keeps the agent's own");
        core.note(Lossy, method::SESSION_NEW, "mode", message);
        return Some(result);
    };
    if session.mode.as_deref() == Some(&wanted) {
        return Some(result);
    }
    let params =
        crate::json::object([("sessionId", canonical.clone().into()), ("modeId", wanted.clone().into())]);
    let job = OnAnswer::ModeAfterNew { reply_to: id.clone(), result, mode: wanted };
    let set = core.invent_id();
    core.request(
        Wire::Canonical,
        &set,
        method::SESSION_SET_MODE,
        params,
        OpenRequest::new(method::SESSION_SET_MODE, Some(canonical)).with(job),
    );
    None
}

/// The mode that a foreign client wanted with its new session is set, or refused: either way the session is there.
/// Returns the request that waits and the answer that is to be recast for it.
pub(crate) fn mode_after_new(
    core: &mut Core,
    asked: OpenRequest,
    refused: Option<&RpcError>,
) -> Option<(Id, Map)> {
    let OnAnswer::ModeAfterNew { reply_to, mut result, mode } = asked.job else { return None };
    if let Some(error) = refused {
        let message =
            format!("the agent did not set the mode {mode:?}; the session keeps the agent's own: {error}");
        core.note(Lossy, method::SESSION_NEW, "mode", message);
    } else {
        tell_mode(&mut result, &mode);
        core.session(&asked.session.unwrap_or_default()).mode = Some(mode);
    }
    Some((reply_to, result))
}

/// Remembers the session that an answer to `session/new` names; without one the answer is an error.
pub(crate) fn learn_session(core: &mut Core, id: &Id, result: &Value) -> bool {
    let Some(session) = result.get("sessionId").and_then(Value::as_str) else {
        wrong_answer(core, id, method::SESSION_NEW, "sessionId is missing", result.clone());
        return false;
    };
    note_second_session(core, session);
    core.session(session);
    true
}

pub(crate) fn note_second_session(core: &mut Core, canonical: &str) {
    if core.knows(canonical) {
        let message = format!("the agent gave the session id {canonical:?} to a second session");
        core.note(DuplicateSession, method::SESSION_NEW, "sessionId", message);
    }
}

/// Takes the modes of a v1 session answer into memory.
pub(crate) fn remember_modes(core: &mut Core, canonical: &str, result: &Map) {
    let modes = result.get("modes");
    let ids = modes.and_then(|modes| modes.get("availableModes")).and_then(Value::as_array);
    let ids: Vec<String> = ids
        .into_iter()
        .flatten()
        .filter_map(|mode| mode.get("id").and_then(Value::as_str).map(str::to_owned))
        .collect();
    let current =
        modes.and_then(|modes| modes.get("currentModeId")).and_then(Value::as_str).map(str::to_owned);
    let session = core.session(canonical);
    if !ids.is_empty() {
        session.modes = ids;
    }
    if current.is_some() {
        session.mode = current;
    }
}

/// The answer to `session/new` as it is once this mode is set.
fn tell_mode(result: &mut Map, mode: &str) {
    if let Some(modes) = result.get_mut("modes").and_then(Value::as_object_mut) {
        modes.insert("currentModeId".to_owned(), mode.into());
    }
    let options = result.get_mut("configOptions").and_then(Value::as_array_mut).into_iter().flatten();
    for option in options.filter_map(Value::as_object_mut) {
        if text(option, "category") == Some("mode") {
            option.insert("currentValue".to_owned(), mode.into());
        }
    }
}

/// The modes of a session in v1 terms, from bare names.
pub(crate) fn modes_from(names: &[String], current: &str) -> Value {
    let available: Vec<Value> = names.iter().map(|name| json!({ "id": name, "name": name })).collect();
    json!({ "currentModeId": current, "availableModes": available })
}

/// The prompt is answered: what is known of its turn. Questions that are still open then are answered for the client.
pub(crate) fn end_turn(core: &mut Core, session: &str, id: &Id) -> Turn {
    let Some(turn) = core.session(session).end_turn(id) else { return Turn::default() };
    cancel_asks(core, session);
    turn
}

/// Nobody will answer the open questions of a session any more: they are answered as v1 wants it then.
pub(crate) fn cancel_asks(core: &mut Core, session: &str) {
    for ask in std::mem::take(&mut core.session(session).asks) {
        let message = "the turn is over or cancelled; the open question was answered cancelled";
        core.note(Answered, method::SESSION_REQUEST_PERMISSION, "", message);
        core.answer(Wire::Canonical, &ask.id, outcome(None));
    }
}

/// Remembers that the running turn of a session is being cancelled.
pub(crate) fn mark_cancelled(core: &mut Core, session: Option<&str>) {
    if let Some(session) = session
        && let Some(turn) = core.session(session).turn.as_mut()
    {
        turn.cancelled = true;
    }
}

/// A cancel of the foreign side, however it was sent. `field` holds the session. Says which it is.
pub(crate) fn decode_cancel(
    core: &mut Core,
    method: &'static str,
    field: &str,
    params: Map,
) -> Option<String> {
    let mut re = ObjectMapper::new(core, method, "", params);
    let session = re.session(field, "sessionId");
    re.tell(method::SESSION_CANCEL);
    mark_cancelled(core, session.as_deref());
    session
}

/// A cancel of the canonical side for a form in which cancelling is a request.
pub(crate) fn cancel_as_request(core: &mut Core, method: &str, params: Map, session: Option<String>) {
    mark_cancelled(core, session.as_deref());
    let id = core.invent_id();
    core.request(
        Wire::Foreign,
        &id,
        method,
        params,
        OpenRequest::new(method::SESSION_CANCEL, session).with(OnAnswer::Cancel),
    );
}

/// The answer to such a request says nothing that v1 wants to hear.
pub(crate) fn cancel_answered(core: &mut Core, method: &'static str) {
    core.note(Lossy, method, "result", "v1 cancels by notification; the acknowledgement ends here");
}

/// The session that a request without one means.
pub(crate) fn infer_session(core: &mut Core, method: &str) -> Result<String, Refusal> {
    let Some(session) = core.likely_session().map(str::to_owned) else {
        return Err(Refusal::new(
            "sessionId",
            error_code::INVALID_REQUEST,
            format!("{method} before any session was made"),
        ));
    };
    let message = format!("the form does not name the session; taken to be {session:?}");
    core.note(Invented, method.to_owned(), "sessionId", message);
    Ok(session)
}

/// A v1 `session/update` for the canonical side.
pub(crate) fn tell_update(core: &mut Core, session: &str, update: Map) {
    observe(core, session, &update);
    let params = crate::json::object([("sessionId", session.into()), ("update", Value::Object(update))]);
    core.tell(Wire::Canonical, method::SESSION_UPDATE, params);
}

/// A v1 text chunk for the canonical side.
pub(crate) fn tell_text(core: &mut Core, session: &str, kind: &str, said: &str) {
    let update = crate::json::object([
        ("sessionUpdate", kind.into()),
        ("content", json!({"type": "text", "text": said})),
    ]);
    tell_update(core, session, update);
}

/// Notes that a history was longer than what is kept of it.
pub(crate) fn note_truncated(core: &mut Core, method: &'static str, replay: &crate::session::Replay) {
    if replay.truncated {
        let most = crate::session::MOST_HISTORY;
        let message = format!("the history is longer than {most} bytes; the rest is left out");
        core.note(Lossy, method, "history", message);
    }
}

/// `_meta` key of v1 fields, for what a foreign answer carries.
pub(crate) const V1_KEY: &str = "acp-dialect/v1";

/// Whether a stop reason says more than that the turn ended.
pub(crate) fn stop_reason(core: &mut Core, method: &'static str, result: &Map) -> String {
    let reason = text(result, "stopReason").unwrap_or_default().to_owned();
    if reason.is_empty() {
        core.note(WrongShape, method, "stopReason", "the stop reason is missing");
    } else if reason != stop_reason::END_TURN {
        let message = format!("the form has no stop reasons; {reason} is kept in _meta");
        core.note(Lossy, method, "stopReason", message);
    }
    reason
}
