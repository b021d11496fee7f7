//! Who may come in.

use std::time::Duration;

use acp_link::{Link, token as shown_token};
use acp_rpc::{Frame, Id, View};
use tokio::time::timeout;

/// How long a client may take to show its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client that is refused may take to ask something.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a client is turned away.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdmissionError {
    /// It said nothing.
    #[error("a client left without showing its token")]
    Left,
    /// It said nothing in time.
    #[error("a client did not show its token within {TOKEN_TIMEOUT:?}")]
    Silent,
    /// It has no token, or a wrong one.
    #[error("a client was refused: {0}")]
    Refused(String),
}

/// Reads the first line, which must be the token.
pub(crate) async fn by_token(client: &mut Link, token: &str) -> Result<(), AdmissionError> {
    let first = timeout(TOKEN_TIMEOUT, client.rx.recv()).await;
    let frame = match first {
        Ok(Some(arrival)) => Frame::from(arrival.line),
        Ok(None) => return Err(AdmissionError::Left),
        Err(_) => return Err(AdmissionError::Silent),
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
    let _ = timeout(REQUEST_TIMEOUT, asks).await;
    let error = shown_token::refusal(&words);
    let _ = client.tx.try_send(Frame::failure(&id, &error).raw());
    Err(AdmissionError::Refused(words))
}
