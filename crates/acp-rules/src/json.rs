//! A flat, borrowed reading of one JSON value: no allocation per value, the buffer is used again for every frame.
//!
//! The text is known to be JSON (a `Frame` was made of it); the reader is total all the same and gives up on
//! anything else.

use std::borrow::Cow;

/// Deeper values are not read. `acp-rpc` refuses them before they come here.
const MAX_DEPTH: u32 = 128;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// The word for messages, with its article.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

/// One value or key: its span in the text (strings without quotes) and where the next sibling is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    kind: Kind,
    escaped: bool,
    start: u32,
    end: u32,
    next: u32,
}

/// The buffer of nodes, kept by its owner between frames.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    nodes: Vec<Node>,
}

impl Tape {
    /// Reads `text` as one JSON value; `None` when it is not one.
    pub(crate) fn read<'a>(&'a mut self, text: &'a str) -> Option<Json<'a>> {
        self.nodes.clear();
        if text.len() >= u32::MAX as usize {
            return None;
        }
        let mut reader = Reader { text: text.as_bytes(), at: 0, nodes: &mut self.nodes };
        reader.value(0)?;
        reader.space();
        if reader.at != text.len() {
            return None;
        }
        Some(Json { text, nodes: &self.nodes, at: 0 })
    }
}

struct Reader<'t, 'n> {
    text: &'t [u8],
    at: usize,
    nodes: &'n mut Vec<Node>,
}

#[expect(clippy::cast_possible_truncation, reason = "the text is shorter than 4 GiB, checked once in `read`")]
impl Reader<'_, '_> {
    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    fn push(&mut self, kind: Kind, start: usize) -> usize {
        let index = self.nodes.len();
        self.nodes.push(Node { kind, escaped: false, start: start as u32, end: 0, next: 0 });
        index
    }

    fn close(&mut self, index: usize, end: usize) {
        let next = self.nodes.len() as u32;
        let node = &mut self.nodes[index];
        node.end = end as u32;
        node.next = next;
    }

    fn value(&mut self, depth: u32) -> Option<()> {
        self.space();
        match *self.text.get(self.at)? {
            b'"' => self.string(),
            b'{' if depth < MAX_DEPTH => self.object(depth),
            b'[' if depth < MAX_DEPTH => self.array(depth),
            b't' => self.word(b"true", Kind::Bool),
            b'f' => self.word(b"false", Kind::Bool),
            b'n' => self.word(b"null", Kind::Null),
            b'-' | b'0'..=b'9' => {
                let start = self.at;
                let index = self.push(Kind::Number, start);
                while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.text.get(self.at) {
                    self.at += 1;
                }
                self.close(index, self.at);
                Some(())
            }
            _ => None,
        }
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Option<()> {
        let end = self.at + word.len();
        if self.text.get(self.at..end)? != word {
            return None;
        }
        let index = self.push(kind, self.at);
        self.at = end;
        self.close(index, end);
        Some(())
    }

    #[inline]
    fn string(&mut self) -> Option<()> {
        let start = self.at + 1;
        let index = self.push(Kind::String, start);
        let mut at = start;
        // short strings (keys, ids, tags) end within a few bytes; long ones deserve the vector search
        let near = self.text.len().min(at + 24);
        loop {
            if at < near {
                match self.text[at] {
                    b'"' => break,
                    b'\\' => {
                        self.nodes[index].escaped = true;
                        at += 2;
                    }
                    _ => at += 1,
                }
                continue;
            }
            let rest = self.text.get(at..)?;
            let found = memchr::memchr2(b'"', b'\\', rest)?;
            at += found;
            if self.text[at] == b'"' {
                break;
            }
            self.nodes[index].escaped = true;
            at += 2;
        }
        self.at = at + 1;
        self.close(index, at);
        Some(())
    }

    fn object(&mut self, depth: u32) -> Option<()> {
        let index = self.push(Kind::Object, self.at);
        self.at += 1;
        self.space();
        if self.text.get(self.at) == Some(&b'}') {
            self.at += 1;
            self.close(index, self.at);
            return Some(());
        }
        loop {
            self.space();
            if self.text.get(self.at) != Some(&b'"') {
                return None;
            }
            self.string()?;
            self.space();
            if self.text.get(self.at) != Some(&b':') {
                return None;
            }
            self.at += 1;
            self.value(depth + 1)?;
            self.space();
            match self.text.get(self.at)? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return None,
            }
        }
        self.at += 1;
        self.close(index, self.at);
        Some(())
    }

    fn array(&mut self, depth: u32) -> Option<()> {
        let index = self.push(Kind::Array, self.at);
        self.at += 1;
        self.space();
        if self.text.get(self.at) == Some(&b']') {
            self.at += 1;
            self.close(index, self.at);
            return Some(());
        }
        loop {
            self.value(depth + 1)?;
            self.space();
            match self.text.get(self.at)? {
                b',' => self.at += 1,
                b']' => break,
                _ => return None,
            }
        }
        self.at += 1;
        self.close(index, self.at);
        Some(())
    }
}

/// A place in a document that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<'a> {
    text: &'a str,
    nodes: &'a [Node],
    at: u32,
}

