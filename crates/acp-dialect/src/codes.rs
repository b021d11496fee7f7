//! Error codes by meaning. The original is kept in `error.data.original` whenever the code changes.

use acp_proto::{error_code, method};
use acp_rpc::RpcError;
use serde_json::{Value, json};

use crate::core::Core;
use crate::dialect::Dialect;
use crate::json::{Map, object};
use crate::note::NoteKind;

/// What an error says, whatever its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Auth,
    MissingSession,
    MissingFile,
    Denied,
    State,
    Gated,
    Version,
    ToolFailed,
    Closed,
    Timeout,
    Cancelled,
    /// A number that v1 leaves open and that the foreign form would read as something else.
    Unassigned,
    /// The same number on both sides.
    Same,
}

/// Where the numbers of a form differ from v1's.
pub(crate) struct Codes {
    /// Numbers that mean something else in v1: the number, v1's number for its meaning, and the `reason` beside it.
    pub(crate) decoded: &'static [(i64, i64, &'static str)],
    /// Numbers that mean the same, but that would be read as something else on the way back.
    pub(crate) ambiguous: &'static [i64],
    /// The form's numbers for meanings. A form without any has v1's numbers.
    pub(crate) encoded: &'static [(Meaning, i64)],
}

impl Codes {
    /// All as in v1.
    pub(crate) const V1: Self = Self { decoded: &[], ambiguous: &[], encoded: &[] };

    /// The form's number, where it is not the one of v1.
    fn number(&self, meaning: Meaning) -> Option<i64> {
        if self.encoded.is_empty() || meaning == Meaning::Same {
            return None;
        }
        let own = self.encoded.iter().find(|(known, _)| *known == meaning).map(|(_, code)| *code);
        own.or((!matches!(meaning, Meaning::State | Meaning::Gated)).then_some(error_code::INTERNAL_ERROR))
    }

    /// The number that says that the other side is gone.
    pub(crate) fn closed(&self) -> i64 {
        self.number(Meaning::Closed).unwrap_or(error_code::INTERNAL_ERROR)
    }
}

/// A foreign error in v1 terms. `session` is the canonical id.
pub(crate) fn decode(core: &mut Core, method: &str, session: Option<&str>, error: RpcError) -> RpcError {
    if let Some(original) = original_of(&error, Dialect::V1) {
        return original;
    }
    let codes = core.form().codes();
    let Some(&(_, code, reason)) = codes.decoded.iter().find(|(number, ..)| *number == error.code) else {
        if codes.ambiguous.contains(&error.code) {
            let code = error.code;
            return with_original(core.dialect, error, code, Map::new());
        }
        return error;
    };
    let mut data = object([("reason", reason.into())]);
    if code == error_code::RESOURCE_NOT_FOUND
        && let Some(session) = session
        && !method.starts_with("fs/")
    {
        data.insert("sessionId".to_owned(), Value::from(session));
    }
    renumbered(core, core.dialect, method, error, code, data)
}

/// A v1 error in the foreign form's terms. `session` is the canonical id.
pub(crate) fn encode(core: &mut Core, method: &str, session: Option<&str>, error: RpcError) -> RpcError {
    if let Some(original) = original_of(&error, core.dialect) {
        return original;
    }
    let meaning = meaning(core, method, session, &error);
    match core.form().codes().number(meaning) {
        Some(code) if code != error.code => renumbered(core, Dialect::V1, method, error, code, Map::new()),
        _ => error,
    }
}

/// The number of `connection closed` towards the foreign peer.
pub(crate) fn closed(core: &mut Core, method: &str) -> RpcError {
    let error = RpcError::internal("the other side closed the connection before it answered")
        .with_data(json!({ "reason": "connection_closed" }));
    encode(core, method, None, error)
}

