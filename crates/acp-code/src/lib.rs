//! The code engine: ranked search, structural queries and extraction over a folder, without an index.
//!
//! It reads files below one root and never writes, never leaves that root, and knows nothing of any
//! protocol: tools arrive as plain requests and leave as plain results.
//!
//! Read first: [`Engine`] (the root and its pages), [`search::SearchRequest`] and [`search::SearchResults`] (the other two tools
//! have the same shape), [`StopSignal`] (how a call is cut short).

pub mod extract;
pub mod list;
pub mod query;
pub mod render;
pub mod search;
pub mod tool;

mod abbreviations;
mod answer;
mod blocks;
mod engine;
mod error;
mod format;
mod hidden;
mod irregular;
mod lang;
mod number;
mod place;
mod read;
mod rules;
mod scanner;
mod stop;
mod synonyms;
mod syntax;
mod testcode;
mod walk;
mod watch;
mod words;

pub use answer::CodeAnswer;
pub use engine::Engine;
pub use error::CodeError;
pub use format::ResultFormat;
pub use lang::names as languages;
pub use stop::{StopCause, StopSignal};
