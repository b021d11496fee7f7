//! What the interpreter must know of a protocol, as data.
//!
//! The interpreter sends a few requests of its own (its introduction, a new session) and reads a few values from the
//! answers. Their names stand in a JSON table, so no line of code names a protocol method.

use acp_match::{Path, PathError, Template, TemplateError, Vars};
use acp_rules::ClaimId;
use include_dir::{Dir, include_dir};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// The tables of the dialects, by their names.
static DIALECTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/dialects");

/// The protocol's words.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// The runner's introduction.
    pub introduction: OwnRequest,
    /// The runner's request for a session.
    pub session: OwnRequest,
    /// The runner's request to log in.
    pub authentication: OwnRequest,
    /// Path of the version in the answer to the introduction.
    pub protocol_version: String,
    /// Path of the capabilities in the answer to the introduction.
    pub agent_capabilities: String,
    /// Path of name and version in the answer to the introduction.
    pub agent_info: String,
    /// Path of the ways to log in, in the answer to the introduction.
    pub auth_methods: String,
    /// Path of the session's id in the answer to the session request.
    pub session_id: String,
    /// Path of the list of modes in the answer to the session request.
    pub modes: String,
    /// Path of the list of commands in a notification.
    pub commands: String,
    /// Path of the client's capabilities in an introduction that a test sends.
    pub offered: String,
    /// Path of the client's capabilities in the params of its introduction.
    #[serde(default)]
    pub stated: String,
    /// Methods that open a session.
    #[serde(default)]
    pub opens: Vec<Opens>,
    /// Methods that cancel what runs.
    pub cancels: Vec<Cancel>,
    /// Notifications that ask the client something, which it answers by one of its own.
    #[serde(default)]
    pub asks: Vec<String>,
    /// The error code of an agent that wants a login first.
    pub auth_required: i64,
    /// The version that the runner introduces itself with, where it is not the number of the protocol version.
    #[serde(default)]
    pub version: Option<Value>,
    /// The requirements that are broken in every test with claims when something goes wrong that no step is about.
    #[serde(default)]
    pub broken_by: BrokenBy,
    /// Notifications that bring a text in pieces.
    #[serde(default)]
    pub pieces: Option<Pieces>,
    /// Methods that an agent may refuse until there was a login; when none are listed, any.
    #[serde(default)]
    pub needs_login: Vec<String>,
}

/// A notification that brings one piece of a text.
#[derive(Debug, Clone, Deserialize)]
pub struct Pieces {
    /// The method.
    pub method: String,
    /// Path of the piece.
    pub text: String,
    /// Paths of what tells one text from another.
    pub of: Vec<String>,
}

/// Requirements, or clauses of them, that certain faults break wherever they happen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokenBy {
    /// A request that is never answered.
    pub unanswered: Option<ClaimId>,
    /// An agent that ends, or closes its output, unasked.
    pub died: Option<ClaimId>,
    /// A login that is asked for by an agent that offers no way to log in.
    pub login_without_methods: Option<ClaimId>,
    /// An agent that does not have the method that opens sessions. Other claims are out of reach of tests that open one.
    pub without_sessions: Option<ClaimId>,
}

/// A request that the runner makes by itself: a method and params with `${…}` leaves.
#[derive(Debug, Clone, Deserialize)]
pub struct OwnRequest {
    /// The method.
    pub method: String,
    /// The params, a template.
    #[serde(default)]
    pub params: Value,
}

/// A method that opens a session, and where its id stands: in the request or in the answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Opens {
    /// The method.
    pub method: String,
    /// Path of the session's id in the request.
    #[serde(default)]
    pub request: Option<String>,
    /// Path of the session's id in the answer.
    #[serde(default)]
    pub answer: Option<String>,
}

impl Opens {
    fn paths(&self) -> impl Iterator<Item = &String> {
        self.request.iter().chain(&self.answer)
    }
}

/// A method that cancels, and where it names the session.
#[derive(Debug, Clone, Deserialize)]
pub struct Cancel {
    /// The method.
    pub method: String,
    /// Path of the session's id in the frame.
    pub session: String,
}

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Not the JSON that a table is.
    #[error("cannot read the protocol table: {0}")]
    Json(#[from] serde_json::Error),
    /// A bad path in it.
    #[error("cannot read the protocol table: {0}")]
    Path(#[from] PathError),
}

impl Table {
    /// The table of protocol version 1, which is part of this crate.
    pub fn v1() -> Arc<Table> {
        static V1: std::sync::LazyLock<Arc<Table>> = std::sync::LazyLock::new(|| {
            let table = Table::parse(include_str!("../data/v1.json"));
            Arc::new(
                table
                    .unwrap_or_else(|error| unreachable!("the built-in table is checked by a test: {error}")),
            )
        });
        Arc::clone(&V1)
    }

    /// The table of a dialect by its name; `None` when there is none. The dialects' own words, for tests that are
    /// written in them.
    pub fn of_dialect(name: &str) -> Option<Arc<Table>> {
        if name == "v1" {
            return Some(Table::v1());
        }
        let file = DIALECTS.get_file(format!("{name}.json"))?;
        Table::parse(file.contents_utf8()?).ok().map(Arc::new)
    }

    /// Reads a table and checks its paths.
    pub fn parse(text: &str) -> Result<Table, TableError> {
        let table: Table = serde_json::from_str(text)?;
        let paths = [
            &table.protocol_version,
            &table.agent_capabilities,
            &table.agent_info,
            &table.auth_methods,
            &table.session_id,
            &table.modes,
            &table.commands,
            &table.offered,
        ];
        let sessions = table.cancels.iter().map(|cancel| &cancel.session);
        let sessions = sessions.chain(table.opens.iter().flat_map(Opens::paths));
        for path in paths.into_iter().chain(sessions) {
            Path::parse(path)?;
        }
        Ok(table)
    }
}

impl OwnRequest {
    /// The params with their leaves filled.
    pub(crate) fn render(&self, vars: &Vars) -> Result<Value, TemplateError> {
        let mut params = self.params.clone();
        Template::render_value(&mut params, vars).map_err(|(_, error)| error)?;
        Ok(params)
    }
}

/// The value at a path of the table; `None` when there is nothing.
pub(crate) fn find<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    Path::parse(path).ok().and_then(|path| path.find(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_rules::Grade;

    #[test]
    fn the_built_in_table_can_be_read() {
        let table = Table::parse(include_str!("../data/v1.json")).unwrap();
        let faults = table.broken_by;
        for claim in [faults.unanswered, faults.died, faults.login_without_methods, faults.without_sessions] {
            assert_eq!(claim.unwrap().grade(), Grade::Fail);
        }
    }

    #[test]
    fn every_table_can_be_read() {
        let names = DIALECTS.files().filter_map(|file| file.path().file_stem()?.to_str());
        for name in names.chain(["v1"]) {
            assert!(Table::of_dialect(name).is_some(), "{name}");
        }
        assert!(Table::of_dialect("klingon").is_none());
    }
}
