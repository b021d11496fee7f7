//! What the interpreter wants.

use std::time::Instant;

use acp_comply::{AgentAct, FindingRef, RunAction, RunEvent};
use bytes::Bytes;
use serde_json::Value;

use super::{ExamRun, look};
use crate::launches::LaunchOrder;
use crate::wire::LaunchWire;

impl ExamRun<'_> {
    /// Does what the interpreter wants, until it wants something else to happen first.
    pub(super) fn act(&mut self) {
        while self.outcome.is_none()
            && let Some(action) = self.run.poll()
        {
            self.perform(action);
            self.pass_on_hands();
        }
    }

    fn perform(&mut self, action: RunAction) {
        match action {
            RunAction::Drive { drive, verb, fields } => self.hands.drive(drive, &verb, &fields),
            RunAction::AsAgent { launch, act } => self.as_agent(launch, act),
            RunAction::CheckFile(path) => {
                let state = look(self.place, &path);
                self.tell(RunEvent::File(state));
            }
            RunAction::CheckProcess(pid) => {
                let running = u32::try_from(pid).is_ok_and(|pid| self.processes.is_running(pid));
                self.tell(RunEvent::Process { pid, running });
            }
            RunAction::CheckJudge => {
                let findings: Vec<FindingRef> =
                    self.launches.values().flat_map(LaunchWire::findings).collect();
                self.tell(RunEvent::Judged(findings));
            }
            RunAction::Done(outcome) => self.outcome = Some(outcome),
            // These are for tests of agents.
            RunAction::Offer(_)
            | RunAction::Write(_)
            | RunAction::WriteRaw(_)
            | RunAction::CloseInput
            | RunAction::Restart
            | RunAction::Reconnect
            | RunAction::PauseRead(_)
            | RunAction::AskProvider(_)
            | RunAction::CancelPending { .. }
            | RunAction::CheckMcp => {
                let reason = "the interpreter wants something of an agent in a test of a client".to_owned();
                self.tell(RunEvent::Fault(reason));
            }
        }
    }

    fn as_agent(&mut self, launch: u32, act: AgentAct) {
        if let AgentAct::Write(line) | AgentAct::Raw(line) = &act {
            self.show("→", line);
        }
        let Some(wire) = self.launches.get_mut(&launch) else { return };
        match act {
            AgentAct::Write(line) => {
                if let Some(session) = opened_session(&line) {
                    self.hands.session = Some(session);
                }
                wire.says(Bytes::from([&line[..], b"\n"].concat()));
            }
            AgentAct::Raw(bytes) => wire.says(bytes),
            AgentAct::CloseOutput => wire.order(LaunchOrder::CloseOutput),
            AgentAct::PauseRead(time) => self.read_from = Instant::now() + time,
            AgentAct::Stderr { bytes, times } => wire.order(LaunchOrder::Errors { bytes, times }),
            AgentAct::Exit(code) => wire.order(LaunchOrder::Exit(code)),
        }
    }
}

/// The session that an answer gives an id to.
fn opened_session(line: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(line).ok()?;
    Some(answer.get("result")?.get("sessionId")?.as_str()?.to_owned())
}
