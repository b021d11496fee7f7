use serde::{Deserialize, Serialize};

/// The `error` member of a response, decoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The number that says which kind of error it is.
    pub code: i64,
    /// One sentence for people.
    pub message: String,
    /// Anything else the sender wanted to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl RpcError {
    /// The line was not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// JSON, but not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Nobody answers to this method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The method exists, its params are wrong.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The side that answers failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The request was cancelled.
    pub const CANCELLED: i64 = -32800;

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
        Self::new(Self::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// `-32602`.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// `-32603`.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Self::INTERNAL_ERROR, message)
    }

    /// Reads the raw text of an `error` member.
    ///
    /// # Errors
    /// When the text is not an object with an integer `code` and a string `message`.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}
