//! The client side of a conversation with an agent.
//!
//! [`AcpClient`] holds a connection: it negotiates, opens sessions, sends prompts and streams what comes back.
//! [`Providers`] answer what an agent asks of its client: files inside the session's folders, terminals,
//! permissions, elicitations. They work on raw frames, so that anything which holds a connection can hand
//! requests to them. This crate is the only one that touches the user's files, processes and decisions on an
//! agent's behalf. It knows nothing of test files, and it never prints.
//!
//! Read first: [`AcpClient`], [`Providers`], [`Question`].

mod client;
mod elicitation;
mod files;
mod jail;
mod offer;
mod permission;
mod providers;
mod question;
mod record;
mod refusal;
pub mod retry;
mod terminal;

pub use client::{
    AcpClient, ClientError, ClientOptions, Event, Events, Gone, LastWords, Observed, Timeouts, Turn,
    TurnEvent, Typed, Update, Workspace,
};
pub use elicitation::Elicited;
pub use files::FileLimits;
pub use jail::{Roots, RootsError};
pub use offer::Offer;
pub use providers::{Answer, Limits, Providers, Settings};
pub use question::{Ask, Asked, PermissionChoice, Question};
pub use record::Record;
pub use terminal::TerminalLimits;
