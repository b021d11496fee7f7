//! Cancelling a turn, and what must still be done then.

use std::collections::VecDeque;
use std::time::Duration;

use acp_proto::StopReason;
use acp_rpc::Id;

use super::Agent;
use super::effect::AgentEffect;
use super::job::Job;
use super::step::Step;
use super::tools::Stage;
use super::turn::{ActiveTurn, Await, Cancel, Wait};

/// How long a cancelled turn waits for answers that the client owes it.
const PATIENCE: Duration = Duration::from_secs(2);

impl Agent {
    /// Cancels the session's turn, if one is running.
    pub(super) fn cancel(&mut self, session: &str, how: Cancel) {
        if how != Cancel::Request
            && let Some(open) = self.sessions.get_mut(session)
        {
            open.session.cancel_queue(&mut self.cx);
        }
        if let Some(mut turn) = self.turn(session) {
            turn.cancel(how);
        }
    }

    /// `$/cancel_request` from the client.
    pub(super) fn cancel_request(&mut self, id: &Id) {
        let found = self.turns().find(|(_, turn)| turn.request == *id).map(|(session, _)| session.clone());
        if let Some(session) = found {
            self.cancel(&session, Cancel::Request);
        }
    }
}

impl ActiveTurn<'_> {
    /// Ends it as soon as what it has begun is cleaned up.
    pub(super) fn cancel(&mut self, how: Cancel) {
        if self.turn.cancel.is_some() {
            return;
        }
        self.turn.cancel = Some(how);
        match self.turn.wait.take() {
            Some(Wait::Reply { id, .. }) => {
                let then = self.cx.pending.get(&id).map(|pending| &pending.then);
                let cleaning = matches!(then, Some(Await::Cleanup));
                if cleaning || then.is_some_and(decides) {
                    self.wait(Wait::Reply { id, until: Some(self.cx.now + PATIENCE) });
                    if cleaning {
                        self.wind_down();
                    }
                    return;
                }
                if let Some(pending) = self.cx.pending.remove(&id) {
                    self.take_back(id, pending.own);
                }
            }
            Some(Wait::Tool { token, .. } | Wait::Model { token }) => {
                self.cx.outbox.push_back(AgentEffect::Abandon { token });
            }
            Some(Wait::Children) => {
                self.wait(Wait::Children);
                return self.cancel_children();
            }
            _ => {}
        }
        self.wind_down();
        self.schedule();
    }

    /// Replaces what is left of the turn by what must still be done.
    pub(super) fn wind_down(&mut self) {
        let left = std::mem::take(&mut self.turn.steps);
        let mut steps: VecDeque<Step> = VecDeque::new();
        if let Some(command) = self.cx.quirks.last_command(self.turn.serial) {
            steps.push_back(Step::Begin(Job::run(command, None)));
        }
        for terminal in &self.turn.terminals {
            steps.push_back(Step::Kill(terminal.clone()));
            steps.push_back(Step::Release(terminal.clone()));
        }
        steps.extend([Step::CloseTools, Step::Usage, Step::End(StopReason::Cancelled)]);
        self.turn.steps = steps;
        let saying = self.turn.saying.take().map(Step::Stream);
        for step in left.into_iter().chain(saying) {
            if let Step::Stream(stream) = step {
                self.keep_said(&stream);
            }
        }
    }
}

/// Whether how a cancelled turn winds down depends on this answer: the client must answer a pending permission request
/// with `cancelled`, and a terminal on its way must be released.
fn decides(then: &Await) -> bool {
    matches!(then, Await::Work(_, Stage::Permission | Stage::Created))
}
