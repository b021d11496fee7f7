//! How tasks end: as their turns did, interrupted, or put aside.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::claim::{Begun, Claim, Ended};
use super::clock;
use super::delivery::Delivery;
use super::ledger::Known;
use super::payload::{Task, TaskResult, Waiting};
use super::streams::MAX_DELIVER;
use super::task_runner::{RETRY_PAUSE, TaskRunner};
use super::task_session::Refusal;
use super::trace;
use acp_proxy::event::{Body, SessionClosed, TurnEnd, raw};
use acp_proxy::turn::Tally;
use tracing::Level;

impl TaskRunner {
    /// A task that cannot begin, now or ever.
    pub(super) async fn refuse(&self, task: &Task, delivery: &Delivery, refusal: Refusal) {
        let why = match refusal {
            Refusal::Never(why) => return self.dead_letter(delivery, task, &why).await,
            Refusal::Again(why) | Refusal::Shut(why) => why,
            // Only when we stop: otherwise it is waited for.
            Refusal::Soon(why) => return self.give_back(task, delivery, why).await,
            Refusal::NoAgent(why) => {
                self.agent_is_gone(&why);
                return self.give_back(task, delivery, &why).await;
            }
            Refusal::Full => {
                let why = "every place for a session is taken (--max-sessions)";
                return self.give_back(task, delivery, why).await;
            }
        };
        if delivery.delivered >= MAX_DELIVER as u64 {
            let why = format!("tried {} times: {why}", delivery.delivered);
            self.dead_letter(delivery, task, &why).await;
        } else {
            self.shared().say(Level::WARN, &format!("task {:?} could not begin: {why}", task.id));
            delivery.nak(Duration::from_millis(500 << delivery.delivered.min(6))).await;
        }
    }

    pub(super) async fn finish(&self, claim: &Claim, end: TurnEnd) {
        let shared = self.shared();
        let session = (!claim.session.is_empty()).then(|| claim.session.clone());
        let result = TaskResult::of(&claim.task, &shared.agent, session, clock::now(), end);
        shared.say_task(&format!("ends: {}", result.stop_reason), claim, Some(&result.stop_reason));
        shared.answer(result, claim.reply_to.as_deref(), claim.trace.as_deref()).await;
        shared.counts.ended.fetch_add(1, Ordering::Relaxed);
        shared.forget(&claim.task);
    }

    /// Ends a task whose turn nobody serves any more: as its turn ended, or else interrupted.
    pub(super) async fn interrupted(&self, claim: &Claim) {
        let known = loop {
            match self.shared().turn_of(&claim.session, &claim.task).await {
                Ok(known) => break known,
                Err(why) => {
                    self.shared()
                        .say_once(Level::WARN, &format!("cannot read a session: {why}; trying again"));
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        };
        let end = match known {
            Ok(end) => end,
            Err(tally) => self.break_off(claim, tally).await,
        };
        self.finish(claim, end).await;
    }

    /// Tells in the session's events that the turn was interrupted.
    async fn break_off(&self, claim: &Claim, tally: Tally) -> TurnEnd {
        let why = "the proxy that did this task was lost";
        let error = raw(&serde_json::json!({ "message": why }));
        let end = tally.end(TurnEnd::INTERRUPTED.to_owned(), None, Some(error));
        // Whoever serves the session now must not find somebody else's event in it.
        if claim.session.is_empty() || self.who_serves(&claim.session).await.is_some() {
            return end;
        }
        let trace = claim.trace.as_deref().map(Arc::from);
        let stored = self.nats.expect(&claim.session, &claim.task, trace);
        self.nats.tell(&claim.session, Body::TurnEnd(end.clone()));
        self.nats.tell(&claim.session, Body::Closed(SessionClosed { reason: why.to_owned() }));
        match stored.await {
            Ok(Ended::Stored(end)) => end,
            Ok(Ended::NeverBegan) | Err(_) => end,
        }
    }

    /// Answers tasks that this proxy had begun before it was started again.
    pub(super) async fn finish_left(self: Arc<Self>) {
        for (claim, begun) in self.shared().unfinished() {
            let Some(mine) = self.enter(&claim.task) else { continue };
            match self.shared().known(&claim.task).await {
                Known::Ended(_) | Known::Withdrawn | Known::Nothing => self.shared().forget(&claim.task),
                // Our claim was not stored, and another proxy has done that since.
                Known::Begun { session, .. } if session.as_deref() != Some(&claim.session) => {
                    self.shared().forget(&claim.task);
                }
                Known::Begun { .. } if self.is_served_elsewhere(&claim.session, &claim.task).await => {
                    self.shared().forget(&claim.task);
                }
                Known::Begun { .. } if begun == Begun::Unsent => self.shared().take_back(&claim).await,
                Known::Begun { .. } => self.interrupted(&claim).await,
            }
            drop(mine);
        }
    }

    /// A task that is never done.
    pub(super) async fn dead_letter(&self, delivery: &Delivery, task: &Task, reason: &str) {
        let claim = Claim {
            task: task.id.clone(),
            session: task.session.clone().unwrap_or_default(),
            reply_to: task.reply_to.clone(),
            trace: Some(trace::child(delivery.trace.as_deref())),
        };
        if self.put_aside(delivery, Some(&claim), reason).await {
            self.reject(&claim, reason).await;
            delivery.ack().await;
        }
    }

    /// What is no task. Whoever waits for it is answered, unless its id is the id of a task that there is.
    pub(super) async fn dead_letter_unread(&self, delivery: &Delivery, reason: &str) {
        let claim = Waiting::read(&delivery.payload).map(|Waiting { task, reply_to }| Claim {
            reply_to: reply_to.filter(|subject| self.settings.may_reply(&task, subject)),
            task,
            session: String::new(),
            trace: Some(trace::child(delivery.trace.as_deref())),
        });
        if !self.put_aside(delivery, claim.as_ref(), reason).await {
            return;
        }
        if let Some(claim) = &claim
            && let Some(_mine) = self.enter(&claim.task)
            && self.shared().forestall(claim).await
        {
            self.reject(claim, reason).await;
        }
        delivery.ack().await;
    }

    /// Writes a dead letter; false when that cannot be done now, and is tried again.
    async fn put_aside(&self, delivery: &Delivery, claim: Option<&Claim>, reason: &str) -> bool {
        let stored = self.shared().dead_letter(&delivery.payload, delivery.delivered, claim, reason).await;
        if !stored {
            delivery.nak(Duration::from_secs(2)).await;
        }
        stored
    }

    /// Whoever waits for a task that was put aside must not wait for ever.
    async fn reject(&self, claim: &Claim, reason: &str) {
        let error = raw(&serde_json::json!({ "message": reason }));
        let end = Tally::default().end("rejected".to_owned(), None, Some(error));
        self.finish(claim, end).await;
    }
}
