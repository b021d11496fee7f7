//! What can be wrong with an action of a script.

/// Why an action cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ActionError {
    /// Something has the wrong kind.
    #[error("{what} must be {kind}")]
    WrongKind { what: String, kind: &'static str },
    #[error("{0:?} is missing")]
    Missing(String),
    #[error("a call needs an \"intent\" or a \"tool\"")]
    NeitherIntentNorTool,
    #[error("there is no intent {0:?}; use read, write, edit, append, run, plan, search, ask or mcp")]
    UnknownIntent(String),
    #[error("there is no action {name:?}; use {}", .known.join(", "))]
    UnknownAction { name: String, known: &'static [&'static str] },
    #[error("\"stop\" must be \"end\", \"length\" or \"refusal\"")]
    UnknownStop,
    #[error("\"error\" needs a \"status\" from 400 to 599")]
    NoStatus,
    /// A `${…}` that cannot be filled, and where.
    #[error("at {at:?}: {error}")]
    Template { at: String, error: acp_match::TemplateError },
}

impl ActionError {
    pub(crate) fn must_be(what: &str, kind: &'static str) -> Self {
        Self::WrongKind { what: what.to_owned(), kind }
    }

    /// A member of the action must be something else than it is.
    pub(crate) fn member(name: &str, kind: &'static str) -> Self {
        Self::WrongKind { what: format!("{name:?}"), kind }
    }
}
