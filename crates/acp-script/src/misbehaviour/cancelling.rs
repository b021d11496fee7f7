//! Wrong about which turns are cancelled.

use acp_proto::method;
use acp_rpc::Frame;
use serde_json::json;

use super::{Around, Misbehaviour, session_of};

/// Cancels the turns of all sessions when one is cancelled.
pub(super) struct CancelsAll;

impl Misbehaviour for CancelsAll {
    fn incoming(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if let Some(session) = session_of(&frame, &[method::SESSION_CANCEL]) {
            for other in around.agent.running_sessions().into_iter().filter(|other| *other != session) {
                let cancel = Frame::notification(method::SESSION_CANCEL, &json!({ "sessionId": other }));
                around.agent.receive(around.now, &cancel);
            }
        }
        Some(frame)
    }
}
