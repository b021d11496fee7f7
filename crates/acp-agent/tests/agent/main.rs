//! The reference agent on a link inside of the test: each form of the protocol, its sessions, its tools.

mod code;
mod desk;
mod forms;
mod many;
mod probe;
mod sessions;
mod turns;
