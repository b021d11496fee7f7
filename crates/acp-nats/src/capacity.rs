//! Whether tasks can begin here at all: an agent can be opened, and one more session is allowed. Otherwise a task goes back
//! to the queue unharmed, and no more are taken until that has changed.
//!
//! Such a task is queued again, not delivered again, because deliveries are counted; the claim makes a duplicate
//! harmless. Whether a refused session is the task's own fault is asked of the agent by a `session/new` that asks for
//! nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use acp_host::Workspace;

use super::delivery::Delivery;
use super::payload::Task;
use super::task_runner::{RETRY_PAUSE, TaskRunner};
use super::task_session::{self, Refusal};
use acp_proxy::AgentUnavailable;
use tracing::Level;

/// The first pause before an agent is tried again, and the longest.
const PROBE_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long it may take until a session that was left no longer counts.
const RELEASE_WAIT: Duration = Duration::from_secs(2);

/// Why no tasks are taken though NATS is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskTrouble {
    /// No agent can be opened.
    pub agent: Option<String>,
    /// The queue is not as it must be.
    pub queue: Option<String>,
}

impl TaskRunner {
    /// How many tasks may run at once: no more than there may be sessions.
    pub(super) fn slots(&self) -> usize {
        let most = self.proxy.settings().duties.max_sessions.unwrap_or(usize::MAX);
        self.settings.at_once.min(most).max(1)
    }

    /// Waits until a task could begin here.
    pub(super) async fn can_begin(&self) {
        let mut trouble = self.shared().trouble.subscribe();
        let _ = trouble.wait_for(|trouble| trouble.agent.is_none()).await;
        while !self.proxy.has_session_room() && !self.has_idle() {
            tokio::select! {
                () = self.proxy.session_room() => {}
                () = self.freed.notified() => {}
            }
        }
    }

    fn has_idle(&self) -> bool {
        self.task_sessions().values().any(|task_session| !task_session.turns.any())
    }

    /// Makes sure that one more session can be opened; the one that was used longest ago goes for it. False when all of
    /// them are in use.
    pub(super) async fn make_room(&self) -> bool {
        while !self.proxy.has_session_room() {
            let Some(task_session) = self.longest_idle() else { return false };
            task_session.leave(true).await;
            // A session stops counting a moment after its client has left.
            let _ = tokio::time::timeout(RELEASE_WAIT, self.proxy.session_room()).await;
        }
        true
    }

    /// Takes out the session that has been idle longest.
    fn longest_idle(&self) -> Option<Arc<task_session::TaskSession>> {
        let (mut task_sessions, now) = (self.task_sessions(), Instant::now());
        let idle = task_sessions.values().filter(|task_session| !task_session.turns.any());
        let session = idle.max_by_key(|task_session| task_session.idle_for(now))?.session.clone();
        task_sessions.remove(&session)
    }

    /// Puts a task back for another proxy, or for later. It is queued again instead of being delivered again, because
    /// deliveries are counted and it has not been tried. If both are there for a moment, one of them is claimed.
    pub(super) async fn give_back(&self, task: &Task, delivery: &Delivery, why: &str) {
        let words = format!("task {:?} is put back into the queue: {why}", task.id);
        self.shared().say(Level::WARN, &words);
        while let Err(why) = self.shared().queue(delivery.payload.clone(), delivery.trace.as_deref()).await {
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            self.shared().say_once(Level::WARN, &format!("cannot put a task back: {why}; trying again"));
            tokio::time::sleep(RETRY_PAUSE).await;
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
            self.shared().say(Level::ERROR, &words);
        }
    }

    /// The agent has refused a session: blame the task only if a bare `session/new` succeeds.
    pub(super) async fn blame_refusal(&self, refused: &Workspace, why: String) -> Refusal {
        let plain = self.plain();
        let asks = refused.cwd != plain.cwd || !refused.mcp_servers.is_empty();
        if asks && self.probe().await.is_ok() { Refusal::Again(why) } else { Refusal::NoAgent(why) }
    }

    async fn probe(&self) -> Result<(), AgentUnavailable> {
        self.make_room().await;
        task_session::probe(&self.proxy, &self.plain(), self.end.clone()).await
    }

    /// The workspace of a session that asks for nothing.
    fn plain(&self) -> Workspace {
        let fixed = self.proxy.settings().duties.cwd.as_ref().map(PathBuf::from);
        let cwd = fixed.unwrap_or_else(|| self.settings.work_dir.clone());
        Workspace { cwd, ..Workspace::default() }
    }

    /// Closes idle sessions for clients that would be refused otherwise: each time the one that has been idle longest.
    pub(super) fn evict_on_demand(self: &Arc<Self>) {
        let runner = Arc::downgrade(self);
        self.proxy.before_refusing_a_session(Box::new(move || {
            let task_session = runner.upgrade().and_then(|runner| runner.longest_idle());
            let is_freed = task_session.is_some();
            if let Some(task_session) = task_session {
                tokio::spawn(async move { task_session.leave(true).await });
            }
            is_freed
        }));
    }

    /// Tries to open an agent whenever that was not possible, until it is.
    pub(super) async fn look_after_agent(self: Arc<Self>) {
        let mut trouble = self.shared().trouble.subscribe();
        while trouble.wait_for(|trouble| trouble.agent.is_some()).await.is_ok() {
            let mut pause = PROBE_PAUSES.0;
            loop {
                tokio::time::sleep(pause).await;
                match self.probe().await {
                    Ok(()) => break,
                    Err(unavailable) => self.agent_is_gone(&unavailable.to_string()),
                }
                pause = (pause * 2).min(PROBE_PAUSES.1);
            }
            self.shared().trouble.send_modify(|trouble| trouble.agent = None);
            self.shared().say(Level::INFO, "the agent can be opened again: tasks are taken");
        }
    }
}
