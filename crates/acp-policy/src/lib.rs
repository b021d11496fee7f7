//! One decision engine for everything an agent may be allowed to do.
//!
//! The host, the proxy and the reference agent describe what is about to happen as a [`Request`] and hold their
//! settings as [`Rules`]; [`Rules::decide`] answers with a [`Decision`] that always carries its reason.
//! This crate never asks a person, never touches a file and never starts a process: a verdict of
//! [`Verdict::Ask`] is for the caller to resolve.
//!
//! Read first: [`Rules`], [`Request`], [`ToolPatterns`].
#![deny(clippy::disallowed_methods)]

mod choice;
mod decide;
mod glob;
mod pattern;
mod policy;
mod sets;
pub mod shell;

pub use acp_proto::{PermissionOptionKind, ToolKind};
pub use choice::{Choice, Outcome, choose_option};
pub use decide::{Action, Decision, Request, Rules, Stage, Verdict};
pub use pattern::{PatternError, ToolPattern, ToolPatterns};
pub use policy::{Class, Policy, UnknownPolicy};
