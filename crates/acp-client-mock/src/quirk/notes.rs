//! Wrong about what the agent tells, and about when it has gone.

use std::collections::BTreeSet;

use acp_proto::{Method, UpdateKind, method};
use acp_rpc::{Frame, View};
use serde_json::Value;

use super::{Around, WireQuirk, notification, request, result, text};
use crate::wire::WireEnd;

/// Ends the connection as soon as it has cancelled a turn.
pub(super) struct KillsOnCancel;

impl WireQuirk for KillsOnCancel {
    fn says(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if notification(&frame, method::SESSION_CANCEL).is_some() {
            around.ended = Some(WireEnd::Hangup);
        }
        Some(frame)
    }
}

/// Breaks at a notification that it does not know.
pub(super) struct DiesOnNote;

impl WireQuirk for DiesOnNote {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        match frame.view() {
            View::Notification { method, .. } if Method::ALL.iter().all(|known| known.as_str() != method) => {
                around.crash();
                None
            }
            _ => Some(frame),
        }
    }
}

/// Whether this is an update of a kind that the protocol does not have.
fn is_unknown_update(frame: &Frame) -> bool {
    notification(frame, method::SESSION_UPDATE).is_some_and(|params| {
        let kind = text(&params["update"], "sessionUpdate");
        UpdateKind::ALL.iter().all(|known| known.as_str() != kind)
    })
}

/// Breaks at an update of a kind that it does not know.
pub(super) struct DiesOnUnknownUpdate;

impl WireQuirk for DiesOnUnknownUpdate {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if is_unknown_update(&frame) {
            around.crash();
            return None;
        }
        Some(frame)
    }
}

/// Says nothing more after an update of a kind that it does not know.
#[derive(Default)]
pub(super) struct LocksAfterUnknownUpdate {
    is_locked: bool,
}

impl WireQuirk for LocksAfterUnknownUpdate {
    fn hears(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        self.is_locked |= is_unknown_update(&frame);
        Some(frame).filter(|_| !self.is_locked)
    }

    fn says(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        Some(frame).filter(|_| !self.is_locked)
    }

    fn launched(&mut self) {
        self.is_locked = false;
    }
}

/// The sessions of a connection.
#[derive(Default)]
struct Known {
    open: BTreeSet<String>,
    /// How many are being opened.
    opening: usize,
}

impl Known {
    fn says(&mut self, frame: &Frame) {
        if request(frame, method::SESSION_NEW).is_some() {
            self.opening += 1;
        }
        for method in [method::SESSION_LOAD, method::SESSION_RESUME] {
            self.open.extend(request(frame, method).map(|(_, params)| text(&params, "sessionId").to_owned()));
        }
    }

    fn hears(&mut self, frame: &Frame, around: &Around<'_>) {
        if around.answers(method::SESSION_NEW).is_some() {
            self.opening = self.opening.saturating_sub(1);
            self.open.extend(result(frame).map(|(_, answer)| text(&answer, "sessionId").to_owned()));
        }
    }

    /// Whether this is an update of a session that is not open.
    fn is_foreign(&self, frame: &Frame) -> bool {
        let session = |params: Value| text(&params, "sessionId").to_owned();
        notification(frame, method::SESSION_UPDATE)
            .map(session)
            .is_some_and(|session| !self.open.contains(&session))
    }
}

/// Drops updates that come before the answer that opens their session.
#[derive(Default)]
pub(super) struct DropsEarlyUpdates(Known);

impl WireQuirk for DropsEarlyUpdates {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        self.0.hears(&frame, around);
        let is_early = self.0.opening > 0 && self.0.is_foreign(&frame);
        Some(frame).filter(|_| !is_early)
    }

    fn says(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        self.0.says(&frame);
        Some(frame)
    }

    fn launched(&mut self) {
        self.0 = Known::default();
    }
}

/// Breaks at an update of a session that it did not open.
#[derive(Default)]
pub(super) struct DiesOnForeignSession(Known);

impl WireQuirk for DiesOnForeignSession {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        self.0.hears(&frame, around);
        if self.0.opening == 0 && self.0.is_foreign(&frame) {
            around.crash();
            return None;
        }
        Some(frame)
    }

    fn says(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        self.0.says(&frame);
        Some(frame)
    }

    fn launched(&mut self) {
        self.0 = Known::default();
    }
}

/// Does not notice that its agent has ended.
pub(super) struct IgnoresTheEnd;

impl WireQuirk for IgnoresTheEnd {
    fn notices_end(&self) -> bool {
        false
    }
}
