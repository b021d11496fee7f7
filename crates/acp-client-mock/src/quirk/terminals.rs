//! Wrong about the life of terminals.

use std::collections::{BTreeSet, HashMap};

use acp_proto::{error_code, method};
use acp_rpc::{Frame, Id, RpcError};
use serde_json::json;

use super::{Around, WireQuirk, request, result, text};

/// Answers `terminal/create` when the command has ended.
#[derive(Default)]
pub(super) struct CreateWaits {
    /// The answers that wait, by our request for the end of the command.
    held: HashMap<Id, Frame>,
}

impl WireQuirk for CreateWaits {
    fn says(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if let Some(held) = frame.id().and_then(|id| self.held.remove(id)) {
            return Some(held);
        }
        let Some(asked) = around.answers(method::TERMINAL_CREATE) else { return Some(frame) };
        let Some((_, answer)) = result(&frame) else { return Some(frame) };
        let params = json!({ "sessionId": asked.params["sessionId"], "terminalId": answer["terminalId"] });
        let id = around.ask_client(method::TERMINAL_WAIT_FOR_EXIT, &params);
        self.held.insert(id, frame);
        None
    }
}

/// Answers one of several waits for the same terminal.
#[derive(Default)]
pub(super) struct OneWaitOnly {
    waiting: BTreeSet<String>,
}

impl WireQuirk for OneWaitOnly {
    fn hears(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        let waits = request(&frame, method::TERMINAL_WAIT_FOR_EXIT);
        let is_lost =
            waits.is_some_and(|(_, params)| !self.waiting.insert(text(&params, "terminalId").to_owned()));
        Some(frame).filter(|_| !is_lost)
    }

    fn says(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if let Some(asked) = around.answers(method::TERMINAL_WAIT_FOR_EXIT) {
            self.waiting.remove(text(&asked.params, "terminalId"));
        }
        Some(frame)
    }
}

/// Asks a command to end and never forces it: the answer does not wait for the end.
#[derive(Default)]
pub(super) struct KillAsksNicely {
    /// The terminals that there are.
    open: BTreeSet<String>,
}

impl WireQuirk for KillAsksNicely {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if let Some((_, params)) = request(&frame, method::TERMINAL_RELEASE) {
            self.open.remove(text(&params, "terminalId"));
        }
        if let Some((id, params)) = request(&frame, method::TERMINAL_KILL)
            && self.open.contains(text(&params, "terminalId"))
        {
            around.answer(&id, Ok(json!({})));
        }
        Some(frame)
    }

    fn says(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        if around.answers(method::TERMINAL_CREATE).is_some() {
            self.open.extend(result(&frame).map(|(_, answer)| text(&answer, "terminalId").to_owned()));
        }
        // It has been answered.
        let is_late = around.answers(method::TERMINAL_KILL).is_some() && result(&frame).is_some();
        Some(frame).filter(|_| !is_late)
    }
}

/// Releases the terminal when its command is killed.
pub(super) struct KillReleases;

impl WireQuirk for KillReleases {
    fn says(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        let params = around.answers(method::TERMINAL_KILL).map(|asked| asked.params.clone());
        if let Some(params) = params.filter(|_| result(&frame).is_some()) {
            around.ask_client(method::TERMINAL_RELEASE, &params);
        }
        Some(frame)
    }
}

/// Lets the command of a released terminal run.
#[derive(Default)]
pub(super) struct ReleaseLetsRun {
    gone: BTreeSet<String>,
}

impl WireQuirk for ReleaseLetsRun {
    fn hears(&mut self, frame: Frame, around: &mut Around<'_>) -> Option<Frame> {
        const METHODS: [&str; 4] = [
            method::TERMINAL_OUTPUT,
            method::TERMINAL_WAIT_FOR_EXIT,
            method::TERMINAL_KILL,
            method::TERMINAL_RELEASE,
        ];
        let asked = METHODS.iter().find_map(|method| request(&frame, method));
        let Some((id, params)) = asked else { return Some(frame) };
        let terminal = text(&params, "terminalId");
        if self.gone.contains(terminal) {
            let words = format!("terminal not found: {terminal}");
            let error = RpcError::new(error_code::RESOURCE_NOT_FOUND, words);
            around.answer(&id, Err(error.with_data(json!({ "terminalId": terminal }))));
            return None;
        }
        if frame.method() == Some(method::TERMINAL_RELEASE) {
            self.gone.insert(terminal.to_owned());
            around.answer(&id, Ok(json!({})));
            return None;
        }
        Some(frame)
    }
}

/// Kills a released terminal and keeps it.
pub(super) struct IdOutlivesRelease;

impl WireQuirk for IdOutlivesRelease {
    fn hears(&mut self, frame: Frame, _: &mut Around<'_>) -> Option<Frame> {
        match request(&frame, method::TERMINAL_RELEASE) {
            Some((id, params)) => Some(Frame::request(&id, method::TERMINAL_KILL, &params)),
            None => Some(frame),
        }
    }
}
