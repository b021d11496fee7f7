//! Wrong about MCP servers.

use std::collections::BTreeSet;

use acp_proto::method;
use acp_rpc::Frame;
use serde_json::{Value, json};

use super::{Around, Misbehaviour, request, session_of};
use crate::agent::{AgentEffect, McpKey, SessionRecord, Token};

/// Leaves the MCP servers of closed sessions running.
pub(super) struct KeepsAll;

impl Misbehaviour for KeepsAll {
    fn outgoing(&mut self, effect: AgentEffect, _: &mut Around<'_>) -> Option<AgentEffect> {
        (!matches!(effect, AgentEffect::McpDisconnect { .. })).then_some(effect)
    }
}

/// Leaves the MCP servers of some closed sessions running.
pub(super) struct Keeps {
    when: When,
    /// Sessions whose servers will be left.
    kept: BTreeSet<String>,
    /// Sessions that were opened by load or resume.
    reopened: BTreeSet<String>,
    /// Whether the session that was closed last is one whose servers are left: the agent disconnects from them next.
    is_leaving: bool,
}

/// Whose servers are left running.
#[derive(PartialEq, Eq)]
pub(super) enum When {
    /// The session is closed in the middle of a turn.
    ClosedInTurn,
    /// The session is opened again while it is open.
    Reloaded,
    /// The session was opened by load or resume.
    Reopened,
    /// One of the session's turns was cancelled.
    Cancelled,
}

impl Keeps {
    pub(super) fn when(when: When) -> Self {
        Self { when, kept: BTreeSet::new(), reopened: BTreeSet::new(), is_leaving: false }
    }
}

impl Misbehaviour for Keeps {
    fn incoming(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let is_kept = |session: &String| match self.when {
            When::ClosedInTurn | When::Cancelled => around.agent.is_running(session),
            When::Reopened => self.reopened.contains(session),
            When::Reloaded => false,
        };
        let methods: &[&str] = match self.when {
            When::Cancelled => &[method::SESSION_CANCEL],
            _ => &[method::SESSION_CLOSE, method::SESSION_DELETE],
        };
        self.kept.extend(session_of(&frame, methods).filter(is_kept));
        Some(frame)
    }

    fn fetched(&mut self, _: Token, record: Option<&mut SessionRecord>, around: &mut Around<'_>) -> bool {
        let Some(record) = record else { return true };
        let is_open = around.agent.folders(&record.id).is_some();
        let is_reopened = !self.reopened.insert(record.id.clone());
        let is_kept = match self.when {
            When::Reloaded => true,
            When::Reopened => is_reopened,
            When::ClosedInTurn | When::Cancelled => false,
        };
        if is_open && is_kept {
            self.kept.insert(record.id.clone());
        }
        true
    }

    fn outgoing(&mut self, effect: AgentEffect, _: &mut Around<'_>) -> Option<AgentEffect> {
        match &effect {
            AgentEffect::McpDisconnect { .. } if self.is_leaving => return None,
            AgentEffect::SessionClosed(session) => self.is_leaving = self.kept.remove(session),
            _ => self.is_leaving = false,
        }
        Some(effect)
    }
}

/// Ends the MCP servers of all sessions when one is closed.
#[derive(Default)]
pub(super) struct EndsAll {
    running: BTreeSet<McpKey>,
}

impl Misbehaviour for EndsAll {
    fn outgoing(&mut self, effect: AgentEffect, around: &mut Around<'_>) -> Option<AgentEffect> {
        match &effect {
            AgentEffect::McpConnect { key, .. } => drop(self.running.insert(*key)),
            AgentEffect::McpDisconnect { key } if !self.running.remove(key) => return None,
            AgentEffect::SessionClosed(_) => {
                let all = std::mem::take(&mut self.running).into_iter();
                around.effects.extend(all.map(|key| AgentEffect::McpDisconnect { key }));
            }
            _ => {}
        }
        Some(effect)
    }
}

/// Says that it called an MCP tool, but did not.
pub(super) struct PretendsCalls;

impl Misbehaviour for PretendsCalls {
    fn outgoing(&mut self, effect: AgentEffect, around: &mut Around<'_>) -> Option<AgentEffect> {
        let AgentEffect::McpCall { token, .. } = effect else { return Some(effect) };
        let pretended = json!({ "content": [{ "type": "text", "text": "pong" }] });
        around.agent.mcp_answered(token, Ok(pretended));
        None
    }
}

/// Offers the MCP tools of every session in the sessions that follow: it connects them to the same servers.
#[derive(Default)]
pub(super) struct SharesTools {
    servers: Vec<Value>,
}

impl Misbehaviour for SharesTools {
    fn incoming(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        let Some((id, mut params)) = request(&frame, method::SESSION_NEW) else { return Some(frame) };
        let Some(Value::Array(servers)) = params.get_mut("mcpServers") else { return Some(frame) };
        let own = std::mem::take(servers);
        self.servers.extend(own);
        servers.clone_from(&self.servers);
        Some(Frame::request(id, method::SESSION_NEW, &params))
    }
}
