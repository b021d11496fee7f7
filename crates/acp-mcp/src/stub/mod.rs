//! The stub MCP server: five plain tools and a log of everything that was asked of it.
//!
//! [`serve_stdio`] speaks on the process's own standard streams and ends with its input; [`serve_http`]
//! speaks streamable HTTP on a loopback port. [`StubLog`] reads the log back.

mod http;
mod log;
mod server;
mod stdio;
mod tools;

pub use http::{HttpStub, serve_http};
pub use log::{LogFlaw, StubEvent, StubLog, StubRecord, StubRecordError};
pub use server::{LogFile, StubSettings};
pub use stdio::serve_stdio;
pub(crate) use stdio::{LAST_WORDS, converse};
