//! The sessions of a task runner: which task has which, commands to them, and tasks that the queue will not deliver again.

use std::collections::HashMap;
use std::sync::Arc;

use acp_host::ClientEvent;
use async_nats::Message;
use async_nats::jetstream::stream::RawMessageErrorKind;
use futures_util::StreamExt as _;

use super::delivery::Delivery;
use super::error::NatsRefusal;
use super::ledger::{Known, json};
use super::payload::{Control, Controlled, Op, Task};
use super::peer_proxy::PeerProxy;
use super::streams::{MAX_DELIVER, consumer_name};
use super::task_runner::TaskRunner;
use super::task_session::{self, Opened, Refusal, TaskSession, content};
use super::turn_queue::QueuedTurn;
use tracing::Level;

/// What a proxy says to a task for a session that it is about to let go of: a moment later it is nobody's.
pub(super) const LEAVING: &str = "the session is being closed; try again";

impl TaskRunner {
    /// The session that a task needs: open here, taken by the proxy that has it (then there is nothing to do here), or
    /// opened now.
    pub(super) async fn session_for(
        self: &Arc<Self>,
        task: &Task,
        delivery: &Delivery,
    ) -> Result<Option<QueuedTurn>, Refusal> {
        let mut _one = None;
        if let Some(session) = &task.session {
            if let Some(task_session) = self.here(session) {
                return Ok(Some(task_session));
            }
            _one = Some(self.opening.lock().await);
            if let Some(task_session) = self.here(session) {
                return Ok(Some(task_session));
            }
            match self.hand_over(session, delivery).await {
                PeerProxy::Says(Controlled { ok: true, .. }) => return Ok(None),
                PeerProxy::Says(Controlled { error: Some(why), .. }) if why == LEAVING => {
                    return Err(Refusal::Soon(LEAVING));
                }
                PeerProxy::Says(Controlled { error, .. }) => {
                    let why = error.unwrap_or_else(|| "no reason was given".to_owned());
                    return Err(Refusal::Again(format!("session {session:?} cannot be used: {why}")));
                }
                PeerProxy::Nobody if self.is_steady() => {}
                PeerProxy::Nobody | PeerProxy::Silent => {
                    return Err(Refusal::Soon("it is not known yet which proxy has the session"));
                }
            }
        }
        content(task)?;
        let workspace = self.workspace(task).await?;
        loop {
            if !self.make_room().await {
                return Err(Refusal::Full);
            }
            match task_session::open(&self.proxy, task, &self.settings.rules, &workspace, self.end.clone())
                .await
            {
                // Somebody else has the place that was there.
                Err(Refusal::Full) => {}
                Err(Refusal::Shut(why)) => return Err(self.blame_refusal(&workspace, why).await),
                opened => return self.settle(opened?, task).await.map(Some),
            }
        }
    }

    /// A session that is open here.
    fn here(self: &Arc<Self>, session: &str) -> Option<QueuedTurn> {
        // Before the sessions are let go of: nobody gives up a session that is booked.
        let queued = QueuedTurn::of(self, self.task_sessions().get(session)?);
        if !self.has_session(&queued.task_session) {
            self.abandon(&queued.task_session);
            return None;
        }
        queued.task_session.touch();
        Some(queued)
    }

    /// Whether a session's session is its own: neither another's of the same name, nor loaded by a client since.
    pub(super) fn has_session(&self, task_session: &TaskSession) -> bool {
        self.shared().owners.is_of(&task_session.session, &task_session.reasons)
    }

    /// Gives up a session whose session somebody else has.
    pub(super) fn abandon(&self, task_session: &Arc<TaskSession>) {
        self.remove(task_session);
        let task_session = task_session.clone();
        tokio::spawn(async move { task_session.leave(false).await });
    }

    /// Gives a task its session: false when the session was given up while the task waited for it.
    pub(super) fn occupy_for(&self, task_session: &Arc<TaskSession>, task: &str) -> bool {
        let task_sessions = self.task_sessions();
        let is_here = has(&task_sessions, task_session);
        if is_here {
            task_session.occupy(Some(task));
        }
        is_here
    }

