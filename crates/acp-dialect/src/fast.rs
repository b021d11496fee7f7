//! The short way for streamed text, which is most of what goes over a wire: no tree is built, and the text itself is
//! copied as it was written.

use acp_rpc::{Frame, View};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::Core;
use crate::dialect::Dialect;
use crate::session::Session;

/// Translates a plain text chunk of the foreign peer; `None` sends the frame the long way.
pub(crate) fn decode(core: &mut Core, frame: &Frame) -> Option<Frame> {
    let View::Notification { method, params: Some(params) } = frame.view() else { return None };
    let chunk = match (core.dialect, method) {
        (Dialect::V2025_1, "session/update") => usual_snake(params).or_else(|| any_snake(params))?,
        (Dialect::Probe, "messageChunk") => usual_probe(params).or_else(|| any_probe(params))?,
        (Dialect::Delta, "assistant.message_delta") => usual_delta(params).or_else(|| any_delta(params))?,
        // The shape is v1's: the bytes go through.
        (Dialect::Go, "session/update") => return any_v1(params).map(|_| frame.clone()),
        _ => return None,
    };
    let id = bare(chunk.session)?;
    let mapped = core.to_canonical.get(id).map(String::as_str);
    let state = core.sessions.get_mut(mapped.unwrap_or(id))?;
    if let (ChunkKind::Agent, Some(turn)) = (chunk.kind, state.turn.as_mut()) {
        turn.streamed += text_len(chunk.text);
        turn.failed_tool = false;
    }
    let mut out = String::with_capacity(params.len() + 120);
    out.push_str("{\"sessionId\":");
    push_id(&mut out, chunk.session, mapped);
    out.push_str(",\"update\":{\"sessionUpdate\":\"");
    out.push_str(chunk.kind.as_str());
    out.push_str("\",\"content\":{\"type\":\"text\",\"text\":");
    out.push_str(chunk.text);
    out.push_str("}}");
    if let Some(index) = chunk.index {
        out.push_str(",\"_meta\":{\"acp-dialect/probe\":{\"index\":");
        out.push_str(index);
        out.push_str("}}");
    }
    out.push('}');
    Some(Frame::notification_text("session/update", &out))
}

/// Translates a plain v1 text chunk; `None` sends the frame the long way.
pub(crate) fn encode(core: &mut Core, frame: &Frame) -> Option<Frame> {
    let View::Notification { method: "session/update", params: Some(params) } = frame.view() else {
        return None;
    };
    let chunk = usual_v1(params).or_else(|| any_v1(params))?;
    if core.dialect == Dialect::Go {
        return Some(frame.clone());
    }
    if core.dialect != Dialect::V2025_1 && chunk.kind != ChunkKind::Agent || chunk.kind == ChunkKind::User {
        return None;
    }
    let id = bare(chunk.session)?;
    let mapped = core.to_foreign.get(id).map(String::as_str);
    let limit = core.options.reply_limit;
    let state = core.sessions.get_mut(id)?;
    if state.replay.is_some() {
        return None;
    }
    let mut out = String::with_capacity(params.len() + 32);
    match core.dialect {
        Dialect::V2025_1 => {
            if let (ChunkKind::Agent, Some(turn)) = (chunk.kind, state.turn.as_mut()) {
                turn.streamed += text_len(chunk.text);
                turn.failed_tool = false;
            }
            out.push_str("{\"session_id\":");
            push_id(&mut out, chunk.session, mapped);
            out.push_str(",\"type\":\"");
            out.push_str(chunk.kind.as_str());
            out.push_str("\",\"data\":{\"text\":");
            out.push_str(chunk.text);
            out.push_str("}}");
            Some(Frame::notification_text("session/update", &out))
        }
        Dialect::Probe => {
            keep(state, chunk.text, limit)?;
            out.push_str("{\"sessionId\":");
            push_id(&mut out, chunk.session, mapped);
            out.push_str(",\"chunk\":");
            out.push_str(chunk.text);
            out.push_str(",\"index\":");
            out.push_str(&state.index.to_string());
            out.push('}');
            state.index += 1;
            Some(Frame::notification_text("messageChunk", &out))
        }
        Dialect::Delta => {
            keep(state, chunk.text, limit)?;
            out.push_str("{\"sessionId\":");
            push_id(&mut out, chunk.session, mapped);
            out.push_str(",\"content\":");
            out.push_str(chunk.text);
            out.push('}');
            Some(Frame::notification_text("assistant.message_delta", &out))
        }
        Dialect::V1 | Dialect::Go => None,
    }
}

