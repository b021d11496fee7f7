//! Tasks from the queue: taken, claimed, done once, answered.
//!
//! The client of a task is a client of the relay inside this process, so policy, injection, journal, lint and dialects
//! hold for tasks too.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{Consumer, pull};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use super::ask::Asks;
use super::claim::{Claim, Ended};
use super::delivery::Delivery;
use super::error::StoreError;
use super::hub::{Nats, Shared};
use super::ledger::Known;
use super::payload::Task;
use super::peer_proxy::FollowedUp;
use super::streams;
use super::task_session::{Refusal, TaskSession};
use super::task_settings::TaskSettings;
use super::trace;
use super::turn_queue::{TaskSlot, wait_without_slot};
use acp_proxy::{Proxy, stopped};
use tracing::Level;

/// Where tasks are done.
pub(super) struct TaskRunner {
    pub(super) nats: Nats,
    pub(super) proxy: Arc<Proxy>,
    pub(super) settings: TaskSettings,
    pub(super) task_sessions: Mutex<HashMap<String, Arc<TaskSession>>>,
    pub(super) asks: Asks,
    ack_wait: Mutex<Duration>,
    /// Tasks that are being looked after here; each resolves when that is over.
    running: Mutex<HashMap<String, watch::Receiver<()>>>,
    /// Of those, turns that run, and turns that have ended and are not answered yet.
    turns: AtomicUsize,
    unanswered: AtomicUsize,
    /// What is being done, whoever took it from the queue.
    jobs: Mutex<JoinSet<()>>,
    /// No task is taken any more.
    pub(super) stopping: AtomicBool,
    /// Room for tasks that wait without a place.
    waiting: Semaphore,
    /// A session is nobody's any more.
    pub(super) freed: Notify,
    /// Turns true when agents must go.
    pub(super) end: watch::Receiver<bool>,
    /// One session is opened or loaded at a time, so that none is loaded twice.
    pub(super) opening: tokio::sync::Mutex<()>,
}

/// The pause after a failed attempt to take a task.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// In how many sessions a delivered task is tried that end before they take its prompt.
const MAX_SESSION_ATTEMPTS: usize = 3;
/// Why no task begins any more.
const STOPPING: &str = "this proxy is stopping";
/// How long one request for a task waits.
const PULL_TIMEOUT: Duration = Duration::from_secs(5);

impl Nats {
    /// Takes tasks from the queue and does them, until told to stop. Running tasks get their grace, and every agent is
    /// ended.
    pub fn run_tasks(
        &self,
        proxy: Arc<Proxy>,
        work: TaskSettings,
        mut stop: watch::Receiver<bool>,
    ) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let (tell_end, end) = watch::channel(false);
            let runner = Arc::new(TaskRunner {
                nats: self.clone(),
                proxy,
                asks: Asks::default(),
                ack_wait: Mutex::new(work.ack_wait),
                waiting: Semaphore::new(work.most_waiting),
                settings: work,
                task_sessions: Mutex::default(),
                running: Mutex::default(),
                turns: AtomicUsize::new(0),
                unanswered: AtomicUsize::new(0),
                jobs: Mutex::default(),
                stopping: AtomicBool::new(false),
                freed: Notify::new(),
                end,
                opening: tokio::sync::Mutex::new(()),
            });
            tokio::select! {
                () = self.ready() => {}
                () = stopped(&mut stop) => return,
            }
            runner.evict_on_demand();
            let mut helpers = JoinSet::new();
            helpers.spawn(runner.clone().finish_left());
            helpers.spawn(runner.clone().answer_open_requests());
            helpers.spawn(runner.clone().close_idle());
            helpers.spawn(runner.clone().sweep());
            helpers.spawn(runner.clone().look_after_agent());
            runner.take(&mut stop).await;
            runner.wind_down().await;
            helpers.shutdown().await;
            let _ = tell_end.send(true);
            runner.leave_all().await;
        })
    }
}

