//! Plays a test file against the scripted agent of `acp-script` in virtual time.
//!
//! The interpreter, the agent with its faults, the client's files, terminals and permissions, and a stub MCP server all
//! live in memory, so one test takes milliseconds and always gives the same verdict. It never starts a process, reads a
//! clock or touches a file. A test that needs a real process is refused with a reason ([`needs_process`]).
//!
//! [`proof`] holds a suite against legal variants, defects and changes of its own. Read first: [`Actor`], [`play`],
//! [`PlayedTest`].

#![deny(clippy::disallowed_methods)]

mod agent;
mod client;
mod files;
mod judged;
mod local_tools;
mod mcp;
mod play;
mod probe;
pub mod proof;
mod queue;
mod shell;
mod terminals;

pub use agent::Actor;
pub use judged::{JudgedConnection, judged};
pub use play::{PlayConditions, PlayedProbe, PlayedTest, needs_process, play};
pub use probe::probe;
