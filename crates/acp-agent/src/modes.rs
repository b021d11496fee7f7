//! Modes under the names of the form `2025.1`, whose clients name one when they make a session.

use acp_rpc::{Frame, RpcError, View};
use acp_script::agent::Agent;
use serde_json::Value;

/// The frame with the name that we have for its mode, if it needs another one; a refusal when there is no such mode. To
/// work in another mode than the client believes would be worse than not to work.
pub(crate) fn in_our_words(frame: &Frame, agent: &Agent) -> Result<Option<Frame>, Frame> {
    let View::Request { id, method: "session/new", params: Some(params) } = frame.view() else {
        return Ok(None);
    };
    let Ok(mut params) = serde_json::from_str::<Value>(params) else { return Ok(None) };
    let Some(mode) = params.get("mode").and_then(Value::as_str) else { return Ok(None) };
    let ours = agent
        .mode_called(mode)
        .map_err(|reason| Frame::failure(id, &RpcError::invalid_params(format!("params.mode: {reason}"))))?;
    if ours == mode {
        return Ok(None);
    }
    params["mode"] = ours.into();
    Ok(Some(Frame::request(id, "session/new", &params)))
}
