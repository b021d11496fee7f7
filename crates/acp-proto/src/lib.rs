//! The vocabulary of the Agent Client Protocol: every name that travels on the wire, written down once.
//!
//! **What it is.** For each closed list of names there is an enum (a [`Method`], an [`UpdateKind`], a
//! [`StopReason`]) and a module of constants beside it ([`method::SESSION_PROMPT`]). Match on
//! the constants where a name is still a `&str` of a frame; keep the enum where a value is stored. A value that came
//! from outside is a [`Lenient`]: known, or the text as it came. Both protocol versions are in the same lists; each
//! name says which versions have it.
//!
//! **What it will never do.** Read or write a frame, hold state, or refuse a name that it does not know.
//!
//! **Read first:** [`Method`], [`Lenient`], [`Direction`].

#![deny(clippy::disallowed_methods)]

mod error;
mod id;
mod join;
mod methods;
mod permission;
mod side;
mod tool;
mod turn;
mod updates;
mod version;
mod words;

pub use error::{ErrorCode, error_code};
pub use id::{SessionId, ToolCallId};
#[doc(hidden)]
pub use join::{joined, joined_len};
pub use methods::{Method, method};
pub use permission::{PermissionOptionKind, option_kind};
pub use side::{Direction, Side, UnknownDirection};
pub use tool::{ToolCallStatus, ToolKind, tool_kind, tool_status};
pub use turn::{StopReason, stop_reason};
pub use updates::{UpdateKind, update};
pub use version::ProtocolVersion;
pub use words::{Lenient, UnknownWord, Vocabulary};
