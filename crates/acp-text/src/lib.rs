//! Text that came from outside: an agent, a client, a file of a repository, a peer on NATS.
//!
//! [`Untrusted`] is such text on its way to a person. It has no `Display` of its own: whoever shows it says where
//! ([`line`](Untrusted::line), [`block`](Untrusted::block), [`markdown`](Untrusted::markdown)), and each of these cleans it.
//! [`redact`] takes secrets out of text, JSON values and conversations.
//! This crate never reads a file or the environment, and it never prints.
//!
//! Read first: [`Untrusted`], [`redact::text`], [`redact::value`].
#![deny(clippy::disallowed_methods)]

mod commands;
mod hidden;
mod json;
pub mod redact;
mod untrusted;

pub use commands::CommandGuard;
pub use json::escaped as json;
pub use untrusted::{Block, Line, Markdown, Untrusted};

/// Text from outside on one line, for people.
#[must_use]
pub fn line(text: &str) -> String {
    Untrusted::new(text).line().to_string()
}

/// Text from outside where several lines are expected, for people.
#[must_use]
pub fn block(text: &str) -> String {
    Untrusted::new(text).block().to_string()
}
