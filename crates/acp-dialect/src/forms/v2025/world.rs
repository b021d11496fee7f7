//! Files and terminals: requests of the agent that name no session and give commands as one string.

use acp_proto::method;
use acp_rpc::Id;
use serde_json::{Value, json};

use crate::core::{Core, OpenRequest, Refusal, Wire};
use crate::json::{Map, text};
use crate::mapper::ObjectMapper;
use crate::note::NoteKind::Lossy;
use crate::shared;

pub(super) fn decode_file(core: &mut Core, id: &Id, method: &str, params: Map) -> Result<(), Refusal> {
    let session = session_for(core, method, &params)?;
    let mut re = ObjectMapper::new(core, method.to_owned(), "", params);
    re.take_restored("sessionId");
    re.set("sessionId", session.clone());
    re.keep(&["path", "content"]);
    re.ask_as(id, method, OpenRequest::new(method.to_owned(), Some(session)));
    Ok(())
}

/// The session that was carried along, or the likely one.
fn session_for(core: &mut Core, method: &str, params: &Map) -> Result<String, Refusal> {
    let carried =
        params.get("_meta").and_then(|meta| meta.get(shared::V1_KEY)).and_then(|kept| kept.get("sessionId"));
    match carried.and_then(Value::as_str) {
        Some(session) => Ok(core.canonical_id(session).to_owned()),
        None => shared::infer_session(core, method),
    }
}

pub(super) fn encode_file(core: &mut Core, id: &Id, method: &str, params: Map) {
    let mut re = ObjectMapper::new(core, method.to_owned(), "", params);
    let session = drop_session(&mut re);
    let written = re.peek("path").and_then(Value::as_str).map(str::to_owned);
    re.keep(&["path", "content"]);
    let job = re.take_range("2025.1 reads whole files; the translator cuts out the lines");
    let params = re.finish();
    if let (Some(session), Some(path), method::FS_WRITE_TEXT_FILE) = (session.as_deref(), written, method) {
        core.session(session).wrote(&path);
    }
    core.request(Wire::Foreign, id, method, params, OpenRequest::new(method.to_owned(), session).with(job));
}

/// `2025.1` names no session in these requests.
fn drop_session(re: &mut ObjectMapper<'_>) -> Option<String> {
    let session = re.take_text("sessionId")?;
    re.carry("sessionId", session.clone().into(), Lossy, "2025.1 names no session here; kept in _meta");
    Some(session)
}

pub(super) fn decode_create(core: &mut Core, id: &Id, params: Map) -> Result<(), Refusal> {
    let session = session_for(core, method::TERMINAL_CREATE, &params)?;
    let mut re = ObjectMapper::new(core, method::TERMINAL_CREATE, "", params);
    re.take_restored("sessionId");
    re.set("sessionId", session.clone());
    if let Some(line) = re.take_text("command") {
        let (command, args) = split_command(&line);
        if command == "sh" {
            re.note(Lossy, "command", "v1 takes a program and arguments; the line is run by sh -c");
        }
        re.set("command", command);
        re.set("args", args);
    }
    re.keep(&["cwd"]);
    re.ask(id, method::TERMINAL_CREATE, Some(session));
    Ok(())
}

/// A command line as program and arguments; `sh -c` when it needs a shell.
fn split_command(line: &str) -> (String, Vec<String>) {
    let needs_shell =
        line.contains(['|', '&', ';', '<', '>', '(', ')', '$', '`', '*', '?', '[', '{', '~', '#', '\n', '=']);
    if !needs_shell
        && let Some(mut words) = shlex::split(line)
        && !words.is_empty()
    {
        let command = words.remove(0);
        return (command, words);
    }
    ("sh".to_owned(), vec!["-c".to_owned(), line.to_owned()])
}

