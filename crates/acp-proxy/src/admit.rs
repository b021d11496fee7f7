//! Who may come in.

use std::time::Duration;

use acp_link::{Link, token as shown_token};
use acp_rpc::{Frame, Id, View};
use tokio::time::timeout;

/// How long a client may take to show it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a client that is refused may take to ask something.
const ASKING: Duration = Duration::from_secs(2);

/// Reads the first line, which must be the token.
pub(crate) async fn by_token(client: &mut Link, token: &str) -> Result<(), String> {
    let first = timeout(PATIENCE, client.rx.recv()).await;
    let frame = match first {
        Ok(Some(arrival)) => Frame::from(arrival.line),
        Ok(None) => return Err("a client left without showing its token".to_owned()),
        Err(_) => return Err(format!("a client did not show its token within {PATIENCE:?}")),
    };
    let (words, mut id) = match frame.view() {
        View::Notification { .. } => match shown_token::shown(&frame) {
            Some(shown) if acp_link::same_secret(&shown, token) => return Ok(()),
            Some(_) => ("the token is wrong", Id::Null),
            None => ("no token was shown", Id::Null),
        },
        View::Request { id, .. } => ("no token was shown", id.clone()),
        _ => ("no token was shown", Id::Null),
    };
    let words = format!(
        "{words}: this proxy wants {{\"jsonrpc\":\"2.0\",\"method\":\"{}\",\"params\":{{\"token\":\"…\"}}}} as the first line",
        shown_token::METHOD
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
    let error = shown_token::refusal(&words);
    let _ = client.tx.try_send(Frame::failure(&id, &error).raw());
    Err(format!("a client was refused: {words}"))
}
