//! Whether tasks can begin here at all: an agent can be opened, and there is a place for one more session. A task that
//! finds it otherwise is given back to the queue unharmed, and no more are taken until that has changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use acp_host::Workspace;

use super::delivery::Delivery;
use super::payload::Task;
use super::seat::{self, Refusal};
use super::work::{PAUSE, Workshop};
use crate::talk::Level;

/// The first pause before an agent is tried again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long the place of a session that was left may take to be free.
const LEFT: Duration = Duration::from_secs(2);

/// Why no tasks are taken though NATS is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// No agent can be opened.
    pub agent: Option<String>,
    /// The queue is not as it must be.
    pub queue: Option<String>,
}

impl Workshop {
    /// How many tasks may be done at once: no more than there are places for their sessions.
    pub(super) fn places(&self) -> usize {
        let most = self.proxy.office().duties.max_sessions.unwrap_or(usize::MAX);
        self.work.at_once.min(most).max(1)
    }

    /// Waits until a task could begin here.
    pub(super) async fn can_begin(&self) {
        let mut trouble = self.shared().trouble.subscribe();
        let _ = trouble.wait_for(|trouble| trouble.agent.is_none()).await;
        while !self.proxy.office().has_room() && !self.has_idle() {
            tokio::select! {
                () = self.proxy.office().room() => {}
                () = self.freed.notified() => {}
            }
        }
    }

    fn has_idle(&self) -> bool {
        self.seats().values().any(|seat| !seat.bookings.any())
    }

    /// Makes sure that one more session can be opened; the one that was used longest ago goes for it. False when all of
    /// them are in use.
    pub(super) async fn make_room(&self) -> bool {
        while !self.proxy.office().has_room() {
            let Some(seat) = self.longest_idle() else { return false };
            seat.leave(true).await;
            // Its desk goes a moment later than it.
            let _ = tokio::time::timeout(LEFT, self.proxy.office().room()).await;
        }
        true
    }

    /// The seat that was used longest ago, which is nobody's from now on.
    fn longest_idle(&self) -> Option<Arc<seat::Seat>> {
        let (mut seats, now) = (self.seats(), Instant::now());
        let idle = seats.values().filter(|seat| !seat.bookings.any());
        let session = idle.max_by_key(|seat| seat.idle_since(now))?.session.clone();
        seats.remove(&session)
    }

    /// Puts a task back for whoever can do it. It has not been tried: it is queued again instead of being delivered again,
    /// because deliveries are counted. If both should be there for a moment, one of them is claimed.
    pub(super) async fn give_back(&self, task: &Task, delivery: &Delivery, why: &str) {
        let words = format!("task {:?} is put back into the queue: {why}", task.id);
        self.shared().say(Level::Warn, &words);
        while let Err(why) = self.shared().queue(delivery.payload.clone(), delivery.trace.as_deref()).await {
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            self.shared().say_once(Level::Warn, &format!("cannot put a task back: {why}; trying again"));
            tokio::time::sleep(PAUSE).await;
        }
        delivery.ack().await;
    }

    /// No agent can be opened: no tasks are taken until one can.
    pub(super) fn agent_is_gone(&self, why: &str) {
        let news = self.shared().trouble.send_if_modified(|trouble| {
            let news = trouble.agent.is_none();
            trouble.agent = Some(why.to_owned());
            news
        });
        if news {
            let words = format!("no tasks are taken until the agent can be opened: {why}");
            self.shared().say(Level::Error, &words);
        }
    }

    /// The agent has refused a session: that is the task's own fault only if it opens one that asks for nothing.
    pub(super) async fn whose_fault(&self, refused: &Workspace, why: String) -> Refusal {
        let plain = self.plain();
        let asks = refused.cwd != plain.cwd || !refused.mcp_servers.is_empty();
        if asks && self.probe().await.is_ok() { Refusal::Again(why) } else { Refusal::NoAgent(why) }
    }

    async fn probe(&self) -> Result<(), String> {
        self.make_room().await;
        seat::probe(&self.proxy, &self.plain(), self.end.clone()).await
    }

    /// Where a session works of which nothing is said.
    fn plain(&self) -> Workspace {
        let fixed = self.proxy.office().duties.cwd.as_ref().map(PathBuf::from);
        let cwd = fixed.unwrap_or_else(|| self.work.work_dir.clone());
        Workspace { cwd, ..Workspace::default() }
    }

    /// Lets sessions that nobody uses give way to clients that come: each time the one that was used longest ago.
    pub(super) fn give_way(self: &Arc<Self>) {
        let shop = Arc::downgrade(self);
        self.proxy.office().ask_before_refusing(Box::new(move || {
            let seat = shop.upgrade().and_then(|shop| shop.longest_idle());
            let gives_way = seat.is_some();
            if let Some(seat) = seat {
                tokio::spawn(async move { seat.leave(true).await });
            }
            gives_way
        }));
    }

    /// Tries to open an agent whenever that was not possible, until it is.
    pub(super) async fn look_after_agent(self: Arc<Self>) {
        let mut trouble = self.shared().trouble.subscribe();
        while trouble.wait_for(|trouble| trouble.agent.is_some()).await.is_ok() {
            let mut pause = PAUSES.0;
            loop {
                tokio::time::sleep(pause).await;
                match self.probe().await {
                    Ok(()) => break,
                    Err(why) => self.agent_is_gone(&why),
                }
                pause = (pause * 2).min(PAUSES.1);
            }
            self.shared().trouble.send_modify(|trouble| trouble.agent = None);
            self.shared().say(Level::Info, "the agent can be opened again: tasks are taken");
        }
    }
}
