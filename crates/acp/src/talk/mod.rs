//! What `acp prompt` and `acp chat` share: flags, content, the session, rendering, questions to the person.

pub mod args;
pub mod ask;
mod calls;
pub mod content;
mod diff;
pub mod history;
pub mod json;
pub mod keys;
pub mod mcp;
pub mod modes;
pub mod patterns;
pub mod raw;
pub mod render;
pub mod session;
pub mod turn;
