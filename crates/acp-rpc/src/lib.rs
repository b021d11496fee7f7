//! JSON-RPC frames, lines and peers as values.
//!
//! **What it is.** Bytes come in, lines come out ([`Splitter`]); a line always becomes a [`Frame`], and a bad
//! one keeps its text and says what is wrong with it ([`Flaw`]); a [`Peer`] remembers which answers are owed in
//! both directions and names what the other side did wrong ([`Violation`]); who only follows a conversation keeps its
//! open requests in a [`Pending`] or an [`Exchange`]. Time is an argument: a
//! [`std::time::Duration`] since the conversation began.
//!
//! **What it will never do.** Read a clock, touch a file or a socket, start a task, know what a method means,
//! or change a byte of what it was given.
//!
//! **Read first:** [`Frame`], [`Splitter`], [`Peer`].

#![deny(clippy::disallowed_methods)]

mod error;
mod frame;
mod id;
mod line;
mod peer;
mod pending;
mod scan;
pub mod transcript;

pub use acp_proto::Direction;
pub use error::RpcError;
pub use frame::{Flaw, Frame, MAX_BATCH, Reply, View};
pub use id::Id;
pub use line::{DEFAULT_LINE_LIMIT, Line, Splitter};
pub use peer::{
    Expired, NotOutstanding, NotSent, Peer, PeerLimits, Received, ReplyError, RequestError, Violation,
};
pub use pending::{Exchange, NotAdded, Pending};
pub use scan::MAX_DEPTH;
