//! Scripted ACP behaviour as data: a conforming agent and its legal variants, the one table of plain wishes, scripts, faults and
//! defects.
//!
//! It never opens a socket, never starts a process, never speaks MCP and never reads a clock: frames, answers and
//! the time come in, effects go out. Read first: [`agent::Agent`], [`agent::AgentEffect`], [`wishes::Intent`].

#![deny(clippy::disallowed_methods)]

pub mod agent;
pub mod client_defects;
pub mod client_habits;
mod client_switch;
pub mod client_variants;
pub mod defects;
pub mod faults;
mod misbehaviour;
mod mock_agent;
pub mod script;
mod switch;
pub mod variants;
pub mod wishes;

pub use client_switch::ClientSwitch;
pub use mock_agent::MockAgent;
pub use switch::Switch;
