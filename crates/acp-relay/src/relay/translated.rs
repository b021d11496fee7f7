//! An agent of a foreign form as one of v1.

use std::sync::PoisonError;

use acp_dialect::{Bridge, Dialect, TranslationOptions};
use acp_link::Link;

use super::{Relay, RelayEnd, SessionAliases};
use crate::observer::Observers;

/// Lines that wait inside this process between a translation and who speaks v1.
const BURST: usize = 256;

/// The link to an agent that speaks a foreign form, as a link to one that speaks v1. The translation runs in a task of
/// its own until both sides have ended; must be called inside a tokio runtime.
#[must_use]
pub fn translated(link: Link, dialect: Dialect, options: TranslationOptions, observers: Observers) -> Link {
    translated_resuming(link, dialect, options, observers, &SessionAliases::default())
}

/// Like [`translated`], for several connections to one agent, one after another: `sessions` is what each leaves to the
/// next.
#[must_use]
pub fn translated_resuming(
    link: Link,
    dialect: Dialect,
    mut options: TranslationOptions,
    observers: Observers,
    sessions: &SessionAliases,
) -> Link {
    if dialect.is_canonical() {
        return link;
    }
    options.sessions.extend(sessions.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
    let (ours, theirs) = acp_link::memory(BURST);
    let mut relay = Relay::new(theirs, link, Bridge::new(Dialect::V1, dialect, options), observers);
    relay.sessions = Some(sessions.clone());
    tokio::spawn(async move { while relay.run().await == RelayEnd::ClientDone {} });
    ours
}
