//! Prompts and what is attached to them.

use std::path::Path;
use std::sync::Arc;

use acp_host::{AcpClient, PromptTurn, TurnEvent};
use agent_client_protocol_schema::v1::ContentBlock;
use base64::Engine as _;
use serde_json::{Value, json};

use super::{connected, open, updated};
use crate::state::{OpenSession, Shared};

/// The most of a file that is put into a prompt.
const MOST: usize = 64 << 10;

/// Sends a prompt. Its turn goes on by itself.
pub(super) async fn prompt(shared: &Arc<Shared>, text: &str) -> Result<(), String> {
    if shared.open().is_none() {
        let is_new_process = shared.client().is_none() && !shared.manners.opens_anew();
        let old = shared.state().session.clone().filter(|_| is_new_process);
        match old {
            // The new process has never heard of it.
            Some(old) => {
                let client = connected(shared).await?;
                shared.state().session = Some(old.clone());
                return send(shared, &client, &old, text).await;
            }
            None => {
                if shared.client().is_none() {
                    shared.state().session = None;
                }
                open(shared).await?;
            }
        }
    }
    let (client, session) = shared.open().ok_or("the agent has gone")?;
    send(shared, &client, &session, text).await
}

async fn send(
    shared: &Arc<Shared>,
    client: &AcpClient,
    session: &OpenSession,
    text: &str,
) -> Result<(), String> {
    let attached = std::mem::take(&mut shared.state().attached);
    let mut blocks = vec![json!({ "type": "text", "text": text })];
    for file in attached {
        blocks.push(block(client, &shared.workspace.join(file))?);
    }
    let blocks = serde_json::from_value::<Vec<ContentBlock>>(blocks.into());
    let blocks = blocks.map_err(|error| format!("cannot attach: {error}"))?;
    let turn = client.prompt(&session.id, blocks).await.map_err(|error| error.to_string())?;
    tokio::spawn(follow(Arc::clone(shared), session.id.clone(), turn));
    Ok(())
}

/// A file as the agent takes it: by its name, unless it takes more.
fn block(client: &AcpClient, file: &Path) -> Result<Value, String> {
    let takes = client.agent().map(|agent| agent.agent_capabilities.prompt_capabilities.clone());
    let takes = takes.unwrap_or_default();
    let bytes = std::fs::read(file).map_err(|error| format!("cannot attach {}: {error}", file.display()))?;
    let uri = format!("file://{}", file.display());
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let image = match ending {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        _ => None,
    };
    if let Some(kind) = image.filter(|_| takes.image) {
        let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
        return Ok(json!({ "type": "image", "mimeType": kind, "data": data }));
    }
    match String::from_utf8(bytes) {
        Ok(text) if takes.embedded_context && image.is_none() && text.len() <= MOST => {
            Ok(json!({ "type": "resource", "resource": { "uri": uri, "text": text } }))
        }
        _ => {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            Ok(json!({ "type": "resource_link", "uri": uri, "name": name }))
        }
    }
}

/// Tells what comes of a turn.
async fn follow(shared: Arc<Shared>, session: String, mut turn: PromptTurn) {
    while let Some(event) = turn.next().await {
        match event {
            TurnEvent::Update(update) => updated(&shared, &update),
            TurnEvent::Decision(_) => {}
            TurnEvent::Ended(answer) => {
                let reason = crate::state::result_of(&answer.frame)["stopReason"].take();
                shared.tell(json!({ "event": "end", "sessionId": session, "stopReason": reason }));
            }
            TurnEvent::Failed(error) => shared.complain(Some("prompt"), &error.to_string()),
        }
    }
}
