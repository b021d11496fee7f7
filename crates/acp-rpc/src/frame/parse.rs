//! From bytes to a frame: one pass, no copy.

use std::sync::Arc;

use bytes::Bytes;

use super::{Flaw, Frame, MAX_BATCH, Name, Shape, Span};
use crate::Id;
use crate::scan::{self, MAX_DEPTH, Quoted, Scanner, Stop};

const BOM: &str = "\u{feff}";
const VERSION: &str = "\"2.0\"";

/// The members found so far, and the first flaw of each kind that only the end can rank.
#[derive(Default)]
struct Envelope {
    version: Span,
    id: Span,
    method: Span,
    params: Span,
    result: Span,
    error: Span,
    duplicate: Option<&'static str>,
    extra: bool,
}

pub(super) fn frame(raw: Bytes) -> Frame {
    match read(&raw) {
        Ok(Read::Object(Parts { id, method, envelope, shape })) => {
            let Envelope { params, result, error, extra, .. } = envelope;
            Frame { raw, id, method, params, result, error, shape, extra }
        }
        Ok(Read::Array(_, 0)) => Frame::malformed(raw, Flaw::EmptyBatch),
        Ok(Read::Array(elements, 1..=MAX_BATCH)) => batch(raw, &elements),
        Ok(Read::Array(_, len)) => Frame::malformed(raw, Flaw::BatchTooLong { len }),
        Ok(Read::Scalar) => Frame::malformed(raw, Flaw::NotAnObject),
        Err(flaw) => Frame::malformed(raw, flaw),
    }
}

pub(super) fn unknown_members(raw: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(text) = std::str::from_utf8(raw) else { return found };
    let text = text.strip_prefix(BOM).unwrap_or(text);
    let mut scanner = Scanner::new(text.as_bytes());
    scanner.skip_space();
    // A line that stops half way has no envelope, and then nobody asks.
    let _ = scanner.object(|scanner, key| {
        if known(text, key).is_none() {
            found.push(name(text, key));
        }
        scanner.value().map(drop)
    });
    found
}

/// An object's envelope, decoded as far as it goes.
struct Parts {
    id: Option<Id>,
    method: Name,
    envelope: Envelope,
    shape: Shape,
}

enum Read {
    Object(Parts),
    /// The first elements, and how many there are.
    Array(Vec<(usize, usize)>, usize),
    Scalar,
}

fn read(raw: &[u8]) -> Result<Read, Flaw> {
    let text = std::str::from_utf8(raw).map_err(|e| Flaw::NotUtf8 { at: e.valid_up_to() })?;
    if u32::try_from(text.len()).is_err() {
        return Err(Flaw::Oversized { len: text.len() as u64 });
    }
    let mut scanner = Scanner::new(text.as_bytes());
    if text.starts_with(BOM) {
        scanner.pass(BOM.len());
    }
    scanner.skip_space();
    let read = match scanner.peek() {
        None => return Err(Flaw::Blank),
        Some(b'{') => {
            let mut envelope = Envelope::default();
            scanner.object(|scanner, key| envelope.take(text, scanner, key))?;
            Read::Object(classify(text, envelope, scanner.lone_surrogate))
        }
        Some(b'[') => elements(&mut scanner)?,
        Some(_) => {
            scanner.value()?;
            Read::Scalar
        }
    };
    if scanner.at_end() { Ok(read) } else { Err(scanner.unexpected("the end of the line").into()) }
}

fn elements(scanner: &mut Scanner<'_>) -> Result<Read, Stop> {
    let mut first = Vec::new();
    let mut count = 0;
    scanner.array(|scanner| {
        let span = scanner.value_within(MAX_DEPTH - 1)?;
        count += 1;
        if count <= MAX_BATCH {
            first.push(span);
        }
        Ok(())
    })?;
    Ok(Read::Array(first, count))
}

impl Envelope {
    #[inline]
    fn take(&mut self, text: &str, scanner: &mut Scanner<'_>, key: Quoted) -> Result<(), Stop> {
        let (start, end) = scanner.value_within(MAX_DEPTH - 1)?;
        let Some(member) = known(text, key) else {
            self.extra = true;
            return Ok(());
        };
        let slot = match member {
            "jsonrpc" => &mut self.version,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            _ => &mut self.error,
        };
        if slot.end != 0 {
            self.duplicate.get_or_insert(member);
        }
        *slot = Span::new(start, end);
        Ok(())
    }

