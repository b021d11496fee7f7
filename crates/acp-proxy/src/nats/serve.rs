//! Sessions in the workshop: who sits where, what they are told, and what the queue will not deliver again.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use acp_host::{ClientError, Event, TurnEvent};
use agent_client_protocol_schema::v1::ContentBlock;
use async_nats::Message;
use async_nats::jetstream::stream::RawMessageErrorKind;
use futures_util::StreamExt as _;

use super::booking::Booking;
use super::delivery::Delivery;
use super::ledger::{Known, json};
use super::neighbour::Neighbour;
use super::payload::{Control, Controlled, Op, Prompt, Task};
use super::seat::{self, Opened, Refusal, Seat};
use super::streams::{MAX_DELIVER, consumer_name};
use super::work::Workshop;
use crate::talk::Level;

/// What a proxy says to a task for a session that it is about to let go of: a moment later it is nobody's.
pub(super) const LEAVING: &str = "the session is being closed; try again";

impl Workshop {
    /// The session that a task needs: open here, taken by the proxy that has it (then there is nothing to do here), or
    /// opened now.
    pub(super) async fn seat(
        self: &Arc<Self>,
        task: &Task,
        delivery: &Delivery,
    ) -> Result<Option<Booking>, Refusal> {
        let mut _one = None;
        if let Some(session) = &task.session {
            if let Some(seat) = self.here(session) {
                return Ok(Some(seat));
            }
            _one = Some(self.opening.lock().await);
            if let Some(seat) = self.here(session) {
                return Ok(Some(seat));
            }
            match self.hand_over(session, delivery).await {
                Neighbour::Says(Controlled { ok: true, .. }) => return Ok(None),
                Neighbour::Says(Controlled { error: Some(why), .. }) if why == LEAVING => {
                    return Err(Refusal::Soon(LEAVING));
                }
                Neighbour::Says(Controlled { error, .. }) => {
                    let why = error.unwrap_or_else(|| "no reason was given".to_owned());
                    return Err(Refusal::Again(format!("session {session:?} cannot be used: {why}")));
                }
                Neighbour::Nobody if self.is_steady() => {}
                Neighbour::Nobody | Neighbour::Silent => {
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
            match seat::open(&self.proxy, task, &self.work.rules, &workspace, self.end.clone()).await {
                // Somebody else has the place that was there.
                Err(Refusal::Full) => {}
                Err(Refusal::Shut(why)) => return Err(self.whose_fault(&workspace, why).await),
                opened => return self.settle(opened?, task).await.map(Some),
            }
        }
    }

    /// A session that is open here.
    fn here(self: &Arc<Self>, session: &str) -> Option<Booking> {
        // Before the seats are let go of: nobody gives up a seat that is booked.
        let booking = Booking::of(self, self.seats().get(session)?);
        if !self.has_session(&booking.seat) {
            self.abandon(&booking.seat);
            return None;
        }
        booking.seat.touch();
        Some(booking)
    }

    /// Whether a seat's session is its own: neither another's of the same name, nor loaded by a client since.
    pub(super) fn has_session(&self, seat: &Seat) -> bool {
        self.shared().owners.is_of(&seat.session, &seat.reasons)
    }

    /// Gives up a seat whose session somebody else has.
    pub(super) fn abandon(&self, seat: &Arc<Seat>) {
        self.vacate(seat);
        let seat = seat.clone();
        tokio::spawn(async move { seat.leave(false).await });
    }

    /// Gives a task its seat: false when the seat was given up while the task waited for it.
    pub(super) fn sit(&self, seat: &Arc<Seat>, task: &str) -> bool {
        let seats = self.seats();
        let is_here = has(&seats, seat);
        if is_here {
            seat.occupy(Some(task));
        }
        is_here
    }

    /// Takes a seat from a task, if it is that task's.
    pub(super) fn unseat(&self, seat: &Seat, task: &str) {
        if seat.occupant().as_deref() == Some(task) {
            seat.occupy(None);
        }
    }

    /// Gives up a seat: this one, not another that has the session since.
    pub(super) fn vacate(&self, seat: &Arc<Seat>) {
        let mut seats = self.seats();
        if has(&seats, seat) {
            seats.remove(&seat.session);
        }
    }

    /// Gives a new session its place, and looks after it.
    async fn settle(self: &Arc<Self>, opened: Opened, task: &Task) -> Result<Booking, Refusal> {
        let Opened { seat, mut events, mut questions } = opened;
        if !self.has_session(&seat) {
            seat.leave(false).await;
            if task.session.is_some() {
                return Err(Refusal::Again("another connection has loaded its session".to_owned()));
            }
            return Err(Refusal::Never(format!(
                "the agent gave the session id {:?}, which is in use: an agent must give each session an id of its own, also in another process",
                seat.session
            )));
        }
        let subject = self.shared().subjects.control(&seat.session);
        let mut told = self.shared().client.subscribe(subject).await.map_err(|error| {
            Refusal::Again(format!("cannot listen for what session {:?} is told: {error}", seat.session))
        })?;
        let booking = Booking::of(self, &seat);
        self.seats().insert(seat.session.clone(), seat.clone());
        let (shop, own) = (self.clone(), seat.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    event = events.next() => match event {
                        Some(Event::Closed(..)) | None => break,
                        Some(_) => {}
                    },
                    Some(message) = told.next() => shop.control(&own, message).await,
                    Some(question) = questions.recv() => {
                        let (shop, seat) = (shop.clone(), own.clone());
                        tokio::spawn(async move { shop.ask(&seat, question).await });
                    }
                }
            }
            shop.vacate(&own);
        });
        Ok(booking)
    }

    /// A session is told something.
    async fn control(self: &Arc<Self>, seat: &Arc<Seat>, message: Message) {
        // Whoever has it now answers.
        if !self.has_session(seat) || self.nats.is_taken_over(&seat.session).await {
            if !seat.is_occupied() {
                self.abandon(seat);
            }
            return;
        }
        let done = match Control::parse(&message.payload) {
            Ok(control) => self.obey(seat, control).await,
            Err(why) => Err(why),
        };
        self.shared().controlled(message, seat.occupant(), done).await;
    }

    async fn obey(self: &Arc<Self>, seat: &Arc<Seat>, control: Control) -> Result<(), String> {
        match control.op {
            Op::Who => Ok(()),
            Op::Cancel => match (seat.occupant(), control.task) {
                (None, _) => Err("no turn is running".to_owned()),
                (Some(runs), Some(meant)) if runs != meant => {
                    Err(format!("task {meant:?} does not run in the session: {runs:?} does"))
                }
                (Some(_), _) => {
                    seat.cancel().await;
                    Ok(())
                }
            },
            Op::Close => {
                // Nobody begins in it from now on: whoever waits for it fails to sit down, and waits until it is closed.
                self.vacate(seat);
                let (grace, seat) = (self.work.grace, seat.clone());
                tokio::spawn(async move {
                    if seat.is_occupied() {
                        seat.cancel().await;
                    }
                    let turn = tokio::time::timeout(grace, seat.turn.lock()).await;
                    seat.leave(true).await;
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
                    return Err(format!("the delivery is none of the consumer {consumer} of {stream}"));
                }
                let is_here = has(&self.seats(), seat);
                let delivery = Delivery::handed(&shared.client, handed);
                if is_here && self.take_over(delivery) { Ok(()) } else { Err(LEAVING.to_owned()) }
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
                self.bury(&delivery, &task, &why).await;
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
                .say(Level::Error, "cannot listen for who wants to know of open permission requests");
        };
        while let Some(message) = asked.next().await {
            if let Some(reply) = message.reply {
                let _ = shared.client.publish(reply, json(&self.asks.open())).await;
            }
        }
    }
}

impl Seat {
    /// Sends a task's prompt and waits for the end of the turn. Says what happened when the agent is gone.
    pub(super) async fn prompt(&self, task: &Task, trace: Option<&str>) -> Option<String> {
        let blocks = content(task).unwrap_or_default();
        let Some(client) = self.client() else { return Some("the session was closed".to_owned()) };
        *self.trace.lock().unwrap_or_else(PoisonError::into_inner) = trace.map(str::to_owned);
        let mut turn = match client.prompt_traced(&self.session, blocks, trace).await {
            Ok(turn) => turn,
            Err(error) => return Some(error.to_string()),
        };
        // An agent takes no notice of a cancel that came before its prompt.
        if self.cancelled.load(Ordering::Acquire) {
            client.cancel(&self.session).await;
        }
        // Not held during the turn: whoever leaves the seat must be able to end the connection.
        drop(client);
        while let Some(event) = turn.next().await {
            match event {
                // An answer, whatever it is worth: the turn has ended with it.
                TurnEvent::Ended(_)
                | TurnEvent::Failed(ClientError::Refused { .. } | ClientError::Unreadable { .. }) => {
                    return None;
                }
                TurnEvent::Failed(error) => return Some(error.to_string()),
                TurnEvent::Update(_) | TurnEvent::Decision(_) => {}
            }
        }
        Some("the turn ended without an answer".to_owned())
    }

    /// Whether the agent takes a task's prompt at all.
    pub(super) fn accepts(&self, task: &Task) -> Result<(), Refusal> {
        let (blocks, client) = (content(task)?, self.client());
        // Without a client it is being left.
        let checked = client.map_or(Ok(()), |client| client.check_prompt(&blocks));
        checked.map_err(|error| Refusal::Never(format!("the task's prompt cannot be used: {error}")))
    }

    pub(super) fn occupy(&self, task: Option<&str>) {
        self.cancelled.store(false, Ordering::Release);
        *self.trace.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = task.map(str::to_owned);
        self.touch();
    }

    /// The trace of the task whose turn it is.
    pub(super) fn trace(&self) -> Option<String> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It is used now.
    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn occupant(&self) -> Option<String> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_occupied(&self) -> bool {
        self.occupant().is_some()
    }

    pub(super) fn idle_since(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.used.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether this very seat is among those that are open.
fn has(seats: &HashMap<String, Arc<Seat>>, seat: &Arc<Seat>) -> bool {
    seats.get(&seat.session).is_some_and(|here| Arc::ptr_eq(here, seat))
}

/// A task's prompt.
fn content(task: &Task) -> Result<Vec<ContentBlock>, Refusal> {
    let blocks: Result<Vec<ContentBlock>, serde_json::Error> = match &task.prompt {
        Prompt::Text(text) => Ok(vec![ContentBlock::from(text.clone())]),
        Prompt::Blocks(blocks) => blocks.iter().map(|block| serde_json::from_str(block.get())).collect(),
    };
    blocks.map_err(|error| Refusal::Never(format!("the task's prompt cannot be used: {error}")))
}
