//! The relay between clients and agents.
//!
//! **What it is.** A [`Proxy`] takes clients (over standard streams, TCP or WebSocket, in any form of the protocol), opens
//! an agent for each of them (a process or a connection, in any form) and joins the two until one of them is gone. Where
//! both speak the same form the lines pass as they are, unread; where not, they are translated, and each step that is
//! more than renaming is told once. What a client did not get to hear because its agent is gone, it is told.
//!
//! **What it will never do.** Drop a line, queue without a bound, re-write what needs no translation, leave a process
//! behind, or guess a client's form without saying so.
//!
//! **Read first:** [`Proxy`], [`ProxySettings`], [`ClientSource`].

mod admit;
mod conversation;
mod endings;
pub mod event;
mod folders;
mod gatekeeper;
mod greet;
mod handle;
mod interceptor;
pub mod journal;
mod lint;
mod log;
pub mod metrics;
pub mod narrate;
pub mod ops;
mod proxy;
mod record;
pub mod replay;
mod serve;
mod settings;
mod splice;

mod traffic;
pub mod turn;

pub use acp_relay::{Decision, Interest, Observer};
pub use conversation::ClientInfo;
pub use endings::{stopped, why_over};
pub use folders::FolderOpener;
pub use gatekeeper::{Duties, EvictIdleSession, is_full};
pub use greet::ClientForm;
pub use handle::{ConversationHandle, DecisionReasons};
pub use interceptor::impossible;
pub use log::{LOG_TARGET, LogFields, LogLine, ProxyLog};
pub use proxy::{AgentUnavailable, ObserverFactory, OpenedAgent, Opener, Outcome, Proxy};
pub use serve::ClientSource;
pub use settings::ProxySettings;
