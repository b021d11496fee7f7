//! Passes lines between a client and an agent.
//!
//! **What it is.** A [`Relay`] owns two links. What one side says goes to the other: as the original bytes where both speak
//! the same form of the protocol, translated where they do not. [`Observers`] see what passes: a journal, a judge,
//! counters, NATS. [`translated`] gives an agent of a foreign form a relay of its own, so that its client sees v1.
//!
//! **What it will never do.** Decide anything about a line, drop one, or queue without a bound: a side is read only as fast
//! as the other side takes what it says.
//!
//! **Read first:** [`Relay`], [`Observer`], [`RelayEnd`].

mod gate;
mod observer;
mod relay;

pub use gate::Gate;
pub use observer::{Decision, Interest, Observer, Observers, RecordError};
pub use relay::{Relay, RelayEnd, SessionAliases, translated, translated_resuming};
