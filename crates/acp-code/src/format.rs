//! The three forms of output.

use serde::{Deserialize, Serialize};

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultFormat {
    /// For a terminal or a model's context.
    #[default]
    Plain,
    /// Headings and fenced code.
    Markdown,
    /// The results as they are serialised.
    Json,
}
