//! The rules, one file per area. Each function says what it looks for; the table in [`crate::rule`] says which
//! requirement it serves.

pub(crate) mod codes;
pub(crate) mod config;
pub(crate) mod content;
pub(crate) mod elicitation;
pub(crate) mod end;
pub(crate) mod envelope;
pub(crate) mod extension;
pub(crate) mod files;
pub(crate) mod handshake;
pub(crate) mod ids;
pub(crate) mod listing;
pub(crate) mod load;
pub(crate) mod modes;
pub(crate) mod paths;
pub(crate) mod permissions;
pub(crate) mod plans;
pub(crate) mod replay;
pub(crate) mod schema;
pub(crate) mod sessions;
pub(crate) mod terminals;
pub(crate) mod tools;
pub(crate) mod turns;
pub(crate) mod updates;
