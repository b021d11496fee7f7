//! What is known of tasks: their states and results in NATS.

use std::time::Duration;

use async_nats::header::{HeaderMap, HeaderName, HeaderValue};
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use futures_util::StreamExt as _;
use serde::Serialize;
use serde_json::value::RawValue;

use super::claim::Claim;
use super::clock;
use super::error::StoreError;
use super::hub::Shared;
use super::payload::{DeadLetter, Status, TaskResult, TaskState};
use super::subject::token;
use super::trace::TRACEPARENT;
use crate::parts::Parts;
use acp_proxy::event::{Body, Event, Role, TurnEnd, VERSION};
use acp_proxy::turn::Tally;
use tracing::Level;

/// What is known of a task.
#[derive(Debug)]
pub(super) enum Known {
    Nothing,
    /// Someone has begun it.
    Begun {
        session: Option<String>,
        proxy: Option<String>,
    },
    /// It was taken back.
    Withdrawn,
    Ended(Box<TaskResult>),
}

/// The pause after a failed attempt.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(250);

impl Shared {
    /// What is known of a task. Tries until NATS says it.
    pub(super) async fn known(&self, task: &str) -> Known {
        loop {
            match self.look(task).await {
                Ok(known) => return known,
                Err(why) => {
                    self.say_once(Level::WARN, &format!("cannot look up a task: {why}; trying again"));
                    self.look_after_streams();
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    pub(super) async fn look(&self, task: &str) -> Result<Known, StoreError> {
        if let Some(result) = self.last_of(&self.subjects.result(task)).await? {
            let result = serde_json::from_slice(&result)
                .map_err(|error| StoreError::Unreadable(format!("its result: {error}")))?;
            return Ok(Known::Ended(Box::new(result)));
        }
        let Some(status) = self.last_of(&self.subjects.status(task)).await? else {
            return Ok(Known::Nothing);
        };
        let status: Status = serde_json::from_slice(&status)
            .map_err(|error| StoreError::Unreadable(format!("its status: {error}")))?;
        Ok(match status.state {
            TaskState::Withdrawn => Known::Withdrawn,
            TaskState::Begun | TaskState::Ended => {
                Known::Begun { session: status.session, proxy: status.proxy }
            }
        })
    }

    pub(super) async fn last_of(&self, subject: &str) -> Result<Option<bytes::Bytes>, StoreError> {
        let streams = self.streams.get().ok_or(StoreError::NoStreams)?;
        match streams.results.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message.payload)),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(StoreError::nats(error)),
        }
    }

    /// Ends a task before anyone can begin it: false when someone has, or when it has ended.
    pub(super) async fn forestall(&self, claim: &Claim) -> bool {
        loop {
            match self.known(&claim.task).await {
                Known::Nothing => {}
                // Only what was forestalled has a state without a session, and no result: we came no further before.
                Known::Begun { session: None, .. } => return true,
                Known::Begun { .. } | Known::Withdrawn | Known::Ended(_) => return false,
            }
            let message = self.ended(&claim.task, None).expected_last_subject_sequence(0);
            let message = traced(message, claim.trace.as_deref());
            match self.first(self.subjects.status(&claim.task), message).await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(why) => {
                    self.say_once(Level::WARN, &format!("cannot store a state: {why}; trying again"));
                    self.look_after_streams();
                }
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// The message that a task has ended: the same one however often it is sent.
    fn ended(&self, task: &str, session: Option<&str>) -> PublishMessage {
        let status = self.status(task, TaskState::Ended, session);
        PublishMessage::build().payload(json(&status)).message_id(format!("{}:ended", token(task)))
    }

    pub(super) fn status(&self, task: &str, state: TaskState, session: Option<&str>) -> Status {
        Status {
            v: VERSION,
            task: task.to_owned(),
            agent: self.agent.clone(),
            state,
            session: session.map(str::to_owned),
            proxy: Some(self.proxy.clone()),
            at: clock::now(),
        }
    }

    /// Stores something that there may be only one of.
    pub(super) async fn first(&self, subject: String, message: PublishMessage) -> Result<bool, StoreError> {
        let sent = self.context.send_publish(subject, message).await;
        match sent.map_err(StoreError::nats)?.await {
            // The server looks for the id first: a second one is acknowledged, and not stored.
            Ok(ack) => Ok(!ack.duplicate),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(false),
            Err(error) => Err(StoreError::nats(error)),
        }
    }

    /// Stores a result, unless there is one, and tells it. Tries until it is stored. Returns what is stored.
    pub(super) async fn answer(
        &self,
        result: TaskResult,
        reply_to: Option<&str>,
        trace: Option<&str>,
    ) -> TaskResult {
        let (task, session) = (result.task.clone(), result.session.clone());
        let payload = self.fitting(result.clone());
        let stored = loop {
            let message = PublishMessage::build()
                .payload(payload.clone())
                .message_id(format!("{}:result", token(&task)))
                .expected_last_subject_sequence(0);
            match self.first(self.subjects.result(&task), traced(message, trace)).await {
                Ok(true) => break result,
                Ok(false) => match self.known(&task).await {
                    Known::Ended(stored) => break *stored,
                    _ => break result,
                },
                Err(why) => {
                    self.say_once(Level::WARN, &format!("cannot store a result: {why}; trying again"));
                    self.look_after_streams();
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        };
        let message = self.ended(&task, session.as_deref());
        if let Ok(ack) = self.context.send_publish(self.subjects.status(&task), traced(message, trace)).await
        {
            let _ = ack.await;
        }
        self.reply(&stored, reply_to, trace).await;
        stored
    }

    /// Tells a result to who asked for it.
    pub(super) async fn reply(&self, result: &TaskResult, reply_to: Option<&str>, trace: Option<&str>) {
        if let Some(subject) = reply_to {
            let (subject, payload) = (subject.to_owned(), self.fitting(result.clone()));
            let _ = self.client.publish_with_headers(subject, carrying(trace), payload).await;
        }
    }

    /// A result that fits into one message: what is too large stays in the session's events.
    fn fitting(&self, mut result: TaskResult) -> bytes::Bytes {
        let payload = json(&result);
        if payload.len() <= self.largest() {
            return payload;
        }
        let note = serde_json::json!({
            "omitted": payload.len(),
            "message": "too large for one message; the event turn_end of the session has it in parts",
        });
        result.result = result.result.is_some().then(|| acp_proxy::event::raw(&note));
        let payload = json(&result);
        if payload.len() <= self.largest() {
            return payload;
        }
        result.error = Some(acp_proxy::event::raw(&note));
        result.artifacts.clear();
        json(&result)
    }

    /// Puts a task into the queue, as if it had never been taken. The server must not take it for one that it knows.
    pub(super) async fn queue(&self, payload: bytes::Bytes, trace: Option<&str>) -> Result<(), StoreError> {
        let message = traced(PublishMessage::build().payload(payload), trace);
        let sent = self.context.send_publish(self.subjects.task(&self.agent), message).await;
        let ack = sent.map_err(StoreError::nats)?.await;
        ack.map(drop).map_err(StoreError::nats)
    }

    /// Puts a task aside, with the reason. True when that is stored.
    pub(super) async fn dead_letter(
        &self,
        payload: &[u8],
        delivered: u64,
        claim: Option<&Claim>,
        reason: &str,
    ) -> bool {
        let (text, base64) = match std::str::from_utf8(payload) {
            Ok(text) => (Some(text.to_owned()), None),
            Err(_) => {
                use base64::Engine as _;
                (None, Some(base64::engine::general_purpose::STANDARD.encode(payload)))
            }
        };
        let mut letter = DeadLetter {
            v: VERSION,
            agent: self.agent.clone(),
            task: claim.map(|claim| claim.task.clone()),
            reason: reason.to_owned(),
            at: clock::now(),
            delivered,
            payload: text,
            base64,
        };
        if json(&letter).len() > self.largest() {
            // Escaping made it too large. The beginning must do.
            let whole = letter.payload.take().or(letter.base64.take()).unwrap_or_default();
            let most = whole.floor_char_boundary(self.largest() / 8);
            letter.payload = Some(format!("{}…", &whole[..most]));
            letter.reason = format!("{reason} (the payload of {} bytes is cut)", payload.len());
        }
        let trace = claim.and_then(|claim| claim.trace.as_deref());
        let message = traced(PublishMessage::build().payload(json(&letter)), trace);
        let subject = self.subjects.dead(&self.agent);
        let stored = match self.context.send_publish(subject.clone(), message).await {
            Ok(ack) => ack.await.map(drop),
            Err(error) => Err(error),
        };
        match stored {
            Ok(()) => {
                self.counts.dead.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                self.say(Level::WARN, &format!("a task went to {subject}: {reason}"));
                true
            }
            Err(error) => {
                self.say(Level::ERROR, &format!("cannot put a task aside: {error}; it is tried again"));
                false
            }
        }
    }

    /// What is stored of a task's turn: how it ended, or else its text so far, weighed.
    pub(super) async fn turn_of(
        &self,
        session: &str,
        task: &str,
    ) -> Result<Result<TurnEnd, Tally>, StoreError> {
        let (mut tally, mut end) = (Tally::default(), None);
        self.read(session, |of, body| {
            match body {
                _ if of != Some(task) => {}
                Body::Text(text) if text.role == Role::Agent => tally.text(&text.text),
                Body::Update(update) => tally.update(update.update.get()),
                Body::TurnEnd(ended) => end = Some(ended),
                _ => {}
            }
            end.is_none()
        })
        .await?;
        Ok(end.ok_or(tally))
    }

    /// The params with which a session was opened, or loaded, the last time.
    pub(super) async fn opened_with(&self, session: &str) -> Result<Option<Box<RawValue>>, StoreError> {
        let mut params = None;
        self.read(session, |_, body| {
            if let Body::Session(opened) = body {
                params = Some(opened.params);
            }
            true
        })
        .await?;
        Ok(params)
    }

    /// Reads what is stored of a session up to now, each event with its task, as long as `more` says so.
    async fn read(
        &self,
        session: &str,
        mut more: impl FnMut(Option<&str>, Body) -> bool,
    ) -> Result<(), StoreError> {
        let subject = self.subjects.event(session);
        let streams = self.streams.get().ok_or(StoreError::NoStreams)?;
        let Some(last) = self.last_event(&subject).await? else { return Ok(()) };
        let config = pull::OrderedConfig {
            filter_subject: subject,
            deliver_policy: DeliverPolicy::All,
            ..pull::OrderedConfig::default()
        };
        let consumer = streams.events.create_consumer(config).await.map_err(StoreError::nats)?;
        let mut messages = consumer.messages().await.map_err(StoreError::nats)?;
        let mut parts = Parts::default();
        while let Some(message) = messages.next().await {
            let message = message.map_err(StoreError::nats)?;
            let sequence = message.info().map_err(StoreError::nats)?.stream_sequence;
            if let Ok(event) = Event::parse(&message.payload)
                && !more(event.task.as_deref(), parts.whole(event.body))
            {
                break;
            }
            if sequence >= last.sequence {
                break;
            }
        }
        Ok(())
    }
}

/// JSON for a message. Nothing in our payloads fails to be written.
pub(super) fn json(value: &impl Serialize) -> bytes::Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// The headers of a message that belongs to a trace.
pub(super) fn carrying(trace: Option<&str>) -> HeaderMap {
    trace.map(|trace| (HeaderName::from_static(TRACEPARENT), HeaderValue::from(trace))).into_iter().collect()
}

pub(super) fn traced(message: PublishMessage, trace: Option<&str>) -> PublishMessage {
    match trace {
        Some(trace) => message.header(TRACEPARENT, trace),
        None => message,
    }
}
