//! Wrong before the first session.

use acp_proto::method;
use acp_rpc::{Frame, Id, RpcError, View};
use serde_json::{Value, json};

use super::{Around, Misbehaviour, request};
use crate::agent::AgentEffect;

/// Serves sessions before `initialize`: the agent is told one that the client never sent.
#[derive(Default)]
pub(super) struct NoHandshake {
    is_initialized: bool,
}

fn own_id() -> Id {
    Id::Text("no-handshake".into())
}

impl Misbehaviour for NoHandshake {
    fn incoming(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if let View::Request { method, .. } = frame.view() {
            let is_first = !std::mem::replace(&mut self.is_initialized, true);
            if is_first && method != method::INITIALIZE {
                let params = json!({ "protocolVersion": 1 });
                around.agent.receive(around.now, &Frame::request(&own_id(), method::INITIALIZE, &params));
            }
        }
        Some(frame)
    }

    fn outgoing(&mut self, effect: AgentEffect, _: &mut Around<'_>) -> Option<AgentEffect> {
        match &effect {
            AgentEffect::Send(frame) if frame.method().is_none() && frame.id() == Some(&own_id()) => None,
            _ => Some(effect),
        }
    }
}

/// Refuses client capabilities that it does not know.
pub(super) struct StrictCapabilities;

/// The top-level keys of `clientCapabilities` that stable version 1 knows.
const CLIENT_CAPABILITIES: [&str; 6] = ["fs", "terminal", "auth", "elicitation", "session", "_meta"];

impl Misbehaviour for StrictCapabilities {
    fn incoming(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if let Some((id, params)) = request(&frame, method::INITIALIZE)
            && let Some(Value::Object(given)) = params.get("clientCapabilities")
            && let Some(unknown) = given.keys().find(|key| !CLIENT_CAPABILITIES.contains(&key.as_str()))
        {
            let words = format!("params.clientCapabilities.{unknown} is unknown");
            around.refuse(id, &RpcError::invalid_params(words));
            return None;
        }
        Some(frame)
    }
}
