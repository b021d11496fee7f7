//! Faults on a command line.

use acp_proto::method;
use serde_json::Value;

use super::Fault;

/// Why a fault given on a command line is none.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// It is JSON, but not a fault.
    #[error("not a fault: {0}")]
    Json(serde_json::Error),
    /// It is not in the short form either.
    #[error(
        "{0:?} is not a fault; write ACTION[=VALUE][@METHOD][#N], for instance drop@session/update#3, or JSON"
    )]
    Short(String),
}

/// Reads a fault: JSON (`{"method": …, "do": […]}`), or the short form `ACTION[=VALUE][@METHOD][#N]`.
///
/// `drop@session/update#3` drops the third update, `delay=200ms` delays every frame, `exit=7@session/prompt` ends
/// the process when a prompt comes in. METHOD is that of an outgoing frame, or of the request that a response
/// answers; with `<` before it, that of an incoming frame.
pub fn parse_spec(text: &str) -> Result<Fault, SpecError> {
    parse(text, is_client_request)
}

/// [`parse_spec`] for the faults of a client: METHOD is that of a frame of the client, or of the request of the agent that
/// the client answers.
pub fn parse_client_spec(text: &str) -> Result<Fault, SpecError> {
    parse(text, is_agent_request)
}

fn parse(text: &str, is_answered: fn(&str) -> bool) -> Result<Fault, SpecError> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(SpecError::Json);
    }
    let short = || SpecError::Short(text.to_owned());
    let (rest, number) = match text.rsplit_once('#') {
        Some((rest, number)) => {
            (rest, Some(number.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(short)?))
        }
        None => (text, None),
    };
    let (action, method) = match rest.split_once('@') {
        Some((_, "" | "<")) => return Err(short()),
        Some((action, method)) => (action, Some(method)),
        None => (rest, None),
    };
    let action = match action.split_once('=') {
        None => Value::String(action.to_owned()),
        Some((name, value)) => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            serde_json::json!({ name: value })
        }
    };
    let mut fault = serde_json::json!({ "do": [action] });
    match method {
        Some(method) if method.starts_with('<') => {
            fault["on"] = "in".into();
            fault["method"] = method[1..].into();
        }
        Some(method) if is_answered(method) => fault["to"] = method.into(),
        Some(method) => fault["method"] = method.into(),
        None => {}
    }
    if let Some(number) = number {
        fault["skip"] = (number - 1).into();
        fault["times"] = 1.into();
    }
    serde_json::from_value(fault).map_err(SpecError::Json)
}

/// Whether an agent only ever answers this method.
fn is_client_request(method: &str) -> bool {
    matches!(method, method::INITIALIZE | method::AUTHENTICATE | method::LOGOUT)
        || (method.starts_with("session/")
            && !matches!(method, method::SESSION_UPDATE | method::SESSION_REQUEST_PERMISSION))
}

/// Whether a client only ever answers this method.
fn is_agent_request(method: &str) -> bool {
    matches!(method, method::SESSION_REQUEST_PERMISSION | method::ELICITATION_CREATE)
        || method.starts_with("fs/")
        || method.starts_with("terminal/")
}
