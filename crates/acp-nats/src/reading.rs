//! What is stored on a subject, one message after another, whatever becomes of the connection.

use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::watch;

use super::connect::ConnectionState;
use super::error::StoreError;

/// The pause after a failed attempt to go on.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Reads a subject from a place in its stream on, and waits for more.
pub(super) struct Reading {
    stream: Stream,
    subject: String,
    standing: watch::Receiver<ConnectionState>,
    /// The place in the stream to go on from.
    next: u64,
    messages: Option<pull::Ordered>,
}

impl Reading {
    /// Begins at a place in the stream; the first is 1.
    pub(super) async fn begin(
        stream: Stream,
        subject: String,
        standing: watch::Receiver<ConnectionState>,
        from: u64,
    ) -> Result<Reading, StoreError> {
        let mut reading = Reading { stream, subject, standing, next: from, messages: None };
        reading.consume().await?;
        Ok(reading)
    }

    /// The next message, and its place. May be dropped and called again.
    pub(super) async fn next(&mut self) -> (u64, Bytes) {
        loop {
            let Some(messages) = &mut self.messages else {
                if self.go_on().await.is_err() {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                continue;
            };
            tokio::select! {
                message = messages.next() => match message {
                    Some(Ok(message)) => {
                        let place = message.info().map_or(self.next, |info| info.stream_sequence);
                        self.next = place + 1;
                        return (place, message.payload.clone());
                    }
                    Some(Err(_)) | None => self.messages = None,
                },
                // The server may have forgotten us, and would not say so for a minute.
                () = returned(&mut self.standing) => self.messages = None,
            }
        }
    }

    /// Goes on over the connection that is there now.
    async fn go_on(&mut self) -> Result<(), StoreError> {
        if self.standing.wait_for(|standing| standing.up).await.is_err() {
            std::future::pending::<()>().await;
        }
        let info = self.stream.get_info().await.map_err(StoreError::nats)?;
        if self.next > info.state.last_sequence + 1 {
            // The stream was made anew.
            self.next = 1;
        }
        self.consume().await
    }

    async fn consume(&mut self) -> Result<(), StoreError> {
        let config = pull::OrderedConfig {
            filter_subject: self.subject.clone(),
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.next.max(1) },
            ..pull::OrderedConfig::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(StoreError::nats)?;
        let messages = consumer.messages().await.map_err(StoreError::nats)?;
        self.messages = Some(messages);
        Ok(())
    }
}

/// Waits until the connection has come back.
async fn returned(standing: &mut watch::Receiver<ConnectionState>) {
    while standing.changed().await.is_ok() {
        if standing.borrow_and_update().up {
            return;
        }
    }
    std::future::pending::<()>().await;
}
