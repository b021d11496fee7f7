//! The reference agent on a link inside of the test: each form of the protocol, its sessions, its tools.

mod code;
mod forms;
mod harness;
mod many;
mod probe;
mod project;
#[path = "../providers/raw.rs"]
#[expect(dead_code, reason = "the tests of providers use all of it")]
mod raw;
mod room;
mod sessions;
mod thinking;
mod turns;
