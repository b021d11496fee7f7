//! NATS: what happens in sessions is stored in JetStream, and tasks are taken from a queue there.
//!
//! [`Nats`] is a proxy's side of it: the connection, the streams, one publisher per session with a spool on disk.
//! [`TaskClient`] is who submits tasks, watches sessions and answers permission requests.

pub mod aggregate;
mod ask;
mod capacity;
mod claim;
mod client;
mod clock;
pub mod connect;
mod delivery;
mod error;
mod finish;
mod hub;
mod ledger;
mod observer;
mod owners;
pub mod parts;
pub mod payload;
mod peer_proxy;
mod private;
mod publisher;
mod reach;
mod reading;
mod repeats;
mod serve;
mod spool;
pub mod streams;
pub mod subject;
mod task_runner;
mod task_session;
mod task_settings;
pub mod trace;
mod turn_queue;
mod workspace;

pub use capacity::TaskTrouble;
pub use client::{
    Cancelled, PermissionRequest, PermissionRequests, TaskClient, TaskClientError, TaskProgress,
};
pub use connect::{Access, AccessError, ConnectionState};
pub use hub::{Nats, NatsError, NatsSettings, NatsStatus};
pub use subject::{Style, Subjects, UnknownStyle};
pub use task_settings::TaskSettings;
