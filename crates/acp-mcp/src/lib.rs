//! MCP (Model Context Protocol) at the edge of the workbench, on `rmcp`: the [`Client`] that talks to the
//! servers which an ACP session names, the [`stub`] server whose log proves what an agent did with it, and
//! [`serve_tools`], which offers a set of [`Tools`] on standard input and output.
//!
//! There is no ACP here, and no decision about which tool to call. A server that does not start, dies or
//! stalls is an [`McpError`] value, never a panic and never a hang.
//!
//! Read first: [`ServerSpec`] (how to reach a server), [`Client`], [`stub::StubLog`].

mod child;
mod client;
mod error;
mod hub;
mod serve;
mod spec;
pub mod stub;

pub use client::{CallResult, Client, Options, ServerIdentity, Tool};
pub use error::McpError;
pub use hub::{Hub, HubEvent};
pub use serve::{Answer, Call, Offer, Tools, serve_tools};
pub use spec::ServerSpec;
