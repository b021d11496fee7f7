//! The client as a program: verbs on its input, events on its output.

use std::path::PathBuf;
use std::sync::Arc;

use acp_link::{Link, LinkClosed};
use acp_rpc::Line;
use serde_json::{Value, json};

use crate::launch::AgentStarter;
use crate::mock::ClientMock;
use crate::nature::ClientNature;

/// Why a client stopped listening.
#[derive(Debug, thiserror::Error)]
pub enum TalkError {
    /// Nobody reads its events any more.
    #[error("cannot tell what happened: {0}")]
    Closed(#[from] LinkClosed),
}

/// Does what the lines say until the client has ended; the end of the lines means `quit`. Returns its exit code.
pub async fn talk(
    nature: ClientNature,
    workspace: PathBuf,
    agents: Arc<dyn AgentStarter>,
    mut lines: Link,
) -> Result<i32, TalkError> {
    let (client, mut events) = ClientMock::start(nature, workspace, agents);
    let mut listens = true;
    let code = loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => lines.tx.send(event.to_string()).await?,
            code = client.ended() => break code,
            arrival = lines.rx.recv(), if listens => match arrival {
                Some(arrival) => {
                    if let Some(verb) = verb(&arrival.line) {
                        client.tell(&verb);
                    }
                }
                None => {
                    listens = false;
                    client.tell(&json!({ "verb": "quit" }));
                }
            },
        }
    };
    while let Ok(event) = events.try_recv() {
        lines.tx.send(event.to_string()).await?;
    }
    lines.tx.flush().await?;
    Ok(code)
}

/// The verb on a line; none on an empty one. What is no JSON is told as it is, and refused like any other wrong verb.
fn verb(line: &Line) -> Option<Value> {
    let text = String::from_utf8_lossy(line.bytes());
    let text = text.trim();
    (!text.is_empty()).then(|| serde_json::from_str(text).unwrap_or_else(|_| text.into()))
}
