//! Chunks of streamed text, read without building a tree: strings stay JSON text as it was written.

use acp_proto::{UpdateKind, join, method, update};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A text chunk.
#[derive(Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) session: Quoted<'a>,
    pub(crate) kind: ChunkKind,
    pub(crate) text: Quoted<'a>,
    /// Its number, where the form gives it one.
    pub(crate) index: Option<&'a str>,
}

/// A string as JSON text, with its quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted<'a> {
    pub(crate) raw: &'a str,
    escaped: bool,
}

impl<'a> Quoted<'a> {
    fn new(raw: &'a str) -> Option<Self> {
        raw.starts_with('"').then(|| Self { raw, escaped: memchr::memchr(b'\\', raw.as_bytes()).is_some() })
    }

    /// What it says, if it has no escapes.
    pub(crate) fn plain(self) -> Option<&'a str> {
        if self.escaped { None } else { self.raw.get(1..self.raw.len() - 1) }
    }

    /// How many bytes it has when its escapes are resolved.
    pub(crate) fn text_len(self) -> usize {
        if self.escaped { text_len(self.raw) } else { self.raw.len() - 2 }
    }
}

/// How a form spells chunks.
pub(crate) struct ChunkForm {
    /// The notification that brings them.
    pub(crate) method: &'static str,
    /// The usual spelling from the beginning of the line to the session id, …
    pub(crate) head: &'static str,
    /// … from there to the text, …
    pub(crate) between: &'static [(ChunkKind, &'static str)],
    /// … and from there, or from the number of the chunk, to the end.
    pub(crate) tail: &'static str,
    /// Reads params in any other spelling; `None` where there is more than a chunk of text.
    pub(crate) read: fn(&str) -> Option<Chunk<'_>>,
    /// The kinds that v1 chunks may become.
    pub(crate) sent: &'static [ChunkKind],
    /// A number follows the text: how the end of a v1 chunk that carries it begins.
    pub(crate) counted: Option<&'static str>,
    /// The answer to the prompt repeats the text.
    pub(crate) repeated: bool,
    /// Chunks look the same as in v1.
    pub(crate) canonical: bool,
}

/// The beginning of a notification, up to its method.
pub(crate) const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":""#;
const V1_KIND: &str = r#","update":{"sessionUpdate":""#;
const V1_TEXT: &str = r#"","content":{"type":"text","text":"#;

/// Chunks as v1 spells them.
pub(crate) static V1: ChunkForm = ChunkForm {
    method: method::SESSION_UPDATE,
    head: join!(NOTIFICATION, method::SESSION_UPDATE, r#"","params":{"sessionId":"#),
    between: &[
        (ChunkKind::Agent, join!(V1_KIND, update::AGENT_MESSAGE_CHUNK, V1_TEXT)),
        (ChunkKind::Thought, join!(V1_KIND, update::AGENT_THOUGHT_CHUNK, V1_TEXT)),
        (ChunkKind::User, join!(V1_KIND, update::USER_MESSAGE_CHUNK, V1_TEXT)),
    ],
    tail: "}}}}",
    read: any_v1,
    sent: &[],
    counted: None,
    repeated: false,
    canonical: true,
};
/// Before the number of a chunk.
pub(crate) const INDEX: &str = ",\"index\":";
const PARAMS: &str = "\"params\":";

impl ChunkForm {
    /// What stands between the session id and the text.
    pub(crate) fn between(&self, kind: ChunkKind) -> Option<&'static str> {
        self.between.iter().find(|(known, _)| *known == kind).map(|(_, words)| *words)
    }

    /// Where the params begin in the head.
    pub(crate) fn params_head(&self) -> &'static str {
        self.head.split_once(PARAMS).map_or(self.head, |(_, params)| params)
    }

    /// The tail without the end of the envelope.
    pub(crate) fn params_tail(&self) -> &'static str {
        &self.tail[..self.tail.len() - 1]
    }
}

impl<'a> Chunk<'a> {
    /// Reads a line in which everything stands in the usual order and without spaces. The line need not be known to be
    /// JSON: what is read here is.
    pub(crate) fn of_line(form: &ChunkForm, line: &'a str) -> Option<Self> {
        let mut at = Cursor(line.strip_prefix(form.head)?);
        let chunk = at.usual(form)?;
        let rest = at.0.strip_prefix(form.tail)?;
        matches!(rest, "" | "\r").then_some(chunk)
    }

