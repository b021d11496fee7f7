//! NATS: what happens in sessions is stored in JetStream, and tasks are taken from a queue there.
//!
//! [`Nats`] is a proxy's side of it: the connection, the streams, one publisher per session with a spool on disk.
//! [`TaskClient`] is who submits tasks, watches sessions and answers permission requests.

mod ask;
mod booking;
mod claim;
mod client;
mod clock;
pub mod connect;
mod delivery;
mod finish;
mod hear;
mod hub;
mod ledger;
mod neighbour;
mod owners;
pub mod payload;
mod private;
mod publisher;
mod reach;
mod reading;
mod room;
mod seat;
mod serve;
mod spool;
pub mod streams;
pub mod subject;
pub mod trace;
mod work;
mod work_settings;
mod workspace;

pub use client::{Asked, Cancelled, ClientError, Progress, Requests, TaskClient};
pub use connect::{Access, AccessError, Standing};
pub use hub::{Nats, NatsError, Report, Settings};
pub use room::Trouble;
pub use subject::{Style, Subjects};
pub use work_settings::Work;
