//! What goes wrong between a proxy and NATS, by whose fault it is.

use std::error::Error;

/// Why something could not be read from NATS, or stored there: a fault, and mostly one that passes.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// The streams could not be made or found so far.
    #[error("the streams are not there yet")]
    NoStreams,
    /// What the client library says.
    #[error("{0}")]
    Nats(Box<dyn Error + Send + Sync>),
    /// What is stored is not what we store.
    #[error("{0}")]
    Unreadable(String),
    /// Nobody answered in time.
    #[error("no answer")]
    NoAnswer,
}

impl StoreError {
    pub(super) fn nats(error: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError::Nats(error.into())
    }
}

/// Why we do not do what somebody asks over NATS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NatsRefusal(String);

impl From<&str> for NatsRefusal {
    fn from(words: &str) -> NatsRefusal {
        NatsRefusal(words.to_owned())
    }
}

impl From<String> for NatsRefusal {
    fn from(words: String) -> NatsRefusal {
        NatsRefusal(words)
    }
}
