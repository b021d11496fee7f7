mod build;
mod flaw;
mod parse;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Id, Line, scan};
pub use flaw::Flaw;

/// The most elements of a batch that are taken apart; a longer one is [`Flaw::BatchTooLong`].
pub const MAX_BATCH: usize = 1000;

/// One line as JSON-RPC sees it. Parsing never fails: what is wrong is part of the value.
///
/// A frame is its bytes and the places of the envelope's members in them; `params`, `result` and `error` stay
/// raw text. Cloning costs a reference count. The members of a malformed frame can be read as far as they
/// could be found, so that a judge can say more than "bad".
///
/// ```
/// use acp_rpc::{Frame, Id, View};
/// let frame = Frame::parse(r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"deep":[1.50]}}"#);
/// let View::Request { id, method, params } = frame.view() else { panic!("{frame:?}") };
/// assert_eq!((id, method, params), (&Id::Int(7), "ping", Some(r#"{"deep":[1.50]}"#)));
///
/// let noise = Frame::parse("Starting agent...");
/// let View::Malformed(flaw) = noise.view() else { panic!("{noise:?}") };
/// assert_eq!(flaw.to_string(), "not JSON: expected a value at byte 0");
/// ```
#[derive(Clone)]
pub struct Frame {
    raw: Bytes,
    id: Option<Id>,
    method: Name,
    params: Span,
    result: Span,
    error: Span,
    shape: Shape,
    extra: bool,
}

/// What a frame is.
#[derive(Debug, Clone, Copy)]
pub enum View<'a> {
    /// Asks for an answer.
    Request {
        /// The id the answer must carry.
        id: &'a Id,
        /// What is asked.
        method: &'a str,
        /// The raw text of `params`.
        params: Option<&'a str>,
    },
    /// Tells something; no answer.
    Notification {
        /// What is told.
        method: &'a str,
        /// The raw text of `params`.
        params: Option<&'a str>,
    },
    /// Answers a request.
    Response {
        /// The id of the request.
        id: &'a Id,
        /// What came out.
        reply: Reply<'a>,
    },
    /// An array of frames. Batches within it are malformed.
    Batch(&'a [Frame]),
    /// None of these, and why.
    Malformed(&'a Flaw),
}

/// What a response carries, as raw text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The `result` member.
    Result(&'a str),
    /// The `error` member; [`RpcError::parse`](crate::RpcError::parse) reads it.
    Error(&'a str),
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Request,
    Notification,
    Result,
    Error,
    Batch(Arc<[Frame]>),
    Malformed(Arc<Flaw>),
}

/// A frame by its kind alone: what [`View`] says without reading the text of the members.
pub(crate) enum Sort<'a> {
    Request(&'a Id),
    Notification,
    Response(&'a Id),
    Batch(&'a [Frame]),
    Malformed(&'a Flaw),
}

/// Where a member's value lies in the raw bytes; a value is never empty, so an empty span is "not there".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Span {
    start: u32,
    end: u32,
}

/// A method: a place in the raw bytes, or decoded when it has escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Absent,
    Raw(Span),
    Decoded(Arc<str>),
}

impl Frame {
    /// Reads a line without its line ending. A leading byte order mark and white space around are passed over.
    #[must_use]
    pub fn parse(line: impl Into<Bytes>) -> Self {
        parse::frame(line.into())
    }

    /// The bytes, unchanged.
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The bytes as text, when they are UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.raw).ok()
    }

    pub(crate) fn sort(&self) -> Sort<'_> {
        let id = self.id.as_ref().unwrap_or(&Id::Null);
        match &self.shape {
            Shape::Request => Sort::Request(id),
            Shape::Notification => Sort::Notification,
            Shape::Result | Shape::Error => Sort::Response(id),
            Shape::Batch(frames) => Sort::Batch(frames),
            Shape::Malformed(flaw) => Sort::Malformed(flaw),
        }
    }

    /// What the frame is.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        let id = self.id.as_ref().unwrap_or(&Id::Null);
        let method = self.method().unwrap_or_default();
        match &self.shape {
            Shape::Request => View::Request { id, method, params: self.params() },
            Shape::Notification => View::Notification { method, params: self.params() },
            Shape::Result => View::Response { id, reply: Reply::Result(self.result().unwrap_or_default()) },
            Shape::Error => View::Response { id, reply: Reply::Error(self.error().unwrap_or_default()) },
            Shape::Batch(frames) => View::Batch(frames),
            Shape::Malformed(flaw) => View::Malformed(flaw),
        }
    }

    /// What is wrong with the frame, if anything is.
    #[must_use]
    pub fn flaw(&self) -> Option<&Flaw> {
        match &self.shape {
            Shape::Malformed(flaw) => Some(flaw),
            _ => None,
        }
    }

    /// The frame with U+FFFD in place of each half of a surrogate pair, where that is all that is wrong with it: for who
    /// wants to read what a peer has cut within a character.
    #[must_use]
    pub fn mended(&self) -> Option<Self> {
        let Some(Flaw::LoneSurrogate { .. }) = self.flaw() else { return None };
        let mended = Self::parse(scan::whole_characters(&self.raw));
        mended.flaw().is_none().then_some(mended)
    }

    /// The `method`, when there is one and it is a string.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match &self.method {
            Name::Absent => None,
            Name::Raw(span) => self.slice_or_empty(*span),
            Name::Decoded(text) => Some(text),
        }
    }

    /// The `id`, when there is one of a type that ids may have.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    /// The raw text of `params`.
    #[must_use]
    pub fn params(&self) -> Option<&str> {
        self.slice(self.params)
    }

    /// The raw text of `result`.
    #[must_use]
    pub fn result(&self) -> Option<&str> {
        self.slice(self.result)
    }

    /// The raw text of `error`.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.slice(self.error)
    }

    /// The names of the envelope's members that JSON-RPC does not know, in their order. Free when there are none.
    #[must_use]
    pub fn unknown_members(&self) -> Vec<String> {
        if self.extra { parse::unknown_members(&self.raw) } else { Vec::new() }
    }

    fn slice(&self, span: Span) -> Option<&str> {
        if span.start == span.end { None } else { self.slice_or_empty(span) }
    }

    fn slice_or_empty(&self, span: Span) -> Option<&str> {
        std::str::from_utf8(self.raw.get(span.start as usize..span.end as usize)?).ok()
    }

    fn malformed(raw: Bytes, flaw: Flaw) -> Self {
        Self {
            raw,
            id: None,
            method: Name::Absent,
            params: Span::default(),
            result: Span::default(),
            error: Span::default(),
            shape: Shape::Malformed(Arc::new(flaw)),
            extra: false,
        }
    }
}

impl From<Line> for Frame {
    fn from(line: Line) -> Self {
        match line {
            Line::Text(bytes) => Self::parse(bytes),
            Line::NotUtf8(bytes) => {
                let at = std::str::from_utf8(&bytes).err().map_or(0, |e| e.valid_up_to());
                Self::malformed(bytes, Flaw::NotUtf8 { at })
            }
            Line::Oversized { len, head } => Self::malformed(head, Flaw::Oversized { len }),
        }
    }
}

/// Frames are equal when their bytes are.
impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Eq for Frame {}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("Frame");
        match self.text() {
            Some(text) => tuple.field(&text),
            None => tuple.field(&self.raw),
        };
        if let Some(flaw) = self.flaw() {
            tuple.field(flaw);
        }
        tuple.finish()
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.raw))
    }
}
