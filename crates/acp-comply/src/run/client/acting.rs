//! Steps in which the agent does something as a process, or finds out whether the client still answers.

use super::super::claims::{Unmet, sighting};
use super::super::inbox::millis;
use super::super::{AgentAct, Run, RunAction, Sent, State, TestEnding};
use super::Waiting;
use crate::program::RawBytes;
use crate::verdict::BreakKind;
use acp_match::{Fill, Template};
use acp_rpc::{Frame, Id};
use bytes::Bytes;
use serde_json::json;
use std::time::Duration;

impl Run {
    pub(super) fn begin_alive(&mut self, timeout: Duration) {
        if self.refuse_unlaunched("the client could be asked") {
            return;
        }
        let Some(client) = &self.client else { return };
        let (launch, method) = (client.current, client.table.alive.clone());
        let id = Id::Int(self.next_own);
        self.next_own += 1;
        let frame = Frame::request(&id, &method, &json!({}));
        let text = frame.text().unwrap_or_default();
        let sent = Sent {
            method: Some(method),
            frame: sighting(millis(self.now), self.said_direction(), text),
            launch,
        };
        self.wire.sent.insert(id.clone(), sent);
        self.write_to(launch, frame.raw().clone());
        let until = self.step_began + self.scaled(timeout);
        self.state = State::Client(Waiting::Alive { id, launch, until, is_answered: false });
    }

    /// The client answered a request of the runner's own.
    pub(in super::super) fn own_is_answered(&mut self, answered: &Id) {
        if let State::Client(Waiting::Alive { id, is_answered, .. }) = &mut self.state {
            *is_answered |= id == answered;
        }
    }

    pub(super) fn check_alive(&mut self) -> bool {
        let State::Client(Waiting::Alive { id, launch, until, is_answered }) = &self.state else {
            return false;
        };
        if *is_answered {
            self.client_step_met(None);
            return true;
        }
        let is_closed = self.is_launch_closed(*launch);
        if self.now < *until && !is_closed {
            return false;
        }
        let waited = self.now.saturating_sub(self.step_began).as_millis();
        let frames = self.sent_as(id);
        let unmet = match is_closed {
            true => {
                Unmet::new(BreakKind::Wrong, "the client closed the connection, and answers nothing more")
            }
            false => {
                let reason = format!("the client answered nothing within {waited} ms");
                Unmet::new(BreakKind::Absent, reason)
            }
        };
        self.unmet(unmet.frames(frames));
        true
    }

    fn is_launch_closed(&self, launch: u32) -> bool {
        let launches = self.client.as_ref().map(|client| &client.launches);
        launches.and_then(|launches| launches.get(&launch)).is_none_or(super::Launch::is_closed)
    }

    pub(super) fn begin_stderr(&mut self, bytes: &RawBytes, times: u32, timeout: Duration) {
        if self.refuse_unlaunched("the agent could write to its standard error") {
            return;
        }
        let bytes = match bytes {
            RawBytes::Bytes(bytes) => bytes.clone(),
            RawBytes::Text(text) => {
                match Template::parse(text).and_then(|text| text.render(&self.vars, Fill::Raw)) {
                    Ok(text) => text.into_bytes(),
                    Err(error) => {
                        let reason = self.missing_words(&error);
                        return self.end(TestEnding::NotApplicable { reason, blocked: true });
                    }
                }
            }
        };
        let launch = self.client.as_ref().map_or(0, |client| client.current);
        let act = AgentAct::Stderr { bytes: Bytes::from(bytes), times };
        self.actions.push_back(RunAction::AsAgent { launch, act });
        let until = self.step_began + self.scaled(timeout);
        self.state = State::Client(Waiting::Stderr { launch, until, is_taken: false });
    }

    pub(super) fn stderr_taken(&mut self, from: u32) {
        if let State::Client(Waiting::Stderr { launch, is_taken, .. }) = &mut self.state {
            *is_taken |= *launch == from;
        }
    }

    pub(super) fn check_stderr(&mut self) -> bool {
        let State::Client(Waiting::Stderr { launch, until, is_taken }) = &self.state else { return false };
        if *is_taken {
            self.client_step_met(None);
            return true;
        }
        let is_closed = self.is_launch_closed(*launch);
        if self.now < *until && !is_closed {
            return false;
        }
        let waited = self.now.saturating_sub(self.step_began).as_millis();
        let unmet = match is_closed {
            true => Unmet::new(
                BreakKind::Wrong,
                "the client closed the connection while the agent wrote to its standard error",
            ),
            false => {
                let reason = format!(
                    "the agent's standard error was not read: its writing stood still for {waited} ms"
                );
                Unmet::new(BreakKind::Absent, reason)
            }
        };
        self.unmet(unmet);
        true
    }

    pub(super) fn exit_agent(&mut self, code: u8) {
        if self.refuse_unlaunched("the agent's process could end") {
            return;
        }
        self.act(AgentAct::Exit(code));
        self.step_done(None);
    }

    /// Lets the launch that steps write to do something.
    pub(in super::super) fn act(&mut self, act: AgentAct) {
        let launch = self.client.as_ref().map_or(0, |client| client.current);
        self.actions.push_back(RunAction::AsAgent { launch, act });
    }

    /// Ends a test in which the client has not even started the agent; `true` when it did.
    pub(in super::super) fn refuse_unlaunched(&mut self, before: &str) -> bool {
        let is_unlaunched = self.is_unlaunched();
        if is_unlaunched {
            self.end(self.not_reached(format!("the client had not started the agent before {before}")));
        }
        is_unlaunched
    }

    /// An `answer` step without an open request.
    pub(super) fn nothing_open(&mut self, method: &str) {
        let reason = format!("the client has no open {method} that could be answered");
        if self.program.is_claimed() {
            return self.unmet(Unmet::new(BreakKind::Absent, reason));
        }
        self.end(TestEnding::NotReached(reason));
    }
}
