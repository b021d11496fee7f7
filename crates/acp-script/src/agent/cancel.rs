//! Cancelling a turn, and what must still be done then.

use std::collections::VecDeque;
use std::time::Duration;

use acp_proto::StopReason;
use acp_rpc::Id;

use super::Agent;
use super::effect::Effect;
use super::job::Job;
use super::step::Step;
use super::tools::Stage;
use super::turn::{Await, Cancel, Wait};
use crate::switch::Switch;

/// How long a cancelled turn waits for answers that the client owes it.
const PATIENCE: Duration = Duration::from_secs(2);

impl Agent {
    /// Cancels the session's turn, if one is running.
    pub(super) fn cancel(&mut self, session: &str, how: Cancel) {
        if self.wrong(Switch::CancelsAll) {
            let others: Vec<String> =
                self.sessions.keys().filter(|other| *other != session).cloned().collect();
            others.iter().for_each(|other| self.cancel_turn(other, how));
        }
        self.cancel_turn(session, how);
    }

    fn cancel_turn(&mut self, session: &str, how: Cancel) {
        let now = self.now;
        if how != Cancel::Request {
            self.cancel_queue(session);
        }
        let Some(turn) = self.turn(session) else { return };
        if turn.cancel.is_some() {
            return;
        }
        turn.cancel = Some(how);
        if how == Cancel::Session
            && self.wrong(Switch::CancelKeepsServers)
            && let Some(open) = self.sessions.get_mut(session).filter(|open| open.endings.is_empty())
        {
            open.servers.clear();
        }
        let Some(turn) = self.turn(session) else { return };
        match turn.wait.take() {
            Some(Wait::Reply { id, .. }) => {
                let then = self.pending.get(&id).map(|pending| &pending.then);
                let cleaning = matches!(then, Some(Await::Cleanup));
                if cleaning || then.is_some_and(decides) {
                    self.wait(session, Wait::Reply { id, until: Some(now + PATIENCE) });
                    if cleaning {
                        self.wind_down(session);
                    }
                    return;
                }
                if let Some(pending) = self.pending.remove(&id) {
                    self.take_back(id, pending.own);
                }
            }
            Some(Wait::Tool { token, .. } | Wait::Model { token }) => {
                self.outbox.push_back(Effect::Abandon { token });
            }
            Some(Wait::Children) => {
                self.wait(session, Wait::Children);
                return self.cancel_children(session);
            }
            _ => {}
        }
        self.wind_down(session);
        self.schedule(session);
    }

    /// `$/cancel_request` from the client.
    pub(super) fn cancel_request(&mut self, id: &Id) {
        let found = self
            .sessions
            .iter()
            .find(|(_, open)| open.turn.as_ref().is_some_and(|turn| turn.request == *id))
            .map(|(session, _)| session.clone());
        if let Some(session) = found {
            self.cancel(&session, Cancel::Request);
        }
    }

    /// Replaces what is left of the turn by what must still be done.
    pub(super) fn wind_down(&mut self, session: &str) {
        let keeps_working = self.wrong(Switch::KeepsWorking);
        let Some(turn) = self.turn(session) else { return };
        let left = std::mem::take(&mut turn.steps);
        let mut steps: VecDeque<Step> = VecDeque::new();
        if keeps_working && !std::mem::replace(&mut turn.encore, true) {
            steps.push_back(Step::Begin(Job::run("true", None)));
        }
        for terminal in &turn.terminals {
            steps.push_back(Step::Kill(terminal.clone()));
            steps.push_back(Step::Release(terminal.clone()));
        }
        steps.extend([Step::CloseTools, Step::Usage, Step::End(StopReason::Cancelled)]);
        turn.steps = steps;
        let saying = turn.saying.take().map(Step::Stream);
        for step in left.into_iter().chain(saying) {
            if let Step::Stream(stream) = step {
                self.keep_said(session, &stream);
            }
        }
    }
}

/// Whether how a cancelled turn winds down depends on this answer: the client must answer a pending permission request
/// with `cancelled`, and a terminal on its way must be released.
fn decides(then: &Await) -> bool {
    matches!(then, Await::Work(_, Stage::Permission | Stage::Created))
}