/// A text chunk; strings are JSON text with their quotes.
struct Chunk<'a> {
    session: &'a str,
    kind: ChunkKind,
    text: &'a str,
    index: Option<&'a str>,
}

impl<'a> Chunk<'a> {
    fn agent(session: &'a str, text: &'a str, index: Option<&'a str>) -> Self {
        Self { session, kind: ChunkKind::Agent, text, index }
    }
}

fn push_id(out: &mut String, raw: &str, mapped: Option<&str>) {
    match mapped {
        Some(id) => out.push_str(&serde_json::Value::from(id).to_string()),
        None => out.push_str(raw),
    }
}

/// Keeps the text for the answer that repeats it.
fn keep(state: &mut Session, raw: &str, limit: usize) -> Option<()> {
    if state.turn.is_none() {
        return Some(());
    }
    match bare(raw) {
        Some(text) => state.said(text, Some(limit)),
        None => {
            let text: String = serde_json::from_str(raw).ok()?;
            state.said(&text, Some(limit));
        }
    }
    Some(())
}

/// The inside of a JSON string that has no escapes.
fn bare(raw: &str) -> Option<&str> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('\\')).then_some(inner)
}

/// How many bytes the text of a JSON string has when its escapes are resolved.
fn text_len(raw: &str) -> usize {
    let bytes = raw.as_bytes();
    let mut len = bytes.len().saturating_sub(2);
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes.get(at + 1) != Some(&b'u') {
            len -= 1;
            at += 2;
            continue;
        }
        let unit =
            raw.get(at + 2..at + 6).and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or_default();
        // Six characters for one to three bytes; half of a surrogate pair stands for two of four bytes.
        len -= match unit {
            0..=0x7f => 5,
            0x80..=0x7ff | 0xd800..=0xdfff => 4,
            _ => 3,
        };
        at += 6;
    }
    len
}

/// Reads JSON that is written in the usual order and without spaces; the envelope vouches that it is JSON.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn word(&mut self, word: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(word)?;
        Some(())
    }

    /// A string, with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        let bytes = self.0.as_bytes();
        let mut at = 1;
        if bytes.first() != Some(&b'"') {
            return None;
        }
        loop {
            at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
            if bytes[at] == b'"' {
                let (string, rest) = self.0.split_at(at + 1);
                self.0 = rest;
                return Some(string);
            }
            at += 2;
        }
    }

    fn digits(&mut self) -> Option<&'a str> {
        let end = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        (!digits.is_empty()).then_some(digits)
    }

    fn kind(&mut self) -> Option<ChunkKind> {
        let word = self.string()?;
        [ChunkKind::Agent, ChunkKind::Thought, ChunkKind::User]
            .into_iter()
            .find(|kind| word.trim_matches('"') == kind.as_str())
    }

    fn end(&mut self, word: &str) -> Option<()> {
        (self.0 == word).then_some(())
    }
}

fn usual_v1(params: &str) -> Option<Chunk<'_>> {
    let mut at = Cursor(params);
    at.word("{\"sessionId\":")?;
    let session = at.string()?;
    at.word(",\"update\":{\"sessionUpdate\":")?;
    let kind = at.kind()?;
    at.word(",\"content\":{\"type\":\"text\",\"text\":")?;
    let text = at.string()?;
    at.end("}}}")?;
    Some(Chunk { session, kind, text, index: None })
}

fn usual_snake(params: &str) -> Option<Chunk<'_>> {
    let mut at = Cursor(params);
    at.word("{\"session_id\":")?;
    let session = at.string()?;
    at.word(",\"type\":")?;
    let kind = at.kind()?;
    at.word(",\"data\":{\"text\":")?;
    let text = at.string()?;
    at.end("}}")?;
    Some(Chunk { session, kind, text, index: None })
}

fn usual_probe(params: &str) -> Option<Chunk<'_>> {
    let mut at = Cursor(params);
    at.word("{\"sessionId\":")?;
    let session = at.string()?;
    at.word(",\"chunk\":")?;
    let text = at.string()?;
    at.word(",\"index\":")?;
    let index = at.digits()?;
    at.end("}")?;
    Some(Chunk::agent(session, text, Some(index)))
}

