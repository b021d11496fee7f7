//! The code engine: ranked search, structural queries and extraction over a folder, without an index.
//!
//! It reads files below one root and never writes, never leaves that root, and knows nothing of any
//! protocol: tools arrive as plain requests and leave as plain results.
//!
//! Read first: [`Engine`] (the root, its caches and its pages), [`search::Request`] and [`search::Results`]
//! (the other two tools have the same shape), [`Stop`] (how a call is cut short).

pub mod extract;
pub mod query;
pub mod search;
pub mod tool;

mod engine;
mod error;
mod format;
mod number;
mod stop;

pub use engine::Engine;
pub use error::CodeError;
pub use format::Format;
pub use stop::{Reason, Stop};