pub(super) fn encode_create(core: &mut Core, id: &Id, params: Map) {
    let mut re = ObjectMapper::new(core, method::TERMINAL_CREATE, "", params);
    let session = drop_session(&mut re);
    re.keep(&["cwd"]);
    let command = re.take_text("command").unwrap_or_default();
    let args = re.take_list("args").unwrap_or_default();
    let args: Vec<&str> = args.iter().filter_map(Value::as_str).collect();
    let line = match (command.as_str(), args.as_slice()) {
        ("sh", ["-c", line]) => (*line).to_owned(),
        (command, []) => command.to_owned(),
        (command, args) => {
            if args.iter().any(|arg| quoted(arg) != *arg) {
                re.note(Lossy, "args", "2025.1 takes one command line; the arguments were quoted into it");
            }
            std::iter::once(command).chain(args.iter().copied()).map(quoted).collect::<Vec<_>>().join(" ")
        }
    };
    re.set("command", line);
    re.ask(id, method::TERMINAL_CREATE, session);
}

fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), std::borrow::Cow::into_owned)
}

pub(super) fn decode_terminal(core: &mut Core, id: &Id, method: &str, params: Map) -> Result<(), Refusal> {
    let known = text(&params, "terminal_id").and_then(|terminal| core.terminals.get(terminal)).cloned();
    let session = match known {
        Some(session) => session,
        None => session_for(core, method, &params)?,
    };
    let mut re = ObjectMapper::new(core, method.to_owned(), "", params);
    re.take_restored("sessionId");
    re.set("sessionId", session.clone());
    re.rename("terminal_id", "terminalId");
    re.ask_as(id, method, OpenRequest::new(method.to_owned(), Some(session)));
    Ok(())
}

pub(super) fn encode_terminal(core: &mut Core, id: &Id, method: &str, params: Map) {
    let mut re = ObjectMapper::new(core, method.to_owned(), "", params);
    let session = drop_session(&mut re);
    re.rename("terminalId", "terminal_id");
    re.ask_as(id, method, OpenRequest::new(method.to_owned(), session));
}

/// A v1 client's answer for the foreign agent.
pub(super) fn encode_result(core: &mut Core, id: &Id, asked: &OpenRequest, result: Value) {
    let result = match result {
        Value::Object(result) => result,
        Value::Null => return core.answer(Wire::Foreign, id, json!({})),
        other => return shared::wrong_answer(core, id, &asked.method, "it is not an object", other),
    };
    if let (Some(session), Some(terminal)) = (&asked.session, text(&result, "terminalId")) {
        core.place_terminal(terminal, session);
    }
    let result = respell(core, asked, result, &SNAKE);
    core.answer(Wire::Foreign, id, result);
}

/// A foreign client's answer for the v1 agent.
pub(super) fn decode_result(core: &mut Core, id: &Id, asked: OpenRequest, result: Value) {
    let mut result = match result {
        Value::Object(result) => result,
        Value::Null => return core.answer(Wire::Canonical, id, json!({})),
        other => return shared::wrong_answer(core, id, &asked.method, "it is not an object", other),
    };
    shared::cut_content(&mut result, &asked);
    if text(&result, "status") == Some("ok") {
        result.shift_remove("status");
    }
    let result = respell(core, &asked, result, &CAMEL);
    core.answer(Wire::Canonical, id, result);
}

const SNAKE: [(&str, &str); 4] = [
    ("terminalId", "terminal_id"),
    ("exitStatus", "exit_status"),
    ("exitCode", "exit_code"),
    ("signal", "signal"),
];
const CAMEL: [(&str, &str); 4] = [
    ("terminal_id", "terminalId"),
    ("exit_status", "exitStatus"),
    ("exit_code", "exitCode"),
    ("signal", "signal"),
];

fn respell(core: &mut Core, asked: &OpenRequest, result: Map, names: &[(&str, &str); 4]) -> Map {
    let mut re = ObjectMapper::new(core, asked.method.to_string(), "result", result);
    re.keep(&["content", "output", "truncated"]);
    for (from, to) in names {
        let Some(value) = re.take(from) else { continue };
        let value = match value {
            Value::Object(inner) => {
                let spelled = inner.into_iter().map(|(key, value)| {
                    let to = names
                        .iter()
                        .find(|(from, _)| *from == key)
                        .map_or(key.as_str(), |(_, to)| to)
                        .to_owned();
                    (to, value)
                });
                Value::Object(spelled.collect())
            }
            other => other,
        };
        re.set(to, value);
    }
    re.finish()
}
