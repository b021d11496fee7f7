//! Which form a peer speaks, from what it says first.

use acp_proto::{method, update};
use acp_rpc::{Frame, Reply, View};
use serde_json::Value;

use crate::dialect::Dialect;
use crate::json::{self, Map};

/// What could be told from the frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detection {
    /// The frames are of this form and of no other.
    Sure(Dialect),
    /// They could be of several forms, or of none.
    Unsure {
        /// The forms that are still possible, most likely first; empty when none is known.
        candidates: Vec<Dialect>,
        /// What was seen and what to do.
        message: String,
    },
}

impl Detection {
    /// The form to go on with: the sure one, or the most likely.
    #[must_use]
    pub fn best(&self) -> Option<Dialect> {
        match self {
            Self::Sure(dialect) => Some(*dialect),
            Self::Unsure { candidates, .. } => candidates.first().copied(),
        }
    }

    fn unsure(candidates: &[Dialect], message: impl Into<String>) -> Self {
        Self::Unsure { candidates: candidates.to_vec(), message: message.into() }
    }
}

/// Names the form of a peer from its first frames: a client's `initialize` (or first request), an agent's answer to it.
/// The first frame that says something decides.
pub fn detect<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Detection {
    let mut last = Detection::unsure(&[], "nothing was said yet");
    for frame in frames {
        let found = one(frame);
        match &found {
            Detection::Sure(_) => return found,
            Detection::Unsure { candidates, .. } if !candidates.is_empty() || last.best().is_none() => {
                last = found;
            }
            Detection::Unsure { .. } => {}
        }
    }
    last
}

fn one(frame: &Frame) -> Detection {
    match frame.view() {
        View::Request { method, params, .. } | View::Notification { method, params } => {
            said(method, &map(params).unwrap_or_default())
        }
        View::Response { reply: Reply::Result(result), .. } => match map(Some(result)) {
            Some(result) => answered(&result),
            None => Detection::unsure(&[], "the first answer is not an object"),
        },
        View::Response { reply: Reply::Error(_), .. } => {
            Detection::unsure(&[], "the first answer is an error")
        }
        View::Batch(_) => Detection::unsure(&[], "a batch: no form of ACP has them"),
        View::Malformed(flaw) => Detection::unsure(&[], format!("not a JSON-RPC message: {flaw}")),
    }
}

fn map(text: Option<&str>) -> Option<Map> {
    json::parse(text?).and_then(|(value, _)| json::into_map(value))
}

fn said(method: &str, params: &Map) -> Detection {
    if let Some(dialect) = owner(method) {
        return Detection::Sure(dialect);
    }
    if method != method::INITIALIZE {
        return later(method, params);
    }
    match form_of_initialize(params) {
        Some(Dialect::V1) => Detection::unsure(
            &[Dialect::V1, Dialect::Go],
            "initialize is the same in v1 and go; taken as v1, name the dialect if the client speaks go",
        ),
        Some(dialect) => Detection::Sure(dialect),
        None => {
            let version =
                params.get("protocolVersion").map_or_else(|| "no version".to_owned(), Value::to_string);
            let message = format!("initialize with {version} fits no known form; name the dialect");
            Detection::unsure(&[], message)
        }
    }
}

/// The form of the params of an `initialize` request; v1 stands for go too.
pub(crate) fn form_of_initialize(params: &Map) -> Option<Dialect> {
    let snake = ["protocol_version", "working_directory", "mcp_servers", "client_info"];
    if snake.iter().any(|name| params.contains_key(*name)) {
        return Some(Dialect::V2025_1);
    }
    match params.get("protocolVersion")? {
        Value::Number(_) => Some(Dialect::V1),
        Value::String(version) if version == "1" => Some(Dialect::Probe),
        Value::String(version) if is_date(version) => Some(Dialect::Delta),
        _ => None,
    }
}

fn is_date(version: &str) -> bool {
    let bytes = version.as_bytes();
    bytes.len() == 10
        && bytes
            .iter()
            .enumerate()
            .all(|(at, byte)| if at == 4 || at == 7 { *byte == b'-' } else { byte.is_ascii_digit() })
}