    /// Takes a session from a task, if it is that task's.
    pub(super) fn release(&self, task_session: &TaskSession, task: &str) {
        if task_session.occupant().as_deref() == Some(task) {
            task_session.occupy(None);
        }
    }

    /// Gives up a session: this one, not another that has the session since.
    pub(super) fn remove(&self, task_session: &Arc<TaskSession>) {
        let mut task_sessions = self.task_sessions();
        if has(&task_sessions, task_session) {
            task_sessions.remove(&task_session.session);
        }
    }

    /// Gives a new session its place, and looks after it.
    async fn settle(self: &Arc<Self>, opened: Opened, task: &Task) -> Result<QueuedTurn, Refusal> {
        let Opened { task_session, mut events, mut questions } = opened;
        if !self.has_session(&task_session) {
            task_session.leave(false).await;
            if task.session.is_some() {
                return Err(Refusal::Again("another connection has loaded its session".to_owned()));
            }
            return Err(Refusal::Never(format!(
                "the agent gave the session id {:?}, which is in use: an agent must give each session an id of its own, also in another process",
                task_session.session
            )));
        }
        let subject = self.shared().subjects.control(&task_session.session);
        let mut told = self.shared().client.subscribe(subject).await.map_err(|error| {
            Refusal::Again(format!(
                "cannot listen for what session {:?} is told: {error}",
                task_session.session
            ))
        })?;
        let queued = QueuedTurn::of(self, &task_session);
        self.task_sessions().insert(task_session.session.clone(), task_session.clone());
        let (runner, own) = (self.clone(), task_session.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    event = events.next() => match event {
                        Some(ClientEvent::Closed(..)) | None => break,
                        Some(_) => {}
                    },
                    Some(message) = told.next() => runner.control(&own, message).await,
                    Some(question) = questions.recv() => {
                        let (runner, task_session) = (runner.clone(), own.clone());
                        tokio::spawn(async move { runner.ask(&task_session, question).await });
                    }
                }
            }
            runner.remove(&own);
        });
        Ok(queued)
    }

    /// A session is told something.
    async fn control(self: &Arc<Self>, task_session: &Arc<TaskSession>, message: Message) {
        // Whoever has it now answers.
        if !self.has_session(task_session) || self.nats.is_taken_over(&task_session.session).await {
            if !task_session.is_occupied() {
                self.abandon(task_session);
            }
            return;
        }
        let done = match Control::parse(&message.payload) {
            Ok(control) => self.obey(task_session, control).await,
            Err(why) => Err(why),
        };
        self.shared().controlled(message, task_session.occupant(), done).await;
    }

    async fn obey(
        self: &Arc<Self>,
        task_session: &Arc<TaskSession>,
        control: Control,
    ) -> Result<(), NatsRefusal> {
        match control.op {
            Op::Who => Ok(()),
            Op::Cancel => match (task_session.occupant(), control.task) {
                (None, _) => Err("no turn is running".into()),
                (Some(runs), Some(meant)) if runs != meant => {
                    Err(format!("task {meant:?} does not run in the session: {runs:?} does").into())
                }
                (Some(_), _) => {
                    task_session.cancel().await;
                    Ok(())
                }
            },
            Op::Close => {
                // Nobody begins in it from now on: whoever waits for it fails to sit down, and waits until it is closed.
                self.remove(task_session);
                let (grace, task_session) = (self.settings.grace, task_session.clone());
                tokio::spawn(async move {
                    if task_session.is_occupied() {
                        task_session.cancel().await;
                    }
                    let turn = tokio::time::timeout(grace, task_session.turn.lock()).await;
                    task_session.leave(true).await;
                    drop(turn);
                });
                Ok(())
            }
            Op::Answer => {
                let id = control.id.ok_or("answer needs the id of a request")?;
                self.asks.answer(&id, control.option)
            }
            Op::Task => {
                let handed = control.delivery.ok_or("task needs a delivery")?;
                let shared = self.shared();
                let streams = shared.streams.get().ok_or("the streams are not there yet")?;
                let (stream, consumer) =
                    (&streams.tasks.cached_info().config.name, consumer_name(&shared.agent));
                if !handed.is_from(stream, &consumer) {
                    return Err(format!("the delivery is none of the consumer {consumer} of {stream}").into());
                }
                let is_here = has(&self.task_sessions(), task_session);
                let delivery = Delivery::handed(&shared.client, handed);
                if is_here && self.take_over(delivery) { Ok(()) } else { Err(LEAVING.into()) }
            }
        }
    }

    /// Tasks that were delivered too often, because the proxies that took them were lost: answered or put aside.
    pub(super) async fn sweep(self: Arc<Self>) {
        let shared = self.shared();
        let Some(streams) = shared.streams.get() else { return };
        let (stream, name) = (streams.tasks.clone(), consumer_name(&shared.agent));
        let advisory =
            format!("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{}.{name}", stream.cached_info().config.name);
        let Ok(mut told) = shared.client.queue_subscribe(advisory, name.clone()).await else { return };
        let mut standing = shared.open.clone();
        let mut swept = false;
        loop {
            #[derive(serde::Deserialize)]
            struct Advisory {
                stream_seq: u64,
            }
            if !swept && standing.borrow_and_update().up {
                swept = self.sweep_old(&stream, &name).await;
            }
            tokio::select! {
                message = told.next() => {
                    let Some(message) = message else { return };
                    if let Ok(advisory) = serde_json::from_slice::<Advisory>(&message.payload) {
                        self.give_up(&stream, advisory.stream_seq).await;
                    }
                }
                // What was said in the meantime nobody has heard.
                changed = standing.changed() => match changed {
                    Ok(()) => swept = false,
                    Err(_) => return,
                },
                () = tokio::time::sleep(self.ack_wait()), if !swept => {}
            }
        }
    }

    /// What nobody was there to hear of: when nothing is being worked on, every task that was delivered is over. False
    /// when that cannot be told now.
    async fn sweep_old(self: &Arc<Self>, stream: &async_nats::jetstream::stream::Stream, name: &str) -> bool {
        let Ok(info) = stream.consumer_info(name).await else { return false };
        if info.num_ack_pending > 0 {
            return false;
        }
        let subject = self.shared().subjects.task(&self.shared().agent);
        let mut from = 1;
        while from <= info.delivered.stream_sequence {
            let next =
                stream.raw_message_builder().sequence(from).next_by_subject(subject.clone()).send().await;
            let message = match next {
                Ok(message) if message.sequence <= info.delivered.stream_sequence => message,
                Ok(_) => return true,
                Err(error) => return matches!(error.kind(), RawMessageErrorKind::NoMessageFound),
            };
            from = message.sequence + 1;
            self.give_up(stream, message.sequence).await;
        }
        true
    }

    async fn give_up(self: &Arc<Self>, stream: &async_nats::jetstream::stream::Stream, sequence: u64) {
        let Ok(message) = stream.get_raw_message(sequence).await else { return };
        let delivered = MAX_DELIVER as u64;
        let delivery = Delivery::stored(stream.clone(), message, delivered);
        match Task::parse(&delivery.payload) {
            Ok(task) if matches!(self.shared().known(&task.id).await, Known::Nothing) => {
                let why = format!(
                    "delivered {delivered} times and never begun: the proxies that took it were lost"
                );
                self.dead_letter(&delivery, &task, &why).await;
            }
            _ => self.clone().handle(delivery, None).await,
        }
    }

    /// Says which permission requests are open, whenever somebody wants to know.
    pub(super) async fn answer_open_requests(self: Arc<Self>) {
        let shared = self.shared();
        let subject = shared.subjects.open_requests();
        let Ok(mut asked) = shared.client.subscribe(subject).await else {
            return shared
                .say(Level::ERROR, "cannot listen for who wants to know of open permission requests");
        };
        while let Some(message) = asked.next().await {
            if let Some(reply) = message.reply {
                let _ = shared.client.publish(reply, json(&self.asks.open())).await;
            }
        }
    }
}

/// Whether this very session is among those that are open.
fn has(task_sessions: &HashMap<String, Arc<TaskSession>>, task_session: &Arc<TaskSession>) -> bool {
    task_sessions.get(&task_session.session).is_some_and(|here| Arc::ptr_eq(here, task_session))
}
