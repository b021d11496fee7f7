//! Subset patterns over JSON, and `${…}` templates.
//!
//! A [`Pattern`] is a JSON value read as an expectation: objects are subsets, strings are regular expressions, arrays
//! mean "contains". A failed check returns a [`Mismatch`]: what differs, path by path, and how close the value came. A
//! [`Template`] is a string with `${name}` holes, filled from [`Vars`].
//!
//! This crate never knows a protocol: no method name, no message shape, no clock.
//!
//! Read first: [`Pattern`], [`Mismatch`], [`Template`].
//!
//! ```
//! use acp_match::Pattern;
//! use serde_json::json;
//!
//! let pattern = Pattern::compile(&json!({ "result": { "stopReason": "^cancelled$" } })).unwrap();
//! assert!(pattern.check(&json!({ "id": 2, "result": { "stopReason": "cancelled" } })).is_ok());
//! let mismatch = pattern.check(&json!({ "id": 2, "result": { "stopReason": "end_turn" } })).unwrap_err();
//! assert_eq!(mismatch.to_string(), "result.stopReason: expected to match ^cancelled$, found \"end_turn\"");
//! ```
#![deny(clippy::disallowed_methods)]

mod mismatch;
mod path;
mod pattern;
mod template;
mod text;

pub use mismatch::{Difference, Mismatch};
pub use path::{Path, PathError};
pub use pattern::{CompileError, Pattern, PatternError};
pub use template::{Fill, Interpolated, Template, TemplateError, UnknownVariable, Vars, interpolate_text};
pub use text::first_group;
