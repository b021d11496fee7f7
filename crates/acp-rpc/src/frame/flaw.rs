use acp_proto::error_code;

/// Why a line is not a good frame.
///
/// When several things are wrong, the one that comes first in this list is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Flaw {
    /// The line was longer than the limit; only its beginning was kept.
    #[error("the line is {len} bytes long, which is over the limit")]
    Oversized {
        /// The length of the whole line.
        len: u64,
    },
    /// The bytes are not UTF-8.
    #[error("not UTF-8: bad byte at {at}")]
    NotUtf8 {
        /// The first byte that is wrong.
        at: usize,
    },
    /// Nothing but white space.
    #[error("an empty line")]
    Blank,
    /// The text does not follow the JSON grammar.
    #[error("not JSON: expected {expected} at byte {at}")]
    NotJson {
        /// Where it went wrong.
        at: usize,
        /// What could have stood there.
        expected: &'static str,
    },
    /// Arrays and objects nest deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("nested deeper than {} levels at byte {at}", crate::MAX_DEPTH)]
    TooDeep {
        /// The bracket that was one too many.
        at: usize,
    },
    /// JSON, but a string, a number or the like.
    #[error("not a JSON object")]
    NotAnObject,
    /// `[]`.
    #[error("an empty batch")]
    EmptyBatch,
    /// A batch of more than [`MAX_BATCH`](crate::MAX_BATCH) elements.
    #[error("a batch of {len} elements, more than {}", crate::MAX_BATCH)]
    BatchTooLong {
        /// How many there are.
        len: usize,
    },
    /// The same envelope member twice.
    #[error("the member {0:?} is there twice")]
    DuplicateMember(&'static str),
    /// The `id` is a boolean, an array or an object.
    #[error("the id is neither a number, a string nor null")]
    BadIdType,
    /// The `method` is not a string.
    #[error("the method is not a string")]
    BadMethodType,
    /// The `params` are a string, a number or a boolean.
    #[error("the params are neither an object nor an array")]
    BadParamsType,
    /// The `error` is not an object.
    #[error("the error is not an object")]
    BadErrorType,
    /// A request and a response at once.
    #[error("a method together with a result or an error")]
    BothMethodAndReply,
    /// A response with both.
    #[error("both a result and an error")]
    BothResultAndError,
    /// An id alone.
    #[error("neither a method, a result nor an error")]
    NeitherResultNorError,
    /// A result or an error that belongs to no request.
    #[error("a response without an id")]
    MissingId,
    /// An object with none of the members of a message.
    #[error("not a message: no method, no id, no result, no error")]
    NotAMessage,
    /// No `jsonrpc` member.
    #[error("the member \"jsonrpc\" is missing: it must be \"2.0\"")]
    MissingVersion,
    /// `jsonrpc` is something else.
    #[error("\"jsonrpc\" is {0} instead of \"2.0\"")]
    WrongVersion(Box<str>),
    /// A string has half of a surrogate pair (`"\ud83d"`): grammatical, but no text.
    #[error("half a surrogate pair at byte {at}: a character was cut in two")]
    LoneSurrogate {
        /// The backslash of the escape.
        at: usize,
    },
    /// One of our own values could not be written as JSON.
    #[error("cannot be written as JSON: {0}")]
    NotSerializable(Box<str>),
}

impl Flaw {
    /// A short name that does not change: `not-json`, `bad-id-type`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Oversized { .. } => "oversized",
            Self::NotUtf8 { .. } => "not-utf8",
            Self::Blank => "blank",
            Self::NotJson { .. } => "not-json",
            Self::TooDeep { .. } => "too-deep",
            Self::NotAnObject => "not-an-object",
            Self::EmptyBatch => "empty-batch",
            Self::BatchTooLong { .. } => "batch-too-long",
            Self::DuplicateMember(_) => "duplicate-member",
            Self::BadIdType => "bad-id-type",
            Self::BadMethodType => "bad-method-type",
            Self::BadParamsType => "bad-params-type",
            Self::BadErrorType => "bad-error-type",
            Self::BothMethodAndReply => "both-method-and-reply",
            Self::BothResultAndError => "both-result-and-error",
            Self::NeitherResultNorError => "neither-result-nor-error",
            Self::MissingId => "missing-id",
            Self::NotAMessage => "not-a-message",
            Self::MissingVersion => "missing-version",
            Self::WrongVersion(_) => "wrong-version",
            Self::LoneSurrogate { .. } => "lone-surrogate",
            Self::NotSerializable(_) => "not-serializable",
        }
    }

    /// The JSON-RPC error code for it: parse error or invalid request.
    #[must_use]
    pub fn code(&self) -> i64 {
        match self {
            Self::Oversized { .. }
            | Self::NotUtf8 { .. }
            | Self::Blank
            | Self::NotJson { .. }
            | Self::TooDeep { .. }
            | Self::LoneSurrogate { .. } => error_code::PARSE_ERROR,
            _ => error_code::INVALID_REQUEST,
        }
    }
}
