//! The errors that providers answer with: codes, and `data.reason` for programs.

use std::path::Path;

use acp_proto::error_code;
use acp_rpc::RpcError;
use serde::de::DeserializeOwned;
use serde_json::json;

pub(crate) fn params<T: DeserializeOwned>(method: &str, params: Option<&str>) -> Result<T, RpcError> {
    let text = params.unwrap_or("{}");
    serde_json::from_str(text)
        .map_err(|error| RpcError::invalid_params(format!("the params of {method} do not fit: {error}")))
}

pub(crate) fn denied(subject: &str, why: &str) -> RpcError {
    RpcError::internal(format!("refused: {subject}: {why}"))
        .with_data(json!({"reason": "permission_denied", "detail": why}))
}

pub(crate) fn outside(path: &Path) -> RpcError {
    let why = "the path lies outside the session's folders";
    RpcError::internal(format!("refused: {}: {why}", path.display()))
        .with_data(json!({"reason": "permission_denied", "detail": why, "path": path}))
}

pub(crate) fn no_file(path: &Path) -> RpcError {
    RpcError::new(error_code::RESOURCE_NOT_FOUND, format!("file not found: {}", path.display()))
        .with_data(json!({"uri": format!("file://{}", path.display())}))
}

pub(crate) fn no_session(session: &str) -> RpcError {
    RpcError::new(error_code::RESOURCE_NOT_FOUND, format!("session not found: {session}"))
        .with_data(json!({"sessionId": session}))
}

pub(crate) fn no_terminal(terminal: &str) -> RpcError {
    RpcError::new(error_code::RESOURCE_NOT_FOUND, format!("terminal not found: {terminal}"))
        .with_data(json!({"terminalId": terminal}))
}

pub(crate) fn cancelled(method: &str) -> RpcError {
    RpcError::new(error_code::REQUEST_CANCELLED, format!("{method} was cancelled"))
}

/// Something about a file that is not the machine's fault: a folder, bytes that are not text, too large.
pub(crate) fn unfit(reason: &str, message: String) -> RpcError {
    RpcError::internal(message).with_data(json!({"reason": reason}))
}
