//! Chunks of streamed text, read without building a tree: strings stay JSON text as it was written.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialect::Dialect;

/// A text chunk; strings are JSON text with their quotes.
#[derive(Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) session: &'a str,
    pub(crate) kind: ChunkKind,
    pub(crate) text: &'a str,
    /// The number that `probe` gives it.
    pub(crate) index: Option<&'a str>,
}

impl<'a> Chunk<'a> {
    fn agent(session: &'a str, text: &'a str, index: Option<&'a str>) -> Self {
        Self { session, kind: ChunkKind::Agent, text, index }
    }

    /// Reads a line in which everything stands in the usual order and without spaces. The line need not be known to be
    /// JSON: what is read here is.
    pub(crate) fn of_line(dialect: Dialect, line: &'a str) -> Option<Self> {
        let mut at = Cursor(line);
        at.word("{\"jsonrpc\":\"2.0\",\"method\":\"")?;
        at.word(method(dialect))?;
        at.word("\",\"params\":")?;
        let chunk = at.usual(dialect)?;
        matches!(at.0, "}" | "}\r").then_some(chunk)
    }

    /// Reads the params of a chunk's notification, however they are spelled. The envelope vouches that they are JSON.
    pub(crate) fn of_params(dialect: Dialect, params: &'a str) -> Option<Self> {
        let mut at = Cursor(params);
        if let Some(chunk) = at.usual(dialect)
            && at.0.is_empty()
        {
            return Some(chunk);
        }
        match dialect {
            Dialect::V1 | Dialect::Go => any_v1(params),
            Dialect::V2025_1 => any_snake(params),
            Dialect::Probe => any_probe(params),
            Dialect::Delta => any_delta(params),
        }
    }
}

/// The notification that brings chunks.
pub(crate) fn method(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::V1 | Dialect::Go | Dialect::V2025_1 => "session/update",
        Dialect::Probe => "messageChunk",
        Dialect::Delta => "assistant.message_delta",
    }
}

/// The inside of a JSON string that has no escapes.
pub(crate) fn bare(raw: &str) -> Option<&str> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('\\')).then_some(inner)
}

/// How many bytes the text of a JSON string has when its escapes are resolved.
pub(crate) fn text_len(raw: &str) -> usize {
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

/// Reads JSON that is written in the usual order and without spaces.
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
                break;
            }
            at += escape_len(&bytes[at..])?;
        }
        // Without a way out of the loop this is many bytes at a time.
        if bytes[..at].iter().fold(false, |found, &byte| found | (byte < b' ')) {
            return None;
        }
        let (string, rest) = self.0.split_at(at + 1);
        self.0 = rest;
        Some(string)
    }

    fn digits(&mut self) -> Option<&'a str> {
        let end = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        (digits == "0" || !digits.is_empty() && !digits.starts_with('0')).then_some(digits)
    }

    fn kind(&mut self) -> Option<ChunkKind> {
        for kind in [ChunkKind::Agent, ChunkKind::Thought, ChunkKind::User] {
            if let Some(rest) = self.0.strip_prefix(kind.as_str()) {
                self.0 = rest;
                return Some(kind);
            }
        }
        None
    }

    /// The params of a chunk in a form's usual spelling.
    fn usual(&mut self, dialect: Dialect) -> Option<Chunk<'a>> {
        self.word(if dialect == Dialect::V2025_1 { "{\"session_id\":" } else { "{\"sessionId\":" })?;
        let session = self.string()?;
        let (before, between, after) = match dialect {
            Dialect::V1 | Dialect::Go => {
                (",\"update\":{\"sessionUpdate\":\"", "\",\"content\":{\"type\":\"text\",\"text\":", "}}}")
            }
            Dialect::V2025_1 => (",\"type\":\"", "\",\"data\":{\"text\":", "}}"),
            Dialect::Probe => {
                self.word(",\"chunk\":")?;
                let text = self.string()?;
                self.word(",\"index\":")?;
                let index = self.digits()?;
                self.word("}")?;
                return Some(Chunk::agent(session, text, Some(index)));
            }
            Dialect::Delta => {
                self.word(",\"content\":")?;
                let text = self.string()?;
                self.word("}")?;
                return Some(Chunk::agent(session, text, None));
            }
        };
        self.word(before)?;
        let kind = self.kind()?;
        self.word(between)?;
        let text = self.string()?;
        self.word(after)?;
        Some(Chunk { session, kind, text, index: None })
    }
}

/// The length of the escape (or of the pair of them) that begins here, if it stands for a character.
fn escape_len(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => match unit(bytes)? {
            0xd800..=0xdbff => matches!(unit(bytes.get(6..)?)?, 0xdc00..=0xdfff).then_some(12),
            0xdc00..=0xdfff => None,
            _ => Some(6),
        },
        _ => None,
    }
}

/// The code unit of a `\u` escape.
fn unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?))
}

fn any_v1(params: &str) -> Option<Chunk<'_>> {
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
pub(crate) enum ChunkKind {
    #[serde(rename = "agent_message_chunk")]
    Agent,
    #[serde(rename = "agent_thought_chunk")]
    Thought,
    #[serde(rename = "user_message_chunk")]
    User,
}

impl ChunkKind {
    pub(crate) fn as_str(self) -> &'static str {
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
            let plain = serde_json::to_string(text).expect("text");
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            assert_eq!(text_len(&plain), text.len(), "{plain}");
            assert_eq!(text_len(&format!("\"{escaped}\"")), text.len(), "{escaped}");
        }
    }

    #[test]
    fn the_usual_and_the_unusual_spelling_are_read_alike() {
        let usual = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\"b"}}}"#;
        let other = r#"{ "update": {"content": {"text": "a\"b", "type": "text"}, "sessionUpdate": "agent_message_chunk"}, "sessionId": "s" }"#;
        assert!(Cursor(other).usual(Dialect::V1).is_none());
        for params in [usual, other] {
            let chunk = Chunk::of_params(Dialect::V1, params).expect("a chunk");
            assert_eq!((chunk.session, chunk.text, chunk.kind), ("\"s\"", r#""a\"b""#, ChunkKind::Agent));
        }
        for more in [r#","_meta":{}}"#, r#","messageId":"m"}"#] {
            let more = usual.replacen("}}}", &format!("}}}}{more}"), 1);
            assert!(Chunk::of_params(Dialect::V1, &more).is_none(), "{more}");
        }
    }

    #[test]
    fn a_line_that_is_no_json_is_no_chunk() {
        let line = |session: &str, text: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"assistant.message_delta","params":{{"sessionId":{session},"content":{text}}}}}"#
            )
        };
        let read = |line: &str| Chunk::of_line(Dialect::Delta, line).map(|chunk| chunk.text.to_owned());
        for text in [r#""""#, r#""é\u00e9\"\/\ud83e\udd80""#] {
            assert_eq!(read(&line("\"s\"", text)).as_deref(), Some(text));
            assert_eq!(read(&(line("\"s\"", text) + "\r")).as_deref(), Some(text));
        }
        for text in
            ["\"a\tb\"", r#""\x""#, r#""\ud83e""#, r#""\udd80\ud83e""#, r#""\u00g0""#, "\"open", "7", r#""\"#]
        {
            assert_eq!(read(&line("\"s\"", text)), None, "{text}");
            assert_eq!(read(&line(text, "\"t\"")), None, "{text}");
        }
        assert_eq!(read(&(line("\"s\"", "\"t\"") + " ")), None);
    }
}
