//! Other proxies on the same queue: which of them has a session, and whether it is still there.
//!
//! A missing answer proves nothing for as long as a proxy may take to come back: treat a session as nobody's only after
//! that.

use std::time::{Duration, Instant};

use async_nats::{Request, RequestErrorKind};

use super::claim::{Begun, Claim};
use super::delivery::Delivery;
use super::ledger::{Known, json};
use super::payload::{Control, Controlled, Op, Task};
use super::task_runner::{RETRY_PAUSE, TaskRunner};
use super::trace;
use tracing::Level;

/// How long another proxy may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// What came of asking whoever serves a session.
#[derive(Debug)]
pub(super) enum PeerProxy {
    /// The server says that nobody listens.
    Nobody,
    /// There is no answer: neither that somebody is there nor that nobody is.
    Silent,
    Says(Controlled),
}

impl TaskRunner {
    /// Gives a task to the proxy that serves its session, if there is one: what it says to that.
    pub(super) async fn hand_over(&self, session: &str, delivery: &Delivery) -> PeerProxy {
        let Some(handed) = delivery.hand() else { return PeerProxy::Nobody };
        let control = Control { delivery: Some(handed), ..Control::of(Op::Task) };
        if json(&control).len() <= self.shared().largest() {
            return self.tell_peer(session, &control).await;
        }
        match self.tell_peer(session, &who()).await {
            PeerProxy::Says(answer) => {
                let why = "the task is too large to be handed to the proxy that serves its session";
                PeerProxy::Says(Controlled { ok: false, error: Some(why.to_owned()), ..answer })
            }
            other => other,
        }
    }

    /// Whether a proxy, perhaps this one, is doing this task in this session.
    pub(super) async fn is_served_elsewhere(&self, session: &str, task: &str) -> bool {
        let answer = self.who_serves(session).await;
        answer.is_some_and(|answer| answer.task.as_deref() == Some(task))
    }

    /// What the proxy says, perhaps this one, that serves a session. Asks until that is known.
    pub(super) async fn who_serves(&self, session: &str) -> Option<Controlled> {
        loop {
            match self.tell_peer(session, &who()).await {
                PeerProxy::Nobody => return None,
                PeerProxy::Says(answer) => return Some(answer),
                PeerProxy::Silent => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Whether a proxy that lost its connection when we lost ours has had the time to come back.
    pub(super) fn is_steady(&self) -> bool {
        let standing = *self.shared().open.borrow();
        standing.up && standing.since.is_none_or(|since| since.elapsed() >= self.settings.lost_after)
    }

    async fn tell_peer(&self, session: &str, control: &Control) -> PeerProxy {
        let request = Request::new().payload(json(control)).timeout(None);
        let subject = self.shared().subjects.control(session);
        let asking = self.shared().client.send_request(subject, request);
        // Around it all: a request of its own waits without end for a place in the connection's queue.
        match tokio::time::timeout(ANSWER_TIMEOUT, asking).await {
            Ok(Ok(answer)) => {
                serde_json::from_slice(&answer.payload).map_or(PeerProxy::Silent, PeerProxy::Says)
            }
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => PeerProxy::Nobody,
            Ok(Err(_)) | Err(_) => PeerProxy::Silent,
        }
    }

    /// A task that someone has claimed: if they are alive it is theirs, if not it is over, unless they never began.
    pub(super) async fn follow_up(
        &self,
        task: &Task,
        session: Option<String>,
        delivery: &Delivery,
    ) -> FollowedUp {
        let trace = trace::child(delivery.trace.as_deref());
        let claimed_in = session.clone().unwrap_or_default();
        let claim = Claim {
            task: task.id.clone(),
            session: claimed_in,
            reply_to: task.reply_to.clone(),
            trace: Some(trace),
        };
        let fate = match &session {
            None => Fate::Abandoned,
            Some(session) => match self.shared().begun_here(&task.id, session) {
                // By us, before we were started again: what this proxy does now is not asked about.
                Begun::Sent => Fate::Abandoned,
                Begun::Unsent => {
                    self.shared().take_back(&claim).await;
                    Fate::TakenBack
                }
                Begun::NotHere => self.fate(session, &task.id).await,
            },
        };
        match fate {
            Fate::TakenBack => return FollowedUp::Free,
            Fate::Abandoned => self.interrupted(&claim).await,
            Fate::Ended => {
                if let Known::Ended(result) = self.shared().known(&task.id).await {
                    let (reply_to, trace) = (task.reply_to.as_deref(), claim.trace.as_deref());
                    self.shared().reply(&result, reply_to, trace).await;
                }
            }
        }
        delivery.ack().await;
        FollowedUp::Settled
    }

    /// Waits until it is known what becomes of a task that another proxy has claimed. They are gone when nobody has its
    /// session for as long as they may take to come back, or somebody has it and is not doing this task.
    async fn fate(&self, session: &str, task: &str) -> Fate {
        let lost_after = self.settings.lost_after;
        let mut since = None;
        loop {
            match self.tell_peer(session, &who()).await {
                PeerProxy::Says(answer) if answer.task.as_deref() != Some(task) => return Fate::Abandoned,
                PeerProxy::Says(_) | PeerProxy::Silent => since = None,
                PeerProxy::Nobody => {
                    let words = format!(
                        "task {task:?} was begun by a proxy that is out of reach; it is interrupted if that stays away for {lost_after:?}"
                    );
                    self.shared().say_once(Level::WARN, &words);
                    if since.get_or_insert_with(Instant::now).elapsed() >= lost_after {
                        return Fate::Abandoned;
                    }
                }
            }
            tokio::time::sleep((self.ack_wait() / 6).min(lost_after / 4)).await;
            match self.shared().known(task).await {
                Known::Ended(_) => return Fate::Ended,
                Known::Begun { session: now, .. } if now.as_deref() == Some(session) => {}
                Known::Begun { .. } | Known::Nothing | Known::Withdrawn => return Fate::TakenBack,
            }
        }
    }
}

/// What became of a task that another proxy has claimed.
enum Fate {
    /// It has a result.
    Ended,
    /// Whoever claimed it is gone.
    Abandoned,
    /// The claim was taken back: the prompt was never sent.
    TakenBack,
}

/// What came of looking after a task that was claimed before.
pub(super) enum FollowedUp {
    /// Nothing is left to do.
    Settled,
    /// Nobody has claimed it any more.
    Free,
}

fn who() -> Control {
    Control::of(Op::Who)
}
