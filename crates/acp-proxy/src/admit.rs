//! Who may come in.

use std::time::Duration;

use acp_link::Link;
use acp_proto::error_code;
use acp_rpc::{Frame, Id, RpcError, View};
use tokio::time::timeout;

/// The notification with which a client shows its token on a wire that has no other place for it.
pub const TOKEN_METHOD: &str = "_proxy/token";
/// How long a client may take to show it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a client that is refused may take to ask something.
const ASKING: Duration = Duration::from_secs(2);

/// The line with which a client shows its token.
#[must_use]
pub fn token_line(token: &str) -> Frame {
    Frame::notification(TOKEN_METHOD, &serde_json::json!({ "token": token }))
}

/// Reads the first line, which must be the token.
pub(crate) async fn by_token(client: &mut Link, token: &str) -> Result<(), String> {
    let first = timeout(PATIENCE, client.rx.recv()).await;
    let frame = match first {
        Ok(Some(arrival)) => Frame::from(arrival.line),
        Ok(None) => return Err("a client left without showing its token".to_owned()),
        Err(_) => return Err(format!("a client did not show its token within {PATIENCE:?}")),
    };
    let (words, mut id) = match frame.view() {
        View::Notification { method: TOKEN_METHOD, params } => {
            let params: serde_json::Value =
                params.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            if params["token"].as_str().is_some_and(|shown| acp_link::same_secret(shown, token)) {
                return Ok(());
            }
            ("the token is wrong", Id::Null)
        }
        View::Request { id, .. } => ("no token was shown", id.clone()),
        _ => ("no token was shown", Id::Null),
    };
    let words = format!(
        "{words}: this proxy wants {{\"jsonrpc\":\"2.0\",\"method\":\"{TOKEN_METHOD}\",\"params\":{{\"token\":\"…\"}}}} as the first line"
    );
    // A client hears an answer to what it asks.
    let asks = async {
        while id == Id::Null {
            let Some(arrival) = client.rx.recv().await else { break };
            if let View::Request { id: asked, .. } = Frame::from(arrival.line).view() {
                id = asked.clone();
            }
        }
    };
    let _ = timeout(ASKING, asks).await;
    // Not -32000: to a client that is a login which the agent offers, and none of them helps here.
    let error = RpcError::new(error_code::INVALID_REQUEST, words.clone());
    let _ = client.tx.try_send(Frame::failure(&id, &error).raw());
    Err(format!("a client was refused: {words}"))
}
