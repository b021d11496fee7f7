//! One module per command: its arguments and the call it makes.

pub mod agent;
pub mod chat;
pub mod code;
pub mod completions;
pub mod comply;
pub mod diff;
pub mod expected;
pub mod explain;
pub mod harness;
pub mod lint;
pub mod man;
pub mod matrix;
pub mod mcp_stub;
pub mod mock;
pub mod model;
pub mod profiles;
pub mod prompt;
pub mod proof;
pub mod proxy;
pub mod replay;
pub mod requirements;
pub mod suites;
pub mod tasks;
