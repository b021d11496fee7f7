//! Whole blocks out of files.
//!
//! It knows more names than an outline has blocks: members, values and entries of groups are looked for only where a
//! name is asked for, so that lines and search results keep their blocks.

mod anywhere;
mod cuts;
mod mentions;
mod run;
mod spec;

pub use cuts::locate;
pub use mentions::mentioned;
pub(crate) use run::run;

use serde::{Deserialize, Serialize};

use crate::ResultFormat;

/// What to take. Field names, defaults and meaning are the `extract` tool's input schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtractRequest {
    /// `file`, `file:10`, `file:10-20`, `file#Symbol` or `file#Type.method`, relative to the root; `#Symbol` in any file.
    pub files: Vec<String>,
    /// This many lines more on both sides.
    #[serde(default, deserialize_with = "crate::number::count")]
    pub context_lines: usize,
    /// Whether test code may be taken.
    #[serde(default = "crate::number::yes")]
    pub allow_tests: bool,
    /// How the tool writes its answer.
    #[serde(default)]
    pub format: ResultFormat,
}

impl ExtractRequest {
    /// These pieces with the defaults of the schema.
    pub fn new<T: Into<String>>(files: impl IntoIterator<Item = T>) -> Self {
        Self { files: files.into_iter().map(Into::into).collect(), allow_tests: true, ..Self::default() }
    }
}

/// One piece for each thing that was asked for, in that order; a symbol that stands in several places gives several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtractResults {
    /// The pieces.
    pub results: Vec<ExtractedPiece>,
    /// How many of them are errors.
    pub failed: usize,
    /// How many of these errors are there because nobody may look there: outside of the root, or hidden.
    #[serde(skip)]
    pub denied: usize,
    /// The deadline passed: the last pieces are missing, or end too soon.
    pub truncated: bool,
    /// What the reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// A piece of a file, or why there is none: exactly one of [`ExtractedPiece::code`] and [`ExtractedPiece::error`] is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExtractedPiece {
    /// What was asked for.
    pub request: String,
    /// Path below the root, with `/`; as it was given when there is no such file.
    pub file: String,
    /// First and last line, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<[usize; 2]>,
    /// The text of these lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// `function`, `type`, `file`, `lines`…
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The declared name, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The language, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Why there is no code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
