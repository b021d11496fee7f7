//! Modes by their aliases, for clients that choose one when they make a session.

use acp_proto::method;
use acp_rpc::{Frame, RpcError, View};
use acp_script::agent::Agent;
use serde_json::Value;

/// The frame with the name that we have for its mode, or a refusal when there is no such mode; nothing when it is fine as
/// it is. To work in another mode than the client believes would be worse than not to work.
pub(crate) fn in_our_words(frame: &Frame, agent: &Agent) -> Option<Result<Frame, Frame>> {
    let View::Request { id, method: method::SESSION_NEW, params: Some(params) } = frame.view() else {
        return None;
    };
    let mut params: Value = serde_json::from_str(params).ok()?;
    let mode = params.get("mode").and_then(Value::as_str)?;
    match agent.mode_called(mode) {
        Ok(ours) if ours == mode => None,
        Ok(ours) => {
            params["mode"] = ours.into();
            Some(Ok(Frame::request(id, method::SESSION_NEW, &params)))
        }
        Err(reason) => {
            Some(Err(Frame::failure(id, &RpcError::invalid_params(format!("params.mode: {reason}")))))
        }
    }
}
