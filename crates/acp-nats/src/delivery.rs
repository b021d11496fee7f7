//! A task as it was delivered. It can be handed to another proxy: an acknowledgement is a message like any other.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::Stream;
use async_nats::{Client, HeaderMap, Request};
use bytes::Bytes;
use tokio::task::JoinHandle;

use super::payload::Handed;
use super::trace::{self, TRACEPARENT};

/// How long the server may take to confirm that it heard us.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// A task, and how it is acknowledged.
#[derive(Clone)]
pub(super) struct Delivery {
    pub(super) payload: Bytes,
    pub(super) delivered: u64,
    pub(super) trace: Option<String>,
    receipt: Receipt,
}

#[derive(Clone)]
enum Receipt {
    /// The subject for acknowledgements.
    Subject(Client, String),
    /// The queue will not deliver it again: it is taken out.
    Stored(Arc<Stream>, u64),
}

impl Delivery {
    pub(super) fn of(client: &Client, message: async_nats::jetstream::Message) -> Option<Delivery> {
        let delivered = message.info().map_or(1, |info| u64::try_from(info.delivered).unwrap_or(1));
        let message = message.message;
        let ack = message.reply.as_ref()?.to_string();
        let trace = message.headers.as_ref().and_then(carried);
        let receipt = Receipt::Subject(client.clone(), ack);
        Some(Delivery { payload: message.payload, delivered, trace, receipt })
    }

    /// One that was handed over by another proxy.
    pub(super) fn handed(client: &Client, handed: Handed) -> Delivery {
        let Handed { payload, ack, delivered, trace } = handed;
        let payload = Bytes::from(payload.get().to_owned());
        let trace = trace.as_deref().and_then(trace::readable);
        Delivery { payload, delivered, trace, receipt: Receipt::Subject(client.clone(), ack) }
    }

    /// One that was delivered too often, by its place in the stream.
    pub(super) fn stored(stream: Stream, message: StreamMessage, delivered: u64) -> Delivery {
        let StreamMessage { payload, headers, sequence, .. } = message;
        let receipt = Receipt::Stored(Arc::new(stream), sequence);
        Delivery { payload, delivered, trace: carried(&headers), receipt }
    }

    /// What another proxy must know of it.
    pub(super) fn hand(&self) -> Option<Handed> {
        let Receipt::Subject(_, ack) = &self.receipt else { return None };
        let payload = serde_json::from_slice(&self.payload).ok()?;
        Some(Handed { payload, ack: ack.clone(), delivered: self.delivered, trace: self.trace.clone() })
    }

    /// It is done.
    pub(super) async fn ack(&self) {
        match &self.receipt {
            Receipt::Subject(client, ack) => {
                let request = Request::new().payload("+ACK".into()).timeout(Some(ACK_TIMEOUT));
                let _ = client.send_request(ack.clone(), request).await;
            }
            Receipt::Stored(stream, sequence) => {
                let _ = stream.delete_message(*sequence).await;
            }
        }
    }

    /// It must be tried again, after a while.
    pub(super) async fn nak(&self, delay: Duration) {
        let word = format!("-NAK {{\"delay\":{}}}", delay.as_nanos());
        self.publish(word.into()).await;
    }

    /// Says that it is being worked on, three times as often as must be, until dropped.
    pub(super) fn progress(&self, ack_wait: Duration) -> Progress {
        let delivery = self.clone();
        Progress(tokio::spawn(async move {
            loop {
                delivery.publish(Bytes::from_static(b"+WPI")).await;
                tokio::time::sleep(ack_wait / 3).await;
            }
        }))
    }

    async fn publish(&self, word: Bytes) {
        if let Receipt::Subject(client, ack) = &self.receipt {
            let _ = client.publish(ack.clone(), word).await;
        }
    }
}

/// The trace in a message's headers.
fn carried(headers: &HeaderMap) -> Option<String> {
    headers.get(TRACEPARENT).and_then(|value| trace::readable(value.as_str()))
}

/// Keeps a delivery from being made again.
pub(super) struct Progress(JoinHandle<()>);

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.abort();
    }
}
