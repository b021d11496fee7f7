//! The token of a connection, on a wire that has no other place for it: a notification that comes before everything else.

use acp_proto::error_code;
use acp_rpc::{Frame, RpcError, View};

/// The notification with which a client shows its token.
pub const METHOD: &str = "_proxy/token";

/// What a client that was not let in can do.
pub const HINT: &str = "show the right token with --connect-token or ACP_CONNECT_TOKEN";

/// The line with which a client shows its token.
#[must_use]
pub fn line(token: &str) -> Frame {
    Frame::notification(METHOD, &serde_json::json!({ "token": token }))
}

/// The token that a client shows with this frame; empty if the frame is made for one and has none.
#[must_use]
pub fn shown(frame: &Frame) -> Option<String> {
    let View::Notification { method: METHOD, params } = frame.view() else { return None };
    let params: serde_json::Value =
        params.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    Some(params["token"].as_str().unwrap_or_default().to_owned())
}

/// The refusal of a client that has not shown the right token. Programs can tell it from others by its `data`.
#[must_use]
pub fn refusal(words: &str) -> RpcError {
    // Not -32000: to a client that is a login which the agent offers, and none of them helps here.
    RpcError::new(error_code::INVALID_REQUEST, words).with_data(serde_json::json!({ "wants": METHOD }))
}

/// What a client whose token was wrong is answered; nothing if it does not ask.
#[must_use]
pub fn refused(frame: &Frame) -> Option<Frame> {
    let View::Request { id, .. } = frame.view() else { return None };
    Some(Frame::failure(id, &refusal("the token is wrong")))
}

/// Whether a request was refused because the connection has not shown the right token.
#[must_use]
pub fn is_wanted(data: Option<&serde_json::Value>) -> bool {
    data.is_some_and(|data| data["wants"] == METHOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_is_shown() {
        assert_eq!(shown(&line("s3cret")), Some("s3cret".to_owned()));
        assert_eq!(shown(&Frame::notification(METHOD, &serde_json::json!({}))), Some(String::new()));
        assert_eq!(shown(&Frame::notification("_other", &serde_json::json!({ "token": "x" }))), None);
        assert!(is_wanted(refusal("no token").data.as_ref()) && !is_wanted(None));
    }
}
