//! The reference agent: a real coding agent over ACP, with the code engine's tools, files, commands, MCP servers,
//! delegation, sessions that survive, and a choice of model providers.
//!
//! It never keeps a second copy of the protocol: what an agent owes its client is `acp_script::agent::Agent`. Read
//! first: [`provider::Provider`].

pub mod provider;
