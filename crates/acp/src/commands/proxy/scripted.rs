//! An installed agent on a scripted model, one for each client.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use acp_campaign::{Real, Room};
use acp_link::Link;
use acp_proto::method;
use acp_proxy::{AgentUnavailable, OpenedAgent};
use acp_rpc::Frame;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

/// How the ids of our own requests begin.
const OWN: &str = "acp-setup-";
/// How many frames may wait in each direction.
const QUEUE: usize = 64;

/// The requests that open sessions, by their ids as they are written, with the session that they name.
type Openings = Arc<Mutex<HashMap<String, Option<String>>>>;

/// Starts the agent. Its home and its model live as long as the conversation.
pub fn open(real: Arc<Real>, folder: PathBuf) -> BoxFuture<'static, Result<OpenedAgent, AgentUnavailable>> {
    Box::pin(async move {
        let (room, link, child) =
            Room::open(&real, &folder, std::env::current_exe().ok()).await.map_err(AgentUnavailable::new)?;
        let (ours, theirs) = acp_link::memory(QUEUE);
        tokio::spawn(relay(room, theirs, link));
        Ok((ours, Some(child)))
    })
}

/// Passes lines on, and sends what the agent's profile wants after each session was opened.
async fn relay(room: Room, client: Link, agent: Link) {
    let openings = Openings::default();
    let (mut from_client, to_client) = (client.rx, client.tx);
    let (mut from_agent, to_agent) = (agent.rx, agent.tx);
    let (opened, own) = (openings.clone(), to_agent.clone());
    let up = async move {
        while let Some(arrival) = from_client.recv().await {
            let frame = Frame::from(arrival.line);
            note(&frame, &openings);
            if to_agent.send(frame.raw()).await.is_err() {
                break;
            }
        }
        to_agent.close();
    };
    let down = async move {
        while let Some(arrival) = from_agent.recv().await {
            let frame = Frame::from(arrival.line);
            if frame.method().is_none() && frame.id().is_some_and(|id| id.to_string().contains(OWN)) {
                complain(&frame);
                continue;
            }
            for request in
                session_of(&frame, &opened).map(|session| setup(&room, &session)).unwrap_or_default()
            {
                if own.send(request.to_string()).await.is_err() {
                    break;
                }
            }
            if to_client.send(frame.raw()).await.is_err() {
                break;
            }
        }
        to_client.close();
    };
    // The agent's own end is the end: its last words are passed on although the client has gone.
    tokio::join!(up, down);
}

/// Remembers a request that opens a session.
fn note(frame: &Frame, openings: &Openings) {
    let (Some(method @ (method::SESSION_NEW | method::SESSION_LOAD)), Some(id)) =
        (frame.method(), frame.id())
    else {
        return;
    };
    let params: Value = frame.params().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let session =
        (method == method::SESSION_LOAD).then(|| params["sessionId"].as_str().map(str::to_owned)).flatten();
    openings.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_string(), session);
}

/// The session that this response opens.
fn session_of(frame: &Frame, openings: &Openings) -> Option<String> {
    if frame.method().is_some() {
        return None;
    }
    let named = openings.lock().unwrap_or_else(PoisonError::into_inner).remove(&frame.id()?.to_string())?;
    let result: Value = serde_json::from_str(frame.result()?).ok()?;
    named.or_else(|| result["sessionId"].as_str().map(str::to_owned))
}

/// What the profile wants for this session, as requests of our own.
fn setup(room: &Room, session: &str) -> Vec<Value> {
    let requests = room.setup(session).unwrap_or_else(|error| {
        eprintln!("acp proxy: the session cannot be set up as the profile wants: {error}");
        Vec::new()
    });
    let own = |(number, request): (usize, Value)| json!({ "jsonrpc": "2.0", "id": format!("{OWN}{number}"), "method": request["method"], "params": request["params"] });
    requests.into_iter().enumerate().map(own).collect()
}

fn complain(answer: &Frame) {
    if let Some(error) = answer.error() {
        eprintln!(
            "acp proxy: the session could not be set up as the profile wants: {}",
            acp_text::line(error)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_known_by_the_response_or_by_the_request() {
        let openings = Openings::default();
        let frame = |text: &str| Frame::parse(text.to_owned());
        note(&frame(r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}"#), &openings);
        note(
            &frame(r#"{"jsonrpc":"2.0","id":"x","method":"session/load","params":{"sessionId":"old"}}"#),
            &openings,
        );
        note(
            &frame(r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"old"}}"#),
            &openings,
        );
        let opened = |text: &str| session_of(&frame(text), &openings);
        assert_eq!(opened(r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#), None);
        assert_eq!(opened(r#"{"jsonrpc":"2.0","id":"x","result":{}}"#).as_deref(), Some("old"));
        assert_eq!(
            opened(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"new"}}"#).as_deref(),
            Some("new")
        );
        assert_eq!(opened(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"new"}}"#), None, "once");
    }
}
