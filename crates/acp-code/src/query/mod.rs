//! Structural queries: what the `ast-grep` command of the same version finds.
//!
//! A query looks for its literals first and parses only files that have them. Only named leaves and the pattern's
//! longest token count as literals, so that no match of `ast-grep` is lost.

mod matches;
mod pattern;
mod run;

pub(crate) use run::run;

use serde::{Deserialize, Serialize};

/// What to look for. Field names, defaults and meaning are the `query` tool's input schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryRequest {
    /// Code with holes: `$NAME` for one node, `$$$NAME` for any number.
    pub pattern: String,
    /// A file or folder inside the root; the whole root without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The pattern's language; without it, each file's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The most results; [`usize::MAX`] for all.
    #[serde(default = "crate::number::ten", deserialize_with = "crate::number::positive")]
    pub max_results: usize,
    /// Whether test code may be among the results.
    #[serde(default = "crate::number::yes")]
    pub allow_tests: bool,
}

impl QueryRequest {
    /// A query over every language with the defaults of the schema.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self { pattern: pattern.into(), max_results: 10, allow_tests: true, ..Self::default() }
    }
}

/// The matches in the order of their files and positions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryResults {
    /// The first [`QueryRequest::max_results`] matches.
    pub results: Vec<QueryMatch>,
    /// How many there are in all.
    pub total: usize,
    /// The deadline passed: there may be matches that were not seen.
    pub truncated: bool,
    /// What the reader should know: hidden, unreadable or skipped files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// One place where the pattern holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryMatch {
    /// Path below the root, with `/`.
    pub file: String,
    /// First and last line, counted from 1.
    pub lines: [usize; 2],
    /// The matched text.
    pub code: String,
    /// The language it was read as.
    pub language: String,
    /// First column in characters, counted from 1.
    pub column: usize,
    /// Where the match begins and ends, in bytes from the file's start.
    pub bytes: [usize; 2],
    /// What stood in the pattern's named holes, in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<QueryCapture>,
}

/// What stood in one named hole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueryCapture {
    /// The name without its dollar signs.
    pub name: String,
    /// The text; of a `$$$` hole, one per node.
    pub text: Vec<String>,
}
