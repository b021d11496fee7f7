//! Messages that are on their way, and the one subscription on which their acknowledgements come back.
//!
//! A JetStream acknowledgement is an answer to the message's reply subject. Asking for each by itself costs a channel, a
//! timer and an entry in a table per message; a stream acknowledges in order, so one subscription and one timer do.
//!
//! The fence is proved when nothing is on its way and the last proof is ten milliseconds old, and once a second in a
//! stream that never rests. It is not proved at every moment at which the window is empty: a proof is a message sent
//! alone, and a fast agent empties its window thousands of times a second.

use std::pin::Pin;
use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, HeaderMap, Message, StatusCode, Subject, Subscriber};
use futures_util::{FutureExt, StreamExt};
use serde::Deserialize;
use tokio::time::{Instant, Sleep};

use super::super::spool::Line;
use crate::error::StoreError;

/// The longest wait for an acknowledgement before one looks at what is stored.
const ACK_TIMEOUT: Duration = Duration::from_secs(15);

/// What became of the oldest message on its way.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is stored, under this sequence of the stream.
    Stored(u64),
    /// Somebody else's event is the last of the session.
    Taken,
    /// It is not stored, or nobody knows.
    Failed(String),
}

pub(super) struct Flight {
    client: Client,
    subject: Subject,
    inbox: String,
    id_prefix: String,
    answers: Option<Subscriber>,
    /// Counts up whenever events that were stored are removed: NATS must not take them for duplicates of themselves.
    name: u64,
    /// Counts up whenever everything on its way is given up: what still comes of it is nobody's.
    generation: u64,
    sent: usize,
    patience: Pin<Box<Sleep>>,
}

#[derive(Deserialize)]
struct Acknowledgement {
    #[serde(default)]
    seq: u64,
    error: Option<jetstream::Error>,
}

impl Flight {
    pub(super) fn new(client: Client, subject: String, id_prefix: String) -> Flight {
        Flight {
            inbox: client.new_inbox(),
            client,
            subject: subject.into(),
            id_prefix,
            answers: None,
            name: 0,
            generation: 0,
            sent: 0,
            patience: Box::pin(tokio::time::sleep(ACK_TIMEOUT)),
        }
    }

    /// How many messages are on their way.
    pub(super) fn len(&self) -> usize {
        self.sent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent == 0
    }

    /// Whatever is on its way, nobody waits for it any more.
    pub(super) fn give_up(&mut self) {
        self.generation += 1;
        self.sent = 0;
    }

    /// What is sent from here on has another id than before.
    pub(super) fn rename(&mut self) {
        self.name += 1;
    }

    /// Sends an event; with `after`, only where that sequence is the last of the session.
    pub(super) async fn send(&mut self, line: &Line, after: Option<u64>) -> Result<(), StoreError> {
        if self.answers.is_none() {
            let all = format!("{}.>", self.inbox);
            self.answers = Some(self.client.subscribe(all).await.map_err(StoreError::nats)?);
        }
        let mut headers = HeaderMap::new();
        let id = match self.name {
            0 => format!("{}{}", self.id_prefix, line.seq),
            name => format!("{}{}:{name}", self.id_prefix, line.seq),
        };
        headers.insert(NATS_MESSAGE_ID, id);
        if let Some(after) = after {
            headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, after.to_string());
        }
        if let Some(trace) = &line.trace {
            headers.insert("traceparent", &**trace);
        }
        let reply = format!("{}.{}.{}", self.inbox, self.generation, line.seq);
        let (subject, payload) = (self.subject.clone(), line.payload.clone());
        let sending = self.client.publish_with_reply_and_headers(subject, reply, headers, payload);
        sending.await.map_err(StoreError::nats)?;
        if self.sent == 0 {
            self.wait_anew();
        }
        self.sent += 1;
        Ok(())
    }

    /// Waits for what becomes of the event `seq`, the oldest on its way; for ever if there is none.
    pub(super) async fn answer(&mut self, seq: Option<u64>) -> Answer {
        let (Some(seq), Some(answers)) = (seq.filter(|_| self.sent > 0), &mut self.answers) else {
            return std::future::pending().await;
        };
        let own = answer_to(answers, &self.inbox, self.generation);
        let patience = self.patience.as_mut();
        let (number, answer) = tokio::select! {
            biased;
            answer = own => answer,
            () = patience => (seq, Answer::Failed("no acknowledgement came".to_owned())),
        };
        self.landed(seq, number, answer)
    }

    /// What became of the event `seq`, if that is known already.
    pub(super) fn answered(&mut self, seq: Option<u64>) -> Option<Answer> {
        let (Some(seq), Some(answers)) = (seq.filter(|_| self.sent > 0), &mut self.answers) else {
            return None;
        };
        let (number, answer) = answer_to(answers, &self.inbox, self.generation).now_or_never()?;
        Some(self.landed(seq, number, answer))
    }

    fn landed(&mut self, seq: u64, number: u64, answer: Answer) -> Answer {
        self.sent -= 1;
        self.wait_anew();
        if number == seq { answer } else { Answer::Failed(format!("{number} was acknowledged before {seq}")) }
    }

    fn wait_anew(&mut self) {
        // Far more often than it matters would be a timer moved for each message.
        let until = Instant::now() + ACK_TIMEOUT;
        if until.duration_since(self.patience.deadline()) > ACK_TIMEOUT / 16 {
            self.patience.as_mut().reset(until);
        }
    }
}

/// The next answer to a message of this generation: which, and what.
async fn answer_to(answers: &mut Subscriber, inbox: &str, generation: u64) -> (u64, Answer) {
    while let Some(message) = answers.next().await {
        let place = message.subject.strip_prefix(inbox).and_then(|place| place.strip_prefix('.'));
        let place = place.and_then(|place| place.split_once('.'));
        let place = place.and_then(|(of, seq)| Some((of.parse::<u64>().ok()?, seq.parse::<u64>().ok()?)));
        match place {
            Some((of, seq)) if of == generation => return (seq, read(&message)),
            _ => {}
        }
    }
    (0, Answer::Failed("the connection is closed".to_owned()))
}

fn read(message: &Message) -> Answer {
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return Answer::Failed("no stream takes it".to_owned());
    }
    match serde_json::from_slice::<Acknowledgement>(&message.payload) {
        Ok(Acknowledgement { error: None, seq }) if seq > 0 => Answer::Stored(seq),
        Ok(Acknowledgement { error: Some(error), .. }) => match error.error_code() {
            ErrorCode::STREAM_WRONG_LAST_SEQUENCE | ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT => {
                Answer::Taken
            }
            _ => Answer::Failed(error.to_string()),
        },
        Ok(_) | Err(_) => {
            let text = String::from_utf8_lossy(&message.payload);
            Answer::Failed(format!("the acknowledgement is not one: {text}"))
        }
    }
}
