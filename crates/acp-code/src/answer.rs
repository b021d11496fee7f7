//! What a tool found, for whoever wants it as text or as data.

use serde_json::Value;

use crate::{ResultFormat, extract, list, query, render, search};

/// The results of one call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum CodeAnswer {
    /// Of `search`.
    Search(search::SearchResults),
    /// Of `query`.
    Query(query::QueryResults),
    /// Of `extract`, and the form in which it was asked for.
    Extract(extract::ExtractResults, ResultFormat),
    /// Of `list_files` and `glob`.
    List(list::ListResults),
}

impl CodeAnswer {
    /// The text for a model: plain, and for `extract` the form that it was asked for in.
    pub fn text(&self) -> String {
        match self {
            Self::Search(results) => render::search(results, ResultFormat::Plain),
            Self::Query(results) => render::query(results, ResultFormat::Plain),
            Self::Extract(results, format) => render::extract(results, *format),
            Self::List(results) => render::list(results),
        }
    }

    /// Whether nothing of what was asked for is there: an `extract` that gave errors only.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Extract(found, _) if found.failed > 0 && found.failed == found.results.len())
    }

    /// Whether it is a failure because nobody may look there.
    pub fn is_denied(&self) -> bool {
        self.is_failure() && matches!(self, Self::Extract(found, _) if found.denied == found.failed)
    }

    /// The results as data, the same that the JSON form writes.
    pub fn json(&self) -> Value {
        let value = match self {
            Self::Search(results) => serde_json::to_value(results),
            Self::Query(results) => serde_json::to_value(results),
            Self::Extract(results, _) => serde_json::to_value(results),
            Self::List(results) => serde_json::to_value(results),
        };
        value.unwrap_or_default()
    }
}
