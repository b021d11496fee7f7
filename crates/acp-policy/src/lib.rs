//! One decision engine for everything an agent may be allowed to do.
//!
//! The host, the proxy and the reference agent describe what is about to happen as a [`PolicyRequest`] and hold their
//! settings as [`PolicyRules`]; [`PolicyRules::decide`] answers with a [`PolicyDecision`] that always carries its reason.
//! This crate never asks a person, never touches a file and never starts a process: a verdict of
//! [`PolicyVerdict::Ask`] is for the caller to resolve.
//!
//! Read first: [`PolicyRules`], [`PolicyRequest`], [`ToolPatterns`].
#![deny(clippy::disallowed_methods)]

mod choice;
mod decide;
mod glob;
mod pattern;
mod policy;
mod sets;
pub mod shell;

pub use acp_proto::{PermissionOptionKind, ToolKind};
pub use choice::{PermissionOption, PermissionOutcome, choose_option};
pub use decide::{PolicyDecision, PolicyRequest, PolicyRules, PolicyVerdict, ToolAction, ToolStage};
pub use pattern::{ToolPattern, ToolPatternError, ToolPatterns};
pub use policy::{OperationClass, Policy, UnknownPolicy};