impl<'a> Json<'a> {
    #[inline]
    fn node(self) -> &'a Node {
        &self.nodes[self.at as usize]
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        self.node().kind
    }

    /// The text of the value; a string's without its quotes and not decoded.
    #[inline]
    pub(crate) fn inner(self) -> &'a str {
        let node = self.node();
        &self.text[node.start as usize..node.end as usize]
    }

    /// The value as JSON text.
    pub(crate) fn raw(self) -> &'a str {
        let node = self.node();
        match node.kind {
            Kind::String => &self.text[node.start as usize - 1..node.end as usize + 1],
            _ => self.inner(),
        }
    }

    /// The string, decoded; `None` for anything else.
    #[inline]
    pub(crate) fn str(self) -> Option<Cow<'a, str>> {
        let node = self.node();
        if node.kind != Kind::String {
            return None;
        }
        if !node.escaped {
            return Some(Cow::Borrowed(self.inner()));
        }
        Some(Cow::Owned(decode(self.raw())))
    }

    /// Whether this is the string `text`.
    #[inline]
    pub(crate) fn is(self, text: &str) -> bool {
        let node = self.node();
        node.kind == Kind::String
            && if node.escaped {
                decode(self.raw()) == text
            } else {
                self.inner().as_bytes() == text.as_bytes()
            }
    }

    pub(crate) fn bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.inner() == "true")
    }

    pub(crate) fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    pub(crate) fn is_object(self) -> bool {
        self.kind() == Kind::Object
    }

    pub(crate) fn i64(self) -> Option<i64> {
        if self.kind() != Kind::Number {
            return None;
        }
        self.inner().parse().ok()
    }

    pub(crate) fn f64(self) -> Option<f64> {
        if self.kind() != Kind::Number {
            return None;
        }
        self.inner().parse().ok()
    }

    /// Whether the number has no fractional part, as JSON Schema counts integers (`1.0` is one).
    pub(crate) fn is_integer(self) -> bool {
        if self.kind() != Kind::Number {
            return false;
        }
        let text = self.inner();
        if !text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
            return true;
        }
        text.parse::<f64>().is_ok_and(|n| n.fract() == 0.0)
    }

    /// The fields of an object in order, duplicates too; nothing for anything else.
    #[inline]
    pub(crate) fn fields(self) -> Fields<'a> {
        let node = self.node();
        let end = if node.kind == Kind::Object { node.next } else { self.at + 1 };
        Fields { here: Json { at: self.at + 1, ..self }, end }
    }

    /// The items of an array; nothing for anything else.
    #[inline]
    pub(crate) fn items(self) -> Items<'a> {
        let node = self.node();
        let end = if node.kind == Kind::Array { node.next } else { self.at + 1 };
        Items { here: Json { at: self.at + 1, ..self }, end }
    }

    /// The field of that name. The last one wins, as in every common JSON reader.
    #[inline]
    pub(crate) fn get(self, name: &str) -> Option<Json<'a>> {
        let mut found = None;
        for (key, value) in self.fields() {
            if key.is(name) {
                found = Some(value);
            }
        }
        found
    }

    /// The field of that name unless it is `null`.
    pub(crate) fn some(self, name: &str) -> Option<Json<'a>> {
        self.get(name).filter(|v| !v.is_null())
    }

    /// The string field of that name.
    #[inline]
    pub(crate) fn get_str(self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name)?.str()
    }

    /// Follows names.
    pub(crate) fn path(self, names: &[&str]) -> Option<Json<'a>> {
        names.iter().try_fold(self, |here, name| here.get(name))
    }
}

/// See [`Json::fields`].
pub(crate) struct Fields<'a> {
    here: Json<'a>,
    end: u32,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Json<'a>, Json<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.here.at >= self.end {
            return None;
        }
        let key = self.here;
        let value = Json { at: key.at + 1, ..key };
        self.here.at = value.node().next;
        Some((key, value))
    }
}

/// See [`Json::items`].
pub(crate) struct Items<'a> {
    here: Json<'a>,
    end: u32,
}

impl<'a> Iterator for Items<'a> {
    type Item = Json<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.here.at >= self.end {
            return None;
        }
        let item = self.here;
        self.here.at = item.node().next;
        Some(item)
    }
}

/// The inside of a JSON string, decoded.
pub(crate) fn decode_inner(inner: &str) -> String {
    decode(&format!("\"{inner}\""))
}

/// A quoted JSON string, decoded; half a surrogate pair, which is no character, becomes U+FFFD.
fn decode(quoted: &str) -> String {
    serde_json::from_str(quoted).unwrap_or_else(|_| lossy(quoted))
}

fn lossy(quoted: &str) -> String {
    let bytes = serde_json::from_str::<BytesOf>(quoted).map(|b| b.0).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `serde_json` decodes lone surrogates only when asked for bytes.
struct BytesOf(Vec<u8>);

impl<'de> serde::Deserialize<'de> for BytesOf {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl serde::de::Visitor<'_> for Visit {
            type Value = BytesOf;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<BytesOf, E> {
                Ok(BytesOf(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_items_and_strings_are_found() {
        let mut tape = Tape::default();
        let text = r#" {"a":1,"b":[true,null,{"c":"x\ny"}],"a":"last","long":"0123456789012345678901234567890\"x","e":{}} "#;
        let json = tape.read(text).expect("it is JSON");
        assert_eq!(json.get_str("a").as_deref(), Some("last"));
        let list: Vec<_> = json.get("b").expect("b").items().collect();
        assert_eq!(list.len(), 3);
        assert_eq!(list[2].get_str("c").as_deref(), Some("x\ny"));
        assert!(json.get("long").expect("long").is("0123456789012345678901234567890\"x"));
        assert_eq!(json.get("e").expect("e").fields().count(), 0);
    }

    #[test]
    fn what_is_not_json_is_not_read() {
        for text in ["", "{", "[1,", r#"{"a" 1}"#, "tru", "1 2", r#""abc"#, "\"\\"] {
            assert!(Tape::default().read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_read_as_the_replacement_character() {
        let mut tape = Tape::default();
        let json = tape.read(r#""a\ud800b""#).expect("JSON by its grammar");
        assert!(json.str().is_some_and(|text| text.starts_with('a') && text.ends_with('b')));
    }
}
