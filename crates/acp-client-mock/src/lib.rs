//! The conforming client as a mock: [`acp_host::AcpClient`] with its real providers, told what to do by verbs, and made
//! wrong or unusual by data.
//!
//! **What it is.** [`ClientMock`] does what an editor's user would do: it opens sessions, prompts, answers questions and
//! quits. Its verbs and events are the lines of a `talk` driver. Between the product's client and the agent lies a wire
//! where a [`ClientNature`] changes what is said and heard: faults and quirks. The few things that are not seen on the wire
//! are manners of the mock. The product's own client has no way to be given any of these.
//!
//! **What it will never do.** Judge anything, or know a test.
//!
//! **Read first:** [`ClientMock`], [`ClientNature`], [`AgentStarter`].

mod address;
mod command;
mod ending;
mod forms;
mod launch;
mod manners;
mod mock;
mod nature;
mod options;
mod person;
mod plain_child;
mod quirk;
mod sessions;
mod state;
mod talk;
mod verbs;
mod wire;

pub use address::AddressStarter;
pub use command::CommandStarter;
pub use launch::{AgentLaunch, AgentProcess, AgentStarter, AgentStdio, EndSignal, StartedAgent};
pub use mock::ClientMock;
pub use nature::ClientNature;
pub use talk::{TalkError, talk};
