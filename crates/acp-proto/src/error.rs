use std::fmt;

/// The error codes as constants, to match a response's `code` against.
pub mod error_code {
    /// The line was not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// JSON, but not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The method exists, its params are wrong.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The side that answers failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The request was cancelled.
    pub const REQUEST_CANCELLED: i64 = -32800;
    /// The client has to log in first.
    pub const AUTH_REQUIRED: i64 = -32000;
    /// There is no such session, file or other resource.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The agent speaks no version that the client asked for.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

/// What the `code` of an error says. A code of no meaning in the protocol is kept as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The line was not JSON.
    ParseError,
    /// JSON, but not a request.
    InvalidRequest,
    /// There is no such method.
    MethodNotFound,
    /// The method exists, its params are wrong.
    InvalidParams,
    /// The side that answers failed.
    InternalError,
    /// The request was cancelled.
    RequestCancelled,
    /// The client has to log in first.
    AuthRequired,
    /// There is no such session, file or other resource.
    ResourceNotFound,
    /// The agent speaks no version that the client asked for (version 2 of the protocol).
    UnsupportedVersion,
    /// A code of the sender's own.
    Other(i64),
}

impl ErrorCode {
    /// The codes of the protocol.
    pub const ALL: [Self; 9] = [
        Self::ParseError,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::InternalError,
        Self::RequestCancelled,
        Self::AuthRequired,
        Self::ResourceNotFound,
        Self::UnsupportedVersion,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> i64 {
        match self {
            Self::ParseError => error_code::PARSE_ERROR,
            Self::InvalidRequest => error_code::INVALID_REQUEST,
            Self::MethodNotFound => error_code::METHOD_NOT_FOUND,
            Self::InvalidParams => error_code::INVALID_PARAMS,
            Self::InternalError => error_code::INTERNAL_ERROR,
            Self::RequestCancelled => error_code::REQUEST_CANCELLED,
            Self::AuthRequired => error_code::AUTH_REQUIRED,
            Self::ResourceNotFound => error_code::RESOURCE_NOT_FOUND,
            Self::UnsupportedVersion => error_code::UNSUPPORTED_VERSION,
            Self::Other(number) => number,
        }
    }
}

impl From<i64> for ErrorCode {
    fn from(number: i64) -> Self {
        Self::ALL.into_iter().find(|code| code.number() == number).unwrap_or(Self::Other(number))
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}
