//! A conversation with an agent in the terminal.
//!
//! [`Talk`] opens a session and keeps it, [`turn`] runs one turn of it and shows what happens, [`chat()`] does both until the
//! person has had enough. [`Raw`] is a connection for requests that are written by hand. This crate never decides what an
//! agent may do (`acp-host` does) and knows no flags and no exit codes.
//!
//! Read first: [`Talk`], [`turn::TurnView`], [`render::Renderer`].

#[macro_use]
pub mod say;

mod ask;
mod calls;
pub mod chat;
pub mod content;
mod diff;
mod earlier;
mod editor;
mod error;
pub mod history;
pub mod json;
pub mod keys;
pub mod mcp;
mod modes;
pub mod raw;
pub mod render;
mod session;
pub mod turn;

pub use chat::{ChatOptions, chat};
pub use error::{ChatError, ErrorFamily};
pub use modes::ModeError;
pub use raw::{Raw, RawOptions};
pub use session::{Talk, TalkOptions, real_folder};
