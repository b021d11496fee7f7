use crate::{Flaw, Id};

/// A rule of JSON-RPC that the other side broke.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Violation {
    /// The line is not a good frame.
    #[error("malformed: {0}")]
    Malformed(Flaw),
    /// A response whose id was never used, or so long ago that it is forgotten.
    #[error("a response with the id {id}, which no request has")]
    UnknownResponse {
        /// The response's id.
        id: Id,
    },
    /// A second response to the same request.
    #[error("a second response with the id {id}")]
    DuplicateResponse {
        /// The response's id.
        id: Id,
    },
    /// A response after its deadline.
    #[error("the response with the id {id} came after its deadline")]
    LateResponse {
        /// The response's id.
        id: Id,
    },
    /// A response whose id has another JSON type or spelling than the request's. The request stays open.
    #[error("the request has the id {sent}, its response has the id {got}: an id must come back unchanged")]
    IdTypeChanged {
        /// The request's id.
        sent: Id,
        /// The response's id.
        got: Id,
    },
    /// A response with the id `null`: they could not read something of ours.
    #[error("a response with the id null, which belongs to no request")]
    NullIdResponse,
    /// A request under an id that still waits for our answer. It is not tracked.
    #[error("a request with the id {id}, which is still unanswered")]
    IdInUse {
        /// The request's id.
        id: Id,
    },
    /// More open requests than we keep. It is not tracked.
    #[error("more than {limit} requests are unanswered")]
    TooManyRequests {
        /// How many we keep.
        limit: usize,
    },
    /// An id that is too long to be remembered.
    #[error("an id of {len} bytes is too long")]
    IdTooLong {
        /// Its length.
        len: usize,
    },
    /// A `$/cancel_request` without a usable `requestId`.
    #[error("a cancellation without a requestId")]
    BadCancel,
}

impl Violation {
    /// A short name that does not change: `duplicate-response`. A malformed line has its flaw's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Malformed(flaw) => flaw.name(),
            Self::UnknownResponse { .. } => "unknown-response",
            Self::DuplicateResponse { .. } => "duplicate-response",
            Self::LateResponse { .. } => "late-response",
            Self::IdTypeChanged { .. } => "id-type-changed",
            Self::NullIdResponse => "null-id-response",
            Self::IdInUse { .. } => "id-in-use",
            Self::TooManyRequests { .. } => "too-many-requests",
            Self::IdTooLong { .. } => "id-too-long",
            Self::BadCancel => "bad-cancel",
        }
    }
}
