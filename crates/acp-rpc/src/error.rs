use acp_proto::error_code;
use serde::{Deserialize, Serialize};

/// The `error` member of a response, decoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Which kind of error it is; the protocol's own are in [`error_code`].
    pub code: i64,
    /// One sentence for people.
    pub message: String,
    /// Anything else the sender wanted to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with data.
    #[must_use]
    pub fn with_data(mut self, data: serde_json::Value) -> Self {
        self.data = Some(data);
        self
    }

    /// `-32601`, naming the method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(error_code::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// `-32602`.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(error_code::INVALID_PARAMS, message)
    }

    /// `-32603`.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(error_code::INTERNAL_ERROR, message)
    }

    /// Reads the raw text of an `error` member.
    ///
    /// # Errors
    /// When the text is not an object with an integer `code` and a string `message`.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}
