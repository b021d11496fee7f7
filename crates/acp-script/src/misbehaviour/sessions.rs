//! Wrong about which sessions there are.

use std::collections::BTreeMap;

use acp_proto::method;
use acp_rpc::Frame;

use super::{Around, Misbehaviour, request, session_of};
use crate::agent::{AgentEffect, SessionRecord, unknown_session};

/// Closes a session that is deleted in the middle of a turn, and keeps it.
pub(super) struct DeleteInTurnKeeps;

impl Misbehaviour for DeleteInTurnKeeps {
    fn incoming(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if let Some((id, params)) = request(&frame, method::SESSION_DELETE)
            && params["sessionId"].as_str().is_some_and(|session| around.agent.is_running(session))
        {
            return Some(Frame::request(id, method::SESSION_CLOSE, &params));
        }
        Some(frame)
    }
}

/// Deleting a session that is not there is an error.
pub(super) struct StrictDelete;

impl Misbehaviour for StrictDelete {
    fn incoming(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if let (Some(session), Some(id)) = (session_of(&frame, &[method::SESSION_DELETE]), frame.id())
            && around.agent.folders(&session).is_none()
        {
            around.refuse(id, &unknown_session(&session));
            return None;
        }
        Some(frame)
    }
}

/// `session/list` counts as activity of every session that is open.
#[derive(Default)]
pub(super) struct ListTouches {
    kept: BTreeMap<String, SessionRecord>,
}

impl Misbehaviour for ListTouches {
    fn outgoing(&mut self, effect: AgentEffect, _: &mut Around<'_>) -> Option<AgentEffect> {
        if let AgentEffect::StoreSession(record) = &effect {
            self.kept.insert(record.id.clone(), SessionRecord::clone(record));
        }
        Some(effect)
    }

    fn listed(&mut self, around: &mut Around<'_>) {
        for (session, record) in &mut self.kept {
            if around.agent.folders(session).is_some() {
                record.updated = around.agent.wall_clock();
                around.effects.push_back(AgentEffect::StoreSession(Box::new(record.clone())));
            }
        }
    }
}
