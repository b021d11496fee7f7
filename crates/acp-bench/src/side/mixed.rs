//! What a working agent sends: thoughts, plans, tool calls, questions, text. The agent does not wait for the answers to
//! its questions, so that the wire and not the waiting is measured; its client, which answers at once, sees them in
//! their order.

use std::time::Instant;

use acp_link::{Link, Receiver, Sender};
use acp_proto::{method, option_kind, update};
use acp_rpc::{Frame, Peer, Received};
use agent_client_protocol::v1::schema::{
    Implementation, InitializeRequest, InitializeResponse, NewSessionResponse, PromptResponse, StopReason,
};
use serde_json::{Value, json};

use super::{SESSION, text, update};
use crate::job::Job;
use crate::rows::MIXED_BLOCK;

/// Chunks of text in one block.
const CHUNKS: usize = 8;

/// The client's answer to a question.
pub(super) fn answer(question: &Frame) -> anyhow::Result<Value> {
    match question.method() {
        Some(method::SESSION_REQUEST_PERMISSION) => {
            Ok(json!({ "outcome": { "outcome": "selected", "optionId": "yes" } }))
        }
        Some(method::FS_READ_TEXT_FILE) => {
            Ok(json!({ "content": "fn main() {\n    println!(\"hello\");\n}\n" }))
        }
        other => anyhow::bail!("unexpected question: {other:?}"),
    }
}

pub(super) async fn agent(job: &Job, link: Link) -> anyhow::Result<()> {
    anyhow::ensure!(job.updates.is_multiple_of(MIXED_BLOCK), "no whole blocks: {} updates", job.updates);
    let Link { tx, rx, .. } = link;
    let (asked, prompts) = tokio::sync::mpsc::unbounded_channel();
    let (heard, worked) = tokio::join!(hear(rx, asked), work(job, &tx, prompts));
    heard?;
    worked?;
    tx.finish().await?;
    Ok(())
}

/// Takes requests and answers as they come, so that the client never waits for us.
async fn hear(mut rx: Receiver, asked: tokio::sync::mpsc::UnboundedSender<Frame>) -> anyhow::Result<()> {
    while let Some(arrival) = rx.recv().await {
        let frame = Frame::from(arrival.line);
        if frame.method().is_some() {
            asked.send(frame)?;
        }
    }
    Ok(())
}

async fn work(
    job: &Job,
    tx: &Sender,
    mut prompts: tokio::sync::mpsc::UnboundedReceiver<Frame>,
) -> anyhow::Result<()> {
    let mut peer = Peer::default();
    let began = Instant::now();
    let text = text(job);
    let mut block = 0;
    while let Some(frame) = prompts.recv().await {
        let Received::Asked { id, frame } = peer.receive(began.elapsed(), frame) else { continue };
        let answer = match frame.method().unwrap_or_default() {
            method::INITIALIZE => {
                let asked: InitializeRequest = serde_json::from_str(frame.params().unwrap_or_default())?;
                let info = Implementation::new("acp-bench", "1");
                peer.respond(&id, &InitializeResponse::new(asked.protocol_version).agent_info(info))?
            }
            method::SESSION_NEW => peer.respond(&id, &NewSessionResponse::new(SESSION))?,
            _ => {
                for _ in 0..job.updates / MIXED_BLOCK {
                    block += 1;
                    for line in lines(block, &peer, &text) {
                        tx.send(line.raw()).await?;
                    }
                }
                peer.respond(&id, &PromptResponse::new(StopReason::EndTurn))?
            }
        };
        tx.send(answer.raw()).await?;
    }
    Ok(())
}

/// One piece of work, from the thought to the report.
fn lines(block: usize, peer: &Peer, text: &str) -> Vec<Frame> {
    let call = format!("call_{block}");
    let tell = |update: Value| {
        peer.notify(method::SESSION_UPDATE, &json!({ "sessionId": SESSION, "update": update }))
    };
    let ask = |method: &str, params: Value| {
        Frame::request(&acp_rpc::Id::Text(format!("{method}-{block}").into()), method, &params)
    };
    let plan = |first: &str, second: &str| {
        tell(json!({ "sessionUpdate": update::PLAN, "entries": [
            { "content": "read the file", "priority": "high", "status": first },
            { "content": "change it", "priority": "medium", "status": second },
        ] }))
    };
    let mut lines = vec![
        tell(json!({ "sessionUpdate": update::AGENT_THOUGHT_CHUNK,
            "content": { "type": "text", "text": "hm, let me think" } })),
        plan("in_progress", "pending"),
        tell(
            json!({ "sessionUpdate": update::TOOL_CALL, "toolCallId": call, "title": "Read main.rs", "kind": "read",
            "status": "pending", "locations": [{ "path": "/project/src/main.rs", "line": 1 }],
            "rawInput": { "path": "/project/src/main.rs" } }),
        ),
        ask(
            method::SESSION_REQUEST_PERMISSION,
            json!({ "sessionId": SESSION, "toolCall": { "toolCallId": call }, "options": [
                { "optionId": "yes", "name": "Allow", "kind": option_kind::ALLOW_ONCE },
                { "optionId": "no", "name": "Reject", "kind": option_kind::REJECT_ONCE },
            ] }),
        ),
        tell(
            json!({ "sessionUpdate": update::TOOL_CALL_UPDATE, "toolCallId": call, "status": "in_progress" }),
        ),
        ask(method::FS_READ_TEXT_FILE, json!({ "sessionId": SESSION, "path": "/project/src/main.rs" })),
        tell(json!({ "sessionUpdate": update::TOOL_CALL_UPDATE, "toolCallId": call, "status": "completed",
            "content": [{ "type": "diff", "path": "/project/src/main.rs", "oldText": "a", "newText": "b" }] })),
    ];
    lines.extend((0..CHUNKS).map(|_| peer.notify(method::SESSION_UPDATE, &update(text))));
    lines.push(tell(json!({ "sessionUpdate": update::USAGE_UPDATE, "used": 1200, "size": 200_000,
        "cost": { "amount": 0.01, "currency": "USD" } })));
    lines.push(plan("completed", "completed"));
    lines
}
