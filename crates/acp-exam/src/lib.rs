//! Examines clients: starts them as their drivers say, plays the agent that they start, and witnesses what they do.
//!
//! An [`Exam`] runs tests with `"side": "client"` against a [`ClientUnderTest`]. The interpreter of `acp-comply` decides
//! what to say, press and look at; here are the processes, terminals, sockets and clocks for it. It holds no verdict logic
//! and renders nothing.
//!
//! Read first: [`Exam`], [`ClientDriver`], [`stub`].

pub mod chat;
pub mod client;
pub mod driver;
mod driving;
pub mod exam;
mod exam_run;
mod http;
mod launches;
mod place;
mod process;
mod self_check;
pub mod stub;
pub mod terminal;
mod wire;
mod words;

pub use chat::{ChatExam, ChatExamSettings};
pub use client::ClientUnderTest;
pub use driver::{ClientDriver, DriverCatalogue, DriverError};
pub use exam::{Exam, ExamConditions};
