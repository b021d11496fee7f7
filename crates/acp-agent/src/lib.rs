//! The reference agent: a real coding agent over ACP, with the code engine's tools, files, commands, MCP servers,
//! delegation, sessions that survive, and a choice of model providers.
//!
//! It never keeps a second copy of the protocol: what an agent owes its client is `acp_script::agent::Agent`, which
//! decides and waits; here are the files, commands, tools, models and sessions that it asks for. Read first: [`AgentServerSettings`],
//! [`AgentServer`], [`provider::Provider`].

mod chat;
mod claims;
mod connection;
mod context;
mod debug;
mod files;
mod findings;
mod guide;
mod identity;
mod instructions;
mod local_tools;
mod model_tasks;
mod modes;
mod offer;
mod prompt;
pub mod provider;
mod server;
mod store;
mod survey;
mod tools;

pub use server::{AgentServeError, AgentServer, AgentServerSettings, State};
pub use store::{FILE, Kept, SessionStore, SessionStoreError, panic_is_expected};