impl TaskRunner {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.nats.shared
    }

    /// Takes tasks as long as there is a free place.
    async fn take(self: &Arc<Self>, stop: &mut watch::Receiver<bool>) {
        let slots = Arc::new(Semaphore::new(self.slots()));
        let mut consumer = None;
        loop {
            let slot = tokio::select! {
                slot = slots.clone().acquire_owned() => slot,
                () = stopped(stop) => return,
            };
            let Ok(slot) = slot else { return };
            tokio::select! {
                () = self.can_begin() => {}
                () = stopped(stop) => return,
            }
            let delivery = tokio::select! {
                delivery = self.next(&mut consumer) => delivery,
                () = stopped(stop) => return,
            };
            let mut jobs = self.jobs();
            jobs.spawn(self.clone().handle(delivery, Some(slot)));
            while jobs.try_join_next().is_some() {}
        }
    }

    /// The next task. Waits for it, and for NATS.
    async fn next(&self, consumer: &mut Option<Consumer<pull::Config>>) -> Delivery {
        loop {
            self.nats.ready().await;
            let mut open = self.shared().open.clone();
            open.mark_unchanged();
            let pulled = tokio::select! {
                biased;
                pulled = self.pull(consumer) => pulled,
                // Whoever was asked over another connection may not remember it.
                Ok(()) = open.changed() => Ok(None),
            };
            match pulled {
                Ok(Some(delivery)) => return delivery,
                // A consumer that is gone says nothing: whether it is there is looked at again.
                Ok(None) => *consumer = None,
                Err(why) => {
                    *consumer = None;
                    self.shared().say_once(Level::WARN, &format!("cannot take tasks: {why}; trying again"));
                    self.shared().look_after_streams();
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    async fn pull(&self, known: &mut Option<Consumer<pull::Config>>) -> Result<Option<Delivery>, StoreError> {
        let consumer = match known {
            Some(consumer) => consumer,
            None => known.insert(self.consumer().await?),
        };
        let batch = consumer.batch().max_messages(1).expires(PULL_TIMEOUT);
        let mut messages = batch.messages().await.map_err(StoreError::nats)?;
        match tokio::time::timeout(PULL_TIMEOUT * 2, messages.next()).await {
            Ok(Some(Ok(message))) => Ok(Delivery::of(&self.shared().client, message)),
            Ok(Some(Err(error))) => Err(StoreError::nats(error)),
            Ok(None) => Ok(None),
            Err(_) => Err(StoreError::NoAnswer),
        }
    }

    async fn consumer(&self) -> Result<Consumer<pull::Config>, StoreError> {
        let shared = self.shared();
        let streams = shared.streams.get().ok_or(StoreError::NoStreams)?;
        let consumer =
            streams::consumer(streams, shared.subjects, &shared.agent, self.settings.ack_wait).await;
        let trouble = consumer.as_ref().err().filter(|error| !error.is_passing()).map(ToString::to_string);
        shared.trouble.send_modify(|standing| standing.queue = trouble);
        let consumer = consumer.map_err(StoreError::nats)?;
        self.go_by(consumer.cached_info().config.ack_wait);
        Ok(consumer)
    }

    /// The ack wait is the consumer's, which others share, whatever ours would be.
    fn go_by(&self, found: Duration) {
        let own = self.settings.ack_wait;
        if found != own {
            let words = format!(
                "tasks are delivered again after {found:?}, not {own:?} (--ack-wait): the queue's consumer was made so and is left as it is"
            );
            self.shared().say_once(Level::WARN, &words);
        }
        *self.ack_wait.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// How long a task may be silent.
    pub(super) fn ack_wait(&self) -> Duration {
        *self.ack_wait.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a task that another proxy was given, unless no more are taken.
    pub(super) fn take_over(self: &Arc<Self>, delivery: Delivery) -> bool {
        let job: BoxFuture<'static, ()> = Box::pin(self.clone().handle(delivery, None));
        // Whoever waits for all jobs has said before that no more are taken.
        let mut jobs = self.jobs();
        let takes = !self.is_stopping();
        if takes {
            jobs.spawn(job);
        }
        takes
    }

    fn jobs(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a delivery asks for, once.
    pub(super) async fn handle(self: Arc<Self>, delivery: Delivery, mut slot: Option<TaskSlot>) {
        let _progress = delivery.progress(self.ack_wait());
        let task = match Task::parse(&delivery.payload) {
            Ok(task) => task,
            Err(error) => return self.dead_letter_unread(&delivery, &error.to_string()).await,
        };
        if let Err(refusal) = self.settings.accepts(&task) {
            return self.dead_letter_unread(&delivery, &refusal.to_string()).await;
        }
        loop {
            let Some(mine) = self.enter(&task.id) else {
                // The same task a second time: it has the same end.
                wait_without_slot(&mut slot, &self.waiting, self.over(&task.id)).await;
                continue;
            };
            match self.shared().known(&task.id).await {
                Known::Nothing => self.begin(&task, &delivery, &mut slot).await,
                Known::Withdrawn => delivery.ack().await,
                Known::Ended(result) => {
                    let trace = trace::child(delivery.trace.as_deref());
                    self.shared().reply(&result, task.reply_to.as_deref(), Some(&trace)).await;
                    delivery.ack().await;
                }
                Known::Begun { session, .. } => {
                    // Others may be taken while this one is waited for.
                    slot = None;
                    if let FollowedUp::Free = self.follow_up(&task, session, &delivery).await {
                        drop(mine);
                        continue;
                    }
                }
            }
            drop(mine);
            return;
        }
    }

    /// Opens the session, claims the task, and does it.
    async fn begin(self: &Arc<Self>, task: &Task, delivery: &Delivery, slot: &mut Option<TaskSlot>) {
        let mut ended = 0;
        let refusal = loop {
            if self.is_stopping() {
                break Refusal::Soon(STOPPING);
            }
            let queued = match self.session_for(task, delivery).await {
                Ok(Some(queued)) => queued,
                Ok(None) => return,
                Err(Refusal::Soon(_)) => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
                Err(refusal) => break refusal,
            };
            if let Err(refusal) = queued.task_session.accepts(task) {
                break refusal;
            }
            let turn = queued.turn(slot, &self.waiting).await;
            if self.is_stopping() {
                break Refusal::Soon(STOPPING);
            }
            if self.occupy_for(&queued.task_session, &task.id)
                && self.do_in(&queued.task_session, task, delivery).await == Done::Settled
            {
                drop(turn);
                drop(queued);
                return self.close_surplus();
            }
            *slot = queued.take_slot();
            ended += 1;
            if ended == MAX_SESSION_ATTEMPTS {
                break Refusal::Again(format!("its session ended {ended} times before it could begin"));
            }
        };
        self.close_surplus();
        self.refuse(task, delivery, refusal).await;
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Claims a task, whose session it has, and does it.
    async fn do_in(&self, task_session: &Arc<TaskSession>, task: &Task, delivery: &Delivery) -> Done {
        let trace = trace::child(delivery.trace.as_deref());
        let claim = Claim {
            task: task.id.clone(),
            session: task_session.session.clone(),
            reply_to: task.reply_to.clone(),
            trace: Some(trace),
        };
        self.shared().remember(&claim);
        if !self.shared().claim(&claim).await {
            self.release(task_session, &task.id);
            self.shared().forget(&task.id);
            delivery.nak(Duration::from_secs(1)).await;
            return Done::Settled;
        }
        self.perform(task, &claim, task_session, delivery).await
    }

    /// Sends the prompt of a claimed task and answers with how its turn ended.
    async fn perform(
        &self,
        task: &Task,
        claim: &Claim,
        task_session: &Arc<TaskSession>,
        delivery: &Delivery,
    ) -> Done {
        let counts = &self.shared().counts;
        counts.running.fetch_add(1, Ordering::Relaxed);
        self.shared().say_task(&format!("begins in session {:?}", task_session.session), claim, None);
        let trace = claim.trace.as_deref().map(Arc::from);
        let end = self.nats.expect(&task_session.session, &task.id, trace);
        let turn = Counted::among(&self.turns);
        self.shared().will_prompt(&task_session.session, &task.id);
        let lost = task_session.prompt(task, claim.trace.as_deref()).await;
        drop(turn);
        let _unanswered = Counted::among(&self.unanswered);
        if let Some(why) = lost {
            // The relay ends with its agent, and tells that the turn is over, if it ever saw it begin.
            self.remove(task_session);
            task_session.leave(false).await;
            self.nats.give_up(&task_session.session, &why);
        }
        let end = end.await;
        counts.running.fetch_sub(1, Ordering::Relaxed);
        self.release(task_session, &task.id);
        match end {
            Ok(Ended::Stored(end)) => {
                self.finish(claim, end).await;
                delivery.ack().await;
                if !self.has_session(task_session) {
                    self.abandon(task_session);
                }
                Done::Settled
            }
            Ok(Ended::NeverBegan) => {
                self.shared().say_task("could not begin: its session had ended", claim, None);
                self.shared().take_back(claim).await;
                Done::NeverBegan
            }
            Err(_) => {
                // Another proxy has the session, and answers for it.
                self.shared().forget(&task.id);
                self.remove(task_session);
                task_session.leave(false).await;
                Done::Settled
            }
        }
    }

    /// Lets sessions go that nobody uses, when there are too many of them.
    fn close_surplus(&self) {
        let (mut task_sessions, now) = (self.task_sessions(), Instant::now());
        let idle = task_sessions.values().filter(|task_session| !task_session.turns.any());
        let mut idle: Vec<_> =
            idle.map(|task_session| (task_session.idle_for(now), task_session.session.clone())).collect();
        idle.sort();
        for (_, session) in idle.into_iter().skip(self.settings.most_idle) {
            if let Some(task_session) = task_sessions.remove(&session) {
                tokio::spawn(async move { task_session.leave(true).await });
            }
        }
    }

    /// Begins to look after a task, unless someone here does.
    pub(super) fn enter(&self, task: &str) -> Option<Entered<'_>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(task) {
            return None;
        }
        let (over, wait) = watch::channel(());
        running.insert(task.to_owned(), wait);
        Some(Entered { runner: self, task: task.to_owned(), _over: over })
    }

    /// Waits until nobody here looks after a task.
    async fn over(&self, task: &str) {
        let wait = self.running.lock().unwrap_or_else(PoisonError::into_inner).get(task).cloned();
        if let Some(mut wait) = wait {
            while wait.changed().await.is_ok() {}
        }
    }

    pub(super) fn task_sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<TaskSession>>> {
        self.task_sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wind_down(&self) {
        self.stopping.store(true, Ordering::Release);
        let all = async || while std::future::poll_fn(|cx| self.jobs().poll_join_next(cx)).await.is_some() {};
        if tokio::time::timeout(self.settings.grace, all()).await.is_ok() {
            return;
        }
        let task_sessions: Vec<Arc<TaskSession>> = self.task_sessions().values().cloned().collect();
        for task_session in task_sessions.iter().filter(|task_session| task_session.is_occupied()) {
            task_session.cancel().await;
        }
        if tokio::time::timeout(self.settings.grace, all()).await.is_err() {
            self.tell_left();
            drop(std::mem::take(&mut *self.jobs()));
        }
    }

    /// Says what becomes of the tasks that are left when we stop.
    fn tell_left(&self) {
        let [turns, unanswered] = [&self.turns, &self.unanswered].map(|count| count.load(Ordering::Acquire));
        let others = self.jobs().len().saturating_sub(turns + unanswered);
        for (count, words) in [
            (turns, "did not end in time, and will be answered as interrupted"),
            (
                unanswered,
                "have ended, and will be answered when NATS is back and this proxy is started again",
            ),
            (others, "were not begun, and are delivered again"),
        ] {
            if count > 0 {
                self.shared().say(Level::WARN, &format!("tasks that {words}: {count}"));
            }
        }
    }

    async fn leave_all(&self) {
        let task_sessions: Vec<Arc<TaskSession>> =
            self.task_sessions().drain().map(|(_, task_session)| task_session).collect();
        futures_util::future::join_all(task_sessions.iter().map(|task_session| task_session.leave(false)))
            .await;
    }

    async fn close_idle(self: Arc<Self>) {
        loop {
            tokio::time::sleep((self.settings.idle / 4).max(Duration::from_millis(100))).await;
            let now = Instant::now();
            let idle: Vec<Arc<TaskSession>> = self
                .task_sessions()
                .extract_if(|_, task_session| {
                    !task_session.turns.any() && task_session.idle_for(now) > self.settings.idle
                })
                .map(|(_, task_session)| task_session)
                .collect();
            for task_session in idle {
                task_session.leave(true).await;
            }
        }
    }
}

/// What came of doing a task in a session.
#[derive(PartialEq, Eq)]
enum Done {
    /// Nothing is left to do here.
    Settled,
    /// The session ended before the prompt was sent: the task is nobody's.
    NeverBegan,
}

/// Counts as one of something, until dropped.
struct Counted<'a>(&'a AtomicUsize);

impl Counted<'_> {
    fn among(count: &AtomicUsize) -> Counted<'_> {
        count.fetch_add(1, Ordering::AcqRel);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// While this is held, a task is looked after here.
pub(super) struct Entered<'a> {
    runner: &'a TaskRunner,
    task: String,
    _over: watch::Sender<()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.runner.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.task);
    }
}