/// A conversation joined after its beginning.
fn later(method: &str, params: &Map) -> Detection {
    if params.contains_key("session_id") {
        return Detection::Sure(Dialect::V2025_1);
    }
    if params.contains_key("workDir") || params.get("prompt").is_some_and(Value::is_string) {
        return Detection::Sure(Dialect::Delta);
    }
    if let Some(Value::Object(update)) = params.get("update") {
        let call = |word: &Value| matches!(word.as_str(), Some(update::TOOL_CALL | update::TOOL_CALL_UPDATE));
        if update.get("kind").is_some_and(call)
            || ["toolKind", "input", "output", "plan"].iter().any(|name| update.contains_key(*name))
        {
            return Detection::Sure(Dialect::Go);
        }
    }
    if params.get("mcpServers").is_some_and(Value::is_object) {
        return Detection::Sure(Dialect::Go);
    }
    if method.starts_with("session/") && params.contains_key("sessionId") || params.contains_key("cwd") {
        return Detection::unsure(
            &[Dialect::V1, Dialect::Go, Dialect::Delta],
            format!("{method} does not begin with initialize and looks alike in several forms; taken as v1"),
        );
    }
    Detection::unsure(&[], format!("the first frame is {method}, not initialize; name the dialect"))
}

/// The answer of an agent to `initialize`.
fn answered(result: &Map) -> Detection {
    if result.contains_key("agent_info") {
        return Detection::Sure(Dialect::V2025_1);
    }
    let version = result.get("protocolVersion");
    match version {
        Some(Value::String(version)) if version == "1" => return Detection::Sure(Dialect::Probe),
        Some(Value::String(version)) if is_date(version) => return Detection::Sure(Dialect::Delta),
        None if result.contains_key("capabilities") => return Detection::Sure(Dialect::V2025_1),
        _ => {}
    }
    let capabilities = result.get("agentCapabilities");
    let list = capabilities.and_then(|c| c.get("promptCapabilities")).and_then(|p| p.get("content"));
    if list.is_some_and(Value::is_array) || capabilities.is_some_and(|c| c.get("mcp").is_some()) {
        return Detection::Sure(Dialect::Go);
    }
    let v1_only = [
        "authMethods",
        "agentCapabilities.sessionCapabilities",
        "agentCapabilities.mcpCapabilities",
        "agentCapabilities.auth",
    ];
    let has = |path: &&str| match path.split_once('.') {
        Some((outer, inner)) => result.get(outer).is_some_and(|outer| outer.get(inner).is_some()),
        None => result.contains_key(*path),
    };
    let flags = capabilities.and_then(|c| c.get("promptCapabilities")).and_then(Value::as_object);
    if v1_only.iter().any(has) || flags.is_some_and(|flags| !flags.is_empty()) {
        return Detection::Sure(Dialect::V1);
    }
    match version {
        Some(Value::Number(_)) => Detection::unsure(
            &[Dialect::V1, Dialect::Go],
            "the answer to initialize advertises nothing that tells v1 and go apart; taken as v1",
        ),
        Some(other) => {
            Detection::unsure(&[], format!("protocolVersion {other} fits no known form; name the dialect"))
        }
        None => Detection::unsure(&[], "the answer to initialize has no protocolVersion; name the dialect"),
    }
}

/// The one form that has this method, if only one has it.
fn owner(method: &str) -> Option<Dialect> {
    match method {
        "newSession" | "loadSession" | "setSessionMode" | "prompt" | "cancel" | "readTextFile"
        | "writeTextFile" | "toolCallProgress" | "messageChunk" | "sessionUpdated" => Some(Dialect::Probe),
        "assistant.message_delta" | "session/permission_response" => Some(Dialect::Delta),
        _ => None,
    }
}

/// The form that a method belongs to, when it is another one than `dialect`.
pub(crate) fn stranger(method: &str, dialect: Dialect) -> Option<Dialect> {
    owner(method).filter(|owner| *owner != dialect)
}