fn meaning(core: &Core, method: &str, session: Option<&str>, error: &RpcError) -> Meaning {
    let data = error.data.as_ref();
    let reason = data.and_then(|data| data.get("reason")).and_then(Value::as_str).unwrap_or_default();
    match (error.code, reason) {
        (error_code::AUTH_REQUIRED, _) => Meaning::Auth,
        (error_code::RESOURCE_NOT_FOUND, _) if data.is_some_and(|data| data.get("sessionId").is_some()) => {
            Meaning::MissingSession
        }
        (error_code::RESOURCE_NOT_FOUND, _)
            if method.starts_with("fs/") || data.is_some_and(|data| data.get("uri").is_some()) =>
        {
            Meaning::MissingFile
        }
        (error_code::RESOURCE_NOT_FOUND, _) => Meaning::MissingSession,
        (error_code::REQUEST_CANCELLED, _) => Meaning::Cancelled,
        (error_code::INVALID_REQUEST, _) => Meaning::State,
        (error_code::METHOD_NOT_FOUND, _) if is_gated(method) => Meaning::Gated,
        (error_code::INTERNAL_ERROR, "permission_denied") => Meaning::Denied,
        (error_code::INTERNAL_ERROR, "connection_closed") => Meaning::Closed,
        (error_code::INTERNAL_ERROR, "timeout") => Meaning::Timeout,
        (error_code::INTERNAL_ERROR, "tool_execution_failed") => Meaning::ToolFailed,
        (error_code::INTERNAL_ERROR, "unsupported_protocol_version") => Meaning::Version,
        (error_code::INTERNAL_ERROR, "") if says_denied(method, &error.message) => Meaning::Denied,
        (error_code::INTERNAL_ERROR, "")
            if method == method::SESSION_PROMPT && tool_failed(core, session) =>
        {
            Meaning::ToolFailed
        }
        (-32004..=-32001, _) => Meaning::Unassigned,
        _ => Meaning::Same,
    }
}

/// Methods that a peer must not call unless the other side said that it can.
fn is_gated(method: &str) -> bool {
    matches!(method, method::SESSION_LOAD | method::AUTHENTICATE)
        || method.starts_with("fs/")
        || method.starts_with("terminal/")
}

fn says_denied(method: &str, message: &str) -> bool {
    let about_effects = method.starts_with("fs/") || method.starts_with("terminal/");
    let message = message.to_ascii_lowercase();
    about_effects
        && ["denied", "not permitted", "not allowed", "refused", "rejected"]
            .iter()
            .any(|word| message.contains(word))
}

fn tool_failed(core: &Core, session: Option<&str>) -> bool {
    session
        .and_then(|id| core.sessions.get(id))
        .and_then(|session| session.turn.as_ref())
        .is_some_and(|turn| turn.failed_tool)
}

fn renumbered(
    core: &mut Core,
    from: Dialect,
    method: &str,
    error: RpcError,
    code: i64,
    extra: Map,
) -> RpcError {
    if error.code != code {
        let message =
            format!("{} became {code}: the numbers mean different things in the two forms", error.code);
        core.note(NoteKind::Lossy, method.to_owned(), "error.code", message);
    }
    with_original(from, error, code, extra)
}

fn with_original(from: Dialect, error: RpcError, code: i64, extra: Map) -> RpcError {
    let mut data = match &error.data {
        Some(Value::Object(map)) => map.clone(),
        _ => Map::new(),
    };
    data.shift_remove("original");
    data.extend(extra);
    let mut original = object([
        ("dialect", from.as_str().into()),
        ("code", error.code.into()),
        ("message", error.message.clone().into()),
    ]);
    if let Some(data) = error.data {
        original.insert("data".to_owned(), data);
    }
    data.insert("original".to_owned(), original.into());
    RpcError { code, message: error.message, data: Some(Value::Object(data)) }
}

/// The error as `dialect` first wrote it, when it went through a translation before.
fn original_of(error: &RpcError, dialect: Dialect) -> Option<RpcError> {
    let original = error.data.as_ref()?.get("original")?;
    if original.get("dialect")?.as_str()? != dialect.as_str() {
        return None;
    }
    Some(RpcError {
        code: original.get("code")?.as_i64()?,
        message: original.get("message")?.as_str()?.to_owned(),
        data: original.get("data").cloned(),
    })
}
