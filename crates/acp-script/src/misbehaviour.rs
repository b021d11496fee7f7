//! Wrong behaviour made from outside of the agent: what goes in and what comes out is changed on its way.
//!
//! Unlike a [`crate::faults::Fault`], a [`Misbehaviour`] sees everything that an agent does to the world, and not only
//! its frames. The few that need the inside are in [`quirks`].

use std::collections::VecDeque;
use std::time::Duration;

use acp_rpc::{Frame, Id, RpcError, View};
use serde_json::Value;

use crate::agent::{Agent, AgentEffect, SessionRecord, Token};
use crate::switch::Switch;

mod cancelling;
mod handshake;
mod permissions;
mod quirks;
mod reopening;
mod servers;
mod sessions;

pub(crate) use quirks::MockQuirks;

/// Stands between an agent and everything else. The defaults change nothing.
pub(crate) trait Misbehaviour: Send {
    /// A frame from the client; what is given back reaches the agent.
    fn incoming(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let _ = around;
        Some(frame)
    }

    /// Something that the agent wants done; what is given back is done.
    fn outgoing(&mut self, effect: AgentEffect, around: &mut Around<'_>) -> Option<AgentEffect> {
        let _ = around;
        Some(effect)
    }

    /// The answer to [`AgentEffect::FetchSession`]. Whether the agent hears it.
    fn fetched(&mut self, token: Token, record: Option<&mut SessionRecord>, around: &mut Around<'_>) -> bool {
        let _ = (token, record, around);
        true
    }

    /// The agent has answered `session/list`.
    fn listed(&mut self, around: &mut Around<'_>) {
        let _ = around;
    }
}

/// What a misbehaviour can use.
pub(crate) struct Around<'a> {
    pub(crate) agent: &'a mut Agent,
    pub(crate) now: Duration,
    /// What is done before anything that the agent does next.
    pub(crate) effects: &'a mut VecDeque<AgentEffect>,
}

impl Around<'_> {
    fn send(&mut self, frame: Frame) {
        self.effects.push_back(AgentEffect::Send(frame));
    }

    fn refuse(&mut self, id: &Id, error: &RpcError) {
        self.send(Frame::failure(id, error));
    }
}

/// The misbehaviour of this name; none for what [`MockQuirks`] and [`crate::MockAgent`] do.
pub(crate) fn named(switch: Switch) -> Option<Box<dyn Misbehaviour>> {
    Some(match switch {
        Switch::NoHandshake => Box::new(handshake::NoHandshake::default()),
        Switch::StrictCapabilities => Box::new(handshake::StrictCapabilities),
        Switch::EraseOnLoad => Box::new(reopening::EraseOnLoad::default()),
        Switch::ForgetsAfterLoad => Box::new(reopening::ForgetsAfterLoad::default()),
        Switch::ResumeForgets => Box::new(reopening::ResumeForgets::default()),
        Switch::KeepsRoots => Box::new(reopening::KeepsRoots::default()),
        Switch::KeepsNothingAfterReopening => Box::new(reopening::KeepsNothing::default()),
        Switch::CloseKeepsServers => Box::new(servers::KeepsAll),
        Switch::CloseEndsAllServers => Box::new(servers::EndsAll::default()),
        Switch::CloseInTurnKeepsServers => Box::new(servers::Keeps::when(servers::When::ClosedInTurn)),
        Switch::ReloadKeepsServers => Box::new(servers::Keeps::when(servers::When::Reloaded)),
        Switch::ReopenedKeepsServers => Box::new(servers::Keeps::when(servers::When::Reopened)),
        Switch::CancelKeepsServers => Box::new(servers::Keeps::when(servers::When::Cancelled)),
        Switch::PretendsMcpCalls => Box::new(servers::PretendsCalls),
        Switch::SharesMcpTools => Box::new(servers::SharesTools::default()),
        Switch::DeleteInTurnKeeps => Box::new(sessions::DeleteInTurnKeeps),
        Switch::StrictDelete => Box::new(sessions::StrictDelete),
        Switch::ListTouches => Box::new(sessions::ListTouches::default()),
        Switch::CancelsAll => Box::new(cancelling::CancelsAll),
        Switch::AsksAfterwards => Box::new(permissions::AsksAfterwards::default()),
        Switch::SkipsValidation => Box::new(permissions::SkipsValidation::default()),
        Switch::SameSessionId
        | Switch::SharedMemory
        | Switch::CountsSessionsAnew
        | Switch::ComparesBeginnings
        | Switch::RelativeToRoots
        | Switch::RefusesCwd
        | Switch::NoBoundary
        | Switch::KeepsWorking
        | Switch::SecretsInForms
        | Switch::IgnoresReturns
        | Switch::SurvivesEnd
        | Switch::SurvivesEndInTurn => return None,
    })
}

/// The id and the parameters of a request for this method.
fn request<'a>(frame: &'a Frame, wanted: &str) -> Option<(&'a Id, Value)> {
    match frame.view() {
        View::Request { id, method, params } if method == wanted => Some((id, read(params))),
        _ => None,
    }
}

/// The id of a response and its result; null for an error.
fn response(frame: &Frame) -> Option<(&Id, Value)> {
    match frame.view() {
        View::Response { id, .. } => Some((id, read(frame.result()))),
        _ => None,
    }
}

/// The session that a message of one of these methods is about.
fn session_of(frame: &Frame, methods: &[&str]) -> Option<String> {
    let params = frame.params().filter(|_| frame.method().is_some_and(|method| methods.contains(&method)));
    read(params).get("sessionId").and_then(Value::as_str).map(str::to_owned)
}

fn read(json: Option<&str>) -> Value {
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
}
