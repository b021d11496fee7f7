//! From values to a frame, without parsing what was just written.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::{Flaw, Frame, Name, Shape, Span};
use crate::{Id, RpcError, scan};

impl Frame {
    /// A request. `params` that serialise to `null` (such as `&()`) are left out; a bare string, number or boolean
    /// is written and flawed, as it would be when read. A value that cannot be written as JSON gives an empty
    /// frame with [`Flaw::NotSerializable`].
    pub fn request(id: &Id, method: &str, params: &(impl Serialize + ?Sized)) -> Self {
        Self::call(Some(id), method, params)
    }

    /// A notification; the same rules as [`Frame::request`].
    pub fn notification(method: &str, params: &(impl Serialize + ?Sized)) -> Self {
        Self::call(None, method, params)
    }

    /// A notification whose params are already JSON text, on one line. The caller vouches for the text: it is copied,
    /// not checked.
    #[must_use]
    pub fn notification_text(method: &str, params: &str) -> Self {
        Self::notification_of(method, params.len(), |out| out.extend_from_slice(params.as_bytes()))
    }

    /// A notification whose params are JSON text, on one line, with one string left to be written between `before` and
    /// `after`. The caller vouches for both: they are copied, not checked.
    ///
    /// ```
    /// # use acp_rpc::Frame;
    /// let frame = Frame::notification_around("say", "{\"text\":", "a \"word\"\n", "}");
    /// assert_eq!(frame.params(), Some(r#"{"text":"a \"word\"\n"}"#));
    /// ```
    #[must_use]
    pub fn notification_around(method: &str, before: &str, text: &str, after: &str) -> Self {
        Self::notification_of(method, before.len() + text.len() + after.len() + 8, |out| {
            out.extend_from_slice(before.as_bytes());
            scan::write_string(text, out);
            out.extend_from_slice(after.as_bytes());
        })
    }

    fn notification_of(method: &str, length: usize, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut out = Vec::with_capacity(method.len() + length + 48);
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
        let start = out.len();
        scan::write_string(method, &mut out);
        let inner = Span::new(start + 1, out.len() - 1);
        let plain = out.len() - start == method.len() + 2;
        let method = if plain { Name::Raw(inner) } else { Name::Decoded(method.into()) };
        out.extend_from_slice(b",\"params\":");
        let start = out.len();
        write(&mut out);
        if u32::try_from(out.len()).is_err() {
            return Self::malformed(Bytes::new(), Flaw::Oversized { len: out.len() as u64 });
        }
        let params = Span::new(start, out.len());
        Self { method, params, ..Self::built(out, None, Shape::Notification) }
    }

    /// The answer to a request that went well.
    pub fn response(id: &Id, result: &(impl Serialize + ?Sized)) -> Self {
        Self::reply(id, b",\"result\":", Shape::Result, result)
    }

    /// The answer to a request that did not.
    #[must_use]
    pub fn failure(id: &Id, error: &RpcError) -> Self {
        Self::reply(id, b",\"error\":", Shape::Error, error)
    }

    fn call(id: Option<&Id>, method: &str, params: &(impl Serialize + ?Sized)) -> Self {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
        if let Some(id) = id {
            out.extend_from_slice(b",\"id\":");
            id.write(&mut out);
        }
        out.extend_from_slice(b",\"method\":");
        let start = out.len();
        scan::write_string(method, &mut out);
        let inner = Span::new(start + 1, out.len() - 1);
        let plain = out.len() - start == method.len() + 2;
        let method = if plain { Name::Raw(inner) } else { Name::Decoded(method.into()) };

        let before = out.len();
        out.extend_from_slice(b",\"params\":");
        let mut params = match write_value(params, &mut out) {
            Ok(span) => span,
            Err(flaw) => return Self::malformed(Bytes::new(), flaw),
        };
        let opening = out.get(params.start as usize).copied();
        if opening == Some(b'n') {
            out.truncate(before);
            params = Span::default();
        }
        let shape = match (opening, id) {
            (Some(b'{' | b'[' | b'n'), Some(_)) => Shape::Request,
            (Some(b'{' | b'[' | b'n'), None) => Shape::Notification,
            _ => Shape::Malformed(Arc::new(Flaw::BadParamsType)),
        };
        Self { method, params, ..Self::built(out, id, shape) }
    }

    fn reply(id: &Id, member: &[u8], shape: Shape, value: &(impl Serialize + ?Sized)) -> Self {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        id.write(&mut out);
        out.extend_from_slice(member);
        let span = match write_value(value, &mut out) {
            Ok(span) => span,
            Err(flaw) => return Self::malformed(Bytes::new(), flaw),
        };
        let mut frame = Self::built(out, Some(id), shape);
        match frame.shape {
            Shape::Error => frame.error = span,
            _ => frame.result = span,
        }
        frame
    }

    fn built(mut out: Vec<u8>, id: Option<&Id>, shape: Shape) -> Self {
        out.push(b'}');
        let none = Span::default();
        Self {
            raw: out.into(),
            id: id.cloned(),
            method: Name::Absent,
            params: none,
            result: none,
            error: none,
            shape,
            extra: false,
        }
    }
}

/// Appends a value on one line: raw text from elsewhere may hold line breaks between its tokens.
fn write_value(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) -> Result<Span, Flaw> {
    let start = out.len();
    serde_json::to_writer(&mut *out, value).map_err(|e| Flaw::NotSerializable(e.to_string().into()))?;
    if memchr::memchr2(b'\n', b'\r', &out[start..]).is_some() {
        for byte in &mut out[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    match u32::try_from(out.len()) {
        Ok(_) => Ok(Span::new(start, out.len())),
        Err(_) => Err(Flaw::Oversized { len: out.len() as u64 }),
    }
}