    /// Reads the params of a chunk's notification, however they are spelled. The envelope vouches that they are JSON.
    pub(crate) fn of_params(form: &ChunkForm, params: &'a str) -> Option<Self> {
        Self::usual_params(form, params).or_else(|| (form.read)(params))
    }

    fn usual_params(form: &ChunkForm, params: &'a str) -> Option<Self> {
        let mut at = Cursor(params.strip_prefix(form.params_head())?);
        let chunk = at.usual(form)?;
        (at.0 == form.params_tail()).then_some(chunk)
    }

    pub(crate) fn new(
        session: &'a str,
        kind: ChunkKind,
        text: &'a str,
        index: Option<&'a str>,
    ) -> Option<Self> {
        Some(Self { session: Quoted::new(session)?, kind, text: Quoted::new(text)?, index })
    }
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
        // Six characters for one to three bytes; half of a surrogate pair stands for two of four bytes.
        len -= match unit(&bytes[at..]).unwrap_or_default() {
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

    #[inline]
    fn string(&mut self) -> Option<Quoted<'a>> {
        let bytes = self.0.as_bytes();
        let mut at = 1;
        let mut escaped = false;
        if bytes.first() != Some(&b'"') {
            return None;
        }
        loop {
            at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
            if bytes[at] == b'"' {
                break;
            }
            escaped = true;
            at += escape_len(&bytes[at..])?;
        }
        // Without a way out of the loop this is many bytes at a time.
        if bytes[..at].iter().fold(false, |found, &byte| found | (byte < b' ')) {
            return None;
        }
        let (raw, rest) = self.0.split_at(at + 1);
        self.0 = rest;
        Some(Quoted { raw, escaped })
    }

    fn digits(&mut self) -> Option<&'a str> {
        let end = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        (digits == "0" || !digits.is_empty() && !digits.starts_with('0')).then_some(digits)
    }

    /// From the session id to the text, or to the number behind it.
    #[inline]
    fn usual(&mut self, form: &ChunkForm) -> Option<Chunk<'a>> {
        let session = self.string()?;
        let (kind, rest) =
            form.between.iter().find_map(|(kind, words)| Some((*kind, self.0.strip_prefix(words)?)))?;
        self.0 = rest;
        let text = self.string()?;
        let index = if form.counted.is_some() {
            self.word(INDEX)?;
            Some(self.digits()?)
        } else {
            None
        };
        Some(Chunk { session, kind, text, index })
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
    let read = Chunk::new(chunk.session_id.get(), kind, content.text.get(), None);
    read.filter(|_| content.kind == "text")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "UpdateKind")]
pub(crate) enum ChunkKind {
    Agent,
    Thought,
    User,
}

impl TryFrom<UpdateKind> for ChunkKind {
    type Error = &'static str;

    fn try_from(kind: UpdateKind) -> Result<Self, Self::Error> {
        match kind {
            UpdateKind::AgentMessageChunk => Ok(Self::Agent),
            UpdateKind::AgentThoughtChunk => Ok(Self::Thought),
            UpdateKind::UserMessageChunk => Ok(Self::User),
            _ => Err("not a chunk of text"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;

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
        assert!(Chunk::usual_params(&V1, other).is_none());
        for params in [usual, other] {
            let chunk = Chunk::of_params(&V1, params).expect("a chunk");
            assert_eq!(
                (chunk.session.raw, chunk.text.raw, chunk.kind),
                ("\"s\"", r#""a\"b""#, ChunkKind::Agent)
            );
            assert_eq!((chunk.session.plain(), chunk.text.plain()), (Some("s"), None));
        }
        for more in [r#","_meta":{}}"#, r#","messageId":"m"}"#] {
            let more = usual.replacen("}}}", &format!("}}}}{more}"), 1);
            assert!(Chunk::of_params(&V1, &more).is_none(), "{more}");
        }
    }

    #[test]
    fn a_line_that_is_no_json_is_no_chunk() {
        let line = |session: &str, text: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"assistant.message_delta","params":{{"sessionId":{session},"content":{text}}}}}"#
            )
        };
        let read = |line: &str| {
            Chunk::of_line(Dialect::DELTA.form().chunks(), line).map(|chunk| chunk.text.raw.to_owned())
        };
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
