//! Agents by name: profiles (how a real agent is installed, started offline and driven), editors'
//! `agent_servers` settings and the public agent registry, parsed and resolved.
//!
//! Nothing is started, installed or read from disk here: texts come in, plain values go out.
//!
//! Read first: [`Profile`] (the data), [`Launch`] (a profile with its `${…}` filled in), [`Catalogue`] (all
//! built-in profiles, or those of a settings file or registry).

#![deny(clippy::disallowed_methods)]

mod catalogue;
mod jsonc;
mod launch;
mod profile;
mod registry;
mod settings;

pub use catalogue::{Catalogue, expected};
pub use jsonc::strip_comments;
pub use launch::{HomeFile, Launch, ResolveError, VARIABLES};
pub use profile::{Package, Profile, ProfileError, ProfileModel, ProfileSource, ToolHint, WireFormat};
pub use registry::parse_registry;
pub use settings::parse_settings;
