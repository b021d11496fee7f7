//! One module per command: its arguments and the call it makes.

pub mod completions;
pub mod comply;
pub mod man;
pub mod mcp_stub;
pub mod mock;