    fn shape(&self, text: &str, id: Option<&Id>) -> Result<Shape, Flaw> {
        let first = |span: Span| text.as_bytes().get(span.start as usize).copied();
        if let Some(member) = self.duplicate {
            return Err(Flaw::DuplicateMember(member));
        }
        if self.id.is_some() && id.is_none() && first(self.id) != Some(b'"') {
            return Err(Flaw::BadIdType);
        }
        if self.method.is_some() {
            return self.call(first(self.method), first(self.params));
        }
        self.reply(first(self.error))
    }

    fn call(&self, method: Option<u8>, params: Option<u8>) -> Result<Shape, Flaw> {
        if method != Some(b'"') {
            return Err(Flaw::BadMethodType);
        }
        if self.params.is_some() && !matches!(params, Some(b'{' | b'[' | b'n')) {
            return Err(Flaw::BadParamsType);
        }
        if self.result.is_some() || self.error.is_some() {
            return Err(Flaw::BothMethodAndReply);
        }
        Ok(if self.id.is_some() { Shape::Request } else { Shape::Notification })
    }

    fn reply(&self, error: Option<u8>) -> Result<Shape, Flaw> {
        match (self.result.is_some(), self.error.is_some()) {
            (true, true) => Err(Flaw::BothResultAndError),
            (false, false) if self.id.is_some() => Err(Flaw::NeitherResultNorError),
            (false, false) => Err(Flaw::NotAMessage),
            (false, true) if error != Some(b'{') => Err(Flaw::BadErrorType),
            _ if !self.id.is_some() => Err(Flaw::MissingId),
            (true, false) => Ok(Shape::Result),
            (false, true) => Ok(Shape::Error),
        }
    }

    fn version(&self, text: &str) -> Result<(), Flaw> {
        match self.version.of(text) {
            VERSION => Ok(()),
            "" => Err(Flaw::MissingVersion),
            other if scan::decode(other).is_some_and(|v| v == "2.0") && other.starts_with('"') => Ok(()),
            other => Err(Flaw::WrongVersion(excerpt(other).into())),
        }
    }
}

fn classify(text: &str, envelope: Envelope, surrogate: Option<usize>) -> Parts {
    let id = Id::from_scanned(envelope.id.of(text));
    let method = method_name(text, envelope.method);
    let shape = envelope
        .shape(text, id.as_ref())
        .and_then(|shape| envelope.version(text).map(|()| shape))
        .and_then(|shape| surrogate.map_or(Ok(shape), |at| Err(Flaw::LoneSurrogate { at })))
        .unwrap_or_else(|flaw| Shape::Malformed(Arc::new(flaw)));
    Parts { id, method, envelope, shape }
}

fn batch(raw: Bytes, elements: &[(usize, usize)]) -> Frame {
    let frames = elements
        .iter()
        .map(|&(start, end)| {
            let element = raw.slice(start..end);
            if element.first() == Some(&b'[') {
                Frame::malformed(element, Flaw::NotAnObject)
            } else {
                frame(element)
            }
        })
        .collect();
    Frame { shape: Shape::Batch(frames), ..Frame::malformed(raw, Flaw::NotAnObject) }
}

fn method_name(text: &str, span: Span) -> Name {
    let quoted = span.of(text);
    if !quoted.starts_with('"') {
        return Name::Absent;
    }
    let inner = Span { start: span.start + 1, end: span.end - 1 };
    if memchr::memchr(b'\\', inner.of(text).as_bytes()).is_none() {
        return Name::Raw(inner);
    }
    scan::decode(quoted).map_or(Name::Absent, |name| Name::Decoded(name.into()))
}

/// Which of JSON-RPC's members a key is.
#[inline]
fn known(text: &str, key: Quoted) -> Option<&'static str> {
    if key.escaped {
        return known_name(&name(text, key));
    }
    known_name(&text[key.start..key.end])
}

#[inline]
fn known_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "jsonrpc" => "jsonrpc",
        "id" => "id",
        "method" => "method",
        "params" => "params",
        "result" => "result",
        "error" => "error",
        _ => return None,
    })
}

/// A member's name, decoded where that is possible.
fn name(text: &str, key: Quoted) -> String {
    let raw = &text[key.start..key.end];
    if !key.escaped {
        return raw.to_owned();
    }
    scan::decode(&text[key.start - 1..=key.end]).unwrap_or_else(|| raw.to_owned())
}

/// At most forty characters of a value.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

impl Span {
    pub(super) fn new(start: usize, end: usize) -> Self {
        // The length of the line was checked before.
        Self { start: u32::try_from(start).unwrap_or(u32::MAX), end: u32::try_from(end).unwrap_or(u32::MAX) }
    }

    pub(super) fn is_some(self) -> bool {
        self.end != 0
    }

    fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl From<Stop> for Flaw {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Syntax { at, expected } => Self::NotJson { at, expected },
            Stop::TooDeep { at } => Self::TooDeep { at },
        }
    }
}