fn usual_delta(params: &str) -> Option<Chunk<'_>> {
    let mut at = Cursor(params);
    at.word("{\"sessionId\":")?;
    let session = at.string()?;
    at.word(",\"content\":")?;
    let text = at.string()?;
    at.end("}")?;
    Some(Chunk::agent(session, text, None))
}

fn any_v1(params: &str) -> Option<Chunk<'_>> {
    if let Some(chunk) = usual_v1(params) {
        return Some(chunk);
    }
    let chunk: V1Chunk<'_> = serde_json::from_str(params).ok()?;
    let V1Update { session_update: kind, content } = chunk.update;
    let (session, text) = (chunk.session_id.get(), content.text.get());
    (content.kind == "text" && is_text(session) && is_text(text)).then_some(Chunk {
        session,
        kind,
        text,
        index: None,
    })
}

fn any_snake(params: &str) -> Option<Chunk<'_>> {
    let chunk: SnakeChunk<'_> = serde_json::from_str(params).ok()?;
    let (session, text) = (chunk.session_id.get(), chunk.data.text.get());
    is_text(text).then_some(Chunk { session, kind: chunk.kind, text, index: None })
}

fn any_probe(params: &str) -> Option<Chunk<'_>> {
    let chunk: ProbeChunk<'_> = serde_json::from_str(params).ok()?;
    let index = chunk.index.map(RawValue::get);
    let whole = |index: &str| index.bytes().all(|byte| byte.is_ascii_digit());
    let fits = is_text(chunk.chunk.get()) && index.is_none_or(whole);
    fits.then_some(Chunk::agent(chunk.session_id.get(), chunk.chunk.get(), index))
}

fn any_delta(params: &str) -> Option<Chunk<'_>> {
    let chunk: DeltaChunk<'_> = serde_json::from_str(params).ok()?;
    is_text(chunk.content.get()).then_some(Chunk::agent(chunk.session_id.get(), chunk.content.get(), None))
}

fn is_text(raw: &str) -> bool {
    raw.starts_with('"')
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum ChunkKind {
    #[serde(rename = "agent_message_chunk")]
    Agent,
    #[serde(rename = "agent_thought_chunk")]
    Thought,
    #[serde(rename = "user_message_chunk")]
    User,
}

impl ChunkKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent_message_chunk",
            Self::Thought => "agent_thought_chunk",
            Self::User => "user_message_chunk",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct V1Chunk<'a> {
    #[serde(rename = "sessionId", borrow)]
    session_id: &'a RawValue,
    #[serde(borrow)]
    update: V1Update<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct V1Update<'a> {
    #[serde(rename = "sessionUpdate")]
    session_update: ChunkKind,
    #[serde(borrow)]
    content: V1Text<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct V1Text<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    #[serde(borrow)]
    text: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnakeChunk<'a> {
    #[serde(borrow)]
    session_id: &'a RawValue,
    #[serde(rename = "type")]
    kind: ChunkKind,
    #[serde(borrow)]
    data: SnakeData<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnakeData<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeChunk<'a> {
    #[serde(rename = "sessionId", borrow)]
    session_id: &'a RawValue,
    #[serde(borrow)]
    chunk: &'a RawValue,
    #[serde(default, borrow)]
    index: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeltaChunk<'a> {
    #[serde(rename = "sessionId", borrow)]
    session_id: &'a RawValue,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_string_is_that_of_its_text() {
        for text in ["", "plain", "a\nb\"c\\", "é漢🦀", "\u{1}\u{7f}"] {
            let plain = serde_json::to_string(text).unwrap();
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            assert_eq!(text_len(&plain), text.len(), "{plain}");
            assert_eq!(text_len(&format!("\"{escaped}\"")), text.len(), "{escaped}");
        }
    }

    #[test]
    fn the_usual_and_the_unusual_spelling_are_read_alike() {
        let usual = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\"b"}}}"#;
        let other = r#"{ "update": {"content": {"text": "a\"b", "type": "text"}, "sessionUpdate": "agent_message_chunk"}, "sessionId": "s" }"#;
        assert!(usual_v1(other).is_none());
        for params in [usual, other] {
            let chunk = any_v1(params).unwrap();
            assert_eq!((chunk.session, chunk.text, chunk.kind), ("\"s\"", r#""a\"b""#, ChunkKind::Agent));
        }
        for more in [r#","_meta":{}}"#, r#","messageId":"m"}"#] {
            assert!(any_v1(&usual.replacen("}}}", &format!("}}}}{more}"), 1)).is_none(), "{more}");
        }
    }
}
