//! Serves the agents of `acp-script` over links: own stdio, TCP and WebSocket, one agent per connection, with real
//! MCP connections and sessions that all connections share.
//!
//! It never decides how an agent behaves: that is data in `acp-script`. Read first: [`MockSettings`], [`MockServer`],
//! [`MockStore`].

mod connection;
mod forms;
mod local_tools;
mod process;
mod server;
mod store;
mod watch;

pub use acp_dialect::DialectChoice;
pub use connection::Ending;
pub use server::{MockServeError, MockServer, MockSettings};
pub use store::{MockStore, MockStoreError};
