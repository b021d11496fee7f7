//! `acp agent` as a process.

mod crash;
mod mcp;
mod printed_client;
mod starting;
mod suite;
mod talk;
