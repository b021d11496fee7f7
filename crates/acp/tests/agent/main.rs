//! `acp agent` as a process.

mod crash;
mod ended;
mod hostile;
mod lasting;
mod mcp;
mod printed_client;
mod recorded;
mod seeds;
mod shared;
mod starting;
mod suite;
mod talk;
