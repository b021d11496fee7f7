//! Ranked and literal search.

use serde::{Deserialize, Serialize};

/// What to look for. Field names, defaults and meaning are the `search` tool's input schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Words, `AND`/`OR`/`NOT`, `+`/`-`, `"phrases"`, parentheses, `file:` `ext:` `dir:` `lang:`. With
    /// [`Request::exact`], one literal.
    pub query: String,
    /// A file or folder inside the root; the whole root without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The most results on one page.
    #[serde(default = "crate::number::ten", deserialize_with = "crate::number::positive")]
    pub max_results: usize,
    /// Whether test code may be among the results.
    #[serde(default = "crate::number::yes")]
    pub allow_tests: bool,
    /// Take the query as one literal, case and all, and report the lines that have it.
    #[serde(default)]
    pub exact: bool,
    /// Keep the whole ranking under this name, for [`Request::next_page`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The page after the last one that this session saw. Needs [`Request::session`].
    #[serde(default, rename = "nextPage")]
    pub next_page: bool,
}

impl Request {
    /// A ranked search with the defaults of the schema.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), max_results: 10, allow_tests: true, ..Self::default() }
    }
}

/// One page of hits, best first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// The hits of this page.
    pub results: Vec<Hit>,
    /// How many hits there are on all pages together.
    pub total: usize,
    /// This page's number, from 1.
    pub page: usize,
    /// Whether `nextPage` would find more.
    pub more: bool,
    /// The deadline passed: there may be hits that were not seen.
    pub truncated: bool,
    /// What the reader should know: hidden, unreadable or skipped files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// A block of code that answers the query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Path below the root, with `/`.
    pub file: String,
    /// First and last line, counted from 1.
    pub lines: [usize; 2],
    /// The text of these lines.
    pub code: String,
    /// Higher is better; the same in every run.
    pub score: f64,
    /// `function`, `type`, `impl`, `section`… or `lines` where there is no syntax to go by.
    pub kind: String,
    /// The declared name, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The language, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The lines inside [`Hit::lines`] that hold what was looked for.
    pub matched: Vec<usize>,
}
