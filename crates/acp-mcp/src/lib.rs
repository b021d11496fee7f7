//! MCP (Model Context Protocol) at the edge of the workbench, on `rmcp`: the [`McpClient`] that talks to the
//! servers which an ACP session names, the `stub` server whose log proves what an agent did with it, and
//! `serve_tools`, which offers a set of tools on standard input and output.
//!
//! There is no ACP here, and no decision about which tool to call. A server that does not start, dies or
//! stalls is an [`McpError`] value, never a panic and never a hang.
//!
//! Without the feature `rmcp` there are only the types and a [`McpClient`] that never connects, and no servers.
//!
//! Read first: [`ServerSpec`] (how to reach a server), [`McpClient`], `stub::StubLog`.

#[cfg(feature = "rmcp")]
mod child;
#[cfg_attr(not(feature = "rmcp"), path = "no_client.rs")]
mod client;
mod error;
mod hub;
#[cfg(feature = "rmcp")]
mod serve;
mod spec;
#[cfg(feature = "rmcp")]
pub mod stub;
mod types;

pub use client::McpClient;
pub use error::McpError;
pub use hub::{Hub, HubEvent};
#[cfg(feature = "rmcp")]
pub use serve::{OfferedTool, ServedAnswer, ServedCall, Tools, serve_tools};
pub use spec::ServerSpec;
pub use types::{CallResult, McpOptions, ServerIdentity, ServerTool};
