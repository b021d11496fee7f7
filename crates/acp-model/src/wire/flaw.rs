//! What can be wrong with a message.

/// What of a message is not what its wire format wants.
#[derive(Debug, thiserror::Error)]
pub enum WireFlaw {
    /// The message itself.
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// A member that must be a list.
    #[error("{0:?} is not a list")]
    NotAList(&'static str),
    /// A member that must be a text.
    #[error("{0:?} is not a text")]
    NotAText(String),
    /// A member that may be a text or a list.
    #[error("{0:?} is neither a text nor a list")]
    NeitherTextNorList(&'static str),
    /// An answer without any answer in it.
    #[error("there is no {0}")]
    Missing(&'static str),
    /// A piece of a streamed answer.
    #[error("{piece} is not JSON: {error}")]
    NotJson {
        /// What it is called.
        piece: &'static str,
        /// What the reader says.
        error: serde_json::Error,
    },
    /// Arguments of a call that has not begun.
    #[error("arguments outside {0}")]
    StrayArguments(&'static str),
}
