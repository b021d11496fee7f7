//! A small JSON reader that remembers where everything stands.
//!
//! Errors in test files must point at a place, and a frame must go out with its numbers as they were written, so the
//! reader keeps spans and number text. A doubled key is an error: in a test file it is always a mistake.

use acp_match::{Template, TemplateError, Vars};
use serde_json::{Map, Value};
use std::ops::Range;

/// Nesting that no honest test file reaches.
const DEPTH: usize = 128;

/// A JSON value with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Json {
    /// Bytes of the value in the text that was read.
    pub span: Range<usize>,
    /// The value.
    pub kind: JsonKind,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonKind {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number as it was written.
    Number(String),
    /// A string, decoded.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object; keys are unique and in the order of the file.
    Map(Vec<JsonMember>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonMember {
    /// The key, decoded.
    pub key: String,
    /// Bytes of the key in the text, quotes included.
    pub key_span: Range<usize>,
    /// The value.
    pub value: Json,
}

/// Text that is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// Bytes it is about.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<&'static str>,
}

impl Json {
    /// Reads one value and nothing after it.
    pub fn read(text: &str) -> Result<Json, JsonError> {
        let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
        reader.space();
        let value = reader.value(0)?;
        reader.space();
        if reader.at < text.len() {
            return Err(
                reader.error("expected the end of the file here", Some("a test file holds one JSON object"))
            );
        }
        Ok(value)
    }

    /// A key's value.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.members().iter().find(|member| member.key == key).map(|member| &member.value)
    }

    /// The members of an object; none for anything else.
    pub fn members(&self) -> &[JsonMember] {
        match &self.kind {
            JsonKind::Map(members) => members,
            _ => &[],
        }
    }

    /// The string, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            JsonKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    pub fn as_list(&self) -> Option<&[Json]> {
        match &self.kind {
            JsonKind::List(list) => Some(list),
            _ => None,
        }
    }

    /// Whether it is an object.
    pub fn is_map(&self) -> bool {
        matches!(self.kind, JsonKind::Map(_))
    }

    /// The JSON type in words.
    pub fn type_name(&self) -> &'static str {
        match &self.kind {
            JsonKind::Null => "null",
            JsonKind::Bool(_) => "a boolean",
            JsonKind::Number(_) => "a number",
            JsonKind::Text(_) => "a string",
            JsonKind::List(_) => "an array",
            JsonKind::Map(_) => "an object",
        }
    }

    /// The value without places.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            JsonKind::Null => Value::Null,
            JsonKind::Bool(value) => Value::Bool(*value),
            JsonKind::Number(text) => serde_json::from_str(text).unwrap_or(Value::Null),
            JsonKind::Text(text) => Value::String(text.clone()),
            JsonKind::List(list) => Value::Array(list.iter().map(Json::to_value).collect()),
            JsonKind::Map(members) => Value::Object(
                members
                    .iter()
                    .map(|member| (member.key.clone(), member.value.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// The value at a JSON pointer.
    pub fn at_pointer(&self, pointer: &str) -> Option<&Json> {
        pointer.split('/').skip(1).try_fold(self, |here, step| {
            let step = step.replace("~1", "/").replace("~0", "~");
            match &here.kind {
                JsonKind::Map(_) => here.get(&step),
                JsonKind::List(list) => step.parse::<usize>().ok().and_then(|index| list.get(index)),
                _ => None,
            }
        })
    }

    /// Compact JSON with every string leaf filled from the variables and every number as it was written.
    pub fn render(&self, vars: &Vars) -> Result<String, TemplateError> {
        let mut out = String::new();
        self.write(vars, &mut out)?;
        Ok(out)
    }

    /// Calls back for every string leaf.
    pub fn each_text<'j>(&'j self, visit: &mut impl FnMut(&'j Json, &'j str)) {
        match &self.kind {
            JsonKind::Text(text) => visit(self, text),
            JsonKind::List(list) => list.iter().for_each(|item| item.each_text(visit)),
            JsonKind::Map(members) => members.iter().for_each(|member| member.value.each_text(visit)),
            _ => {}
        }
    }

    /// Changes every string leaf.
    pub fn change_texts(&mut self, change: &mut impl FnMut(&mut String)) {
        match &mut self.kind {
            JsonKind::Text(text) => change(text),
            JsonKind::List(list) => list.iter_mut().for_each(|item| item.change_texts(change)),
            JsonKind::Map(members) => members.iter_mut().for_each(|member| member.value.change_texts(change)),
            _ => {}
        }
    }

    fn write(&self, vars: &Vars, out: &mut String) -> Result<(), TemplateError> {
        match &self.kind {
            JsonKind::Null => out.push_str("null"),
            JsonKind::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            JsonKind::Number(text) => out.push_str(text),
            JsonKind::Text(text) if text.contains("${") => {
                out.push_str(&Template::parse(text)?.render_leaf(vars)?.to_string());
            }
            JsonKind::Text(text) => out.push_str(&Value::from(text.as_str()).to_string()),
            JsonKind::List(list) => {
                out.push('[');
                for (index, item) in list.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(vars, out)?;
                }
                out.push(']');
            }
            JsonKind::Map(members) => {
                out.push('{');
                for (index, member) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::from(member.key.as_str()).to_string());
                    out.push(':');
                    member.value.write(vars, out)?;
                }
                out.push('}');
            }
        }
        Ok(())
    }
}

/// The byte in the raw text of a string literal (quotes included) that a byte of the decoded string came from.
pub fn raw_offset(literal: &str, decoded: usize) -> usize {
    let mut at = 1;
    let mut seen = 0;
    let bytes = literal.as_bytes();
    while at < bytes.len() && seen < decoded {
        if bytes[at] != b'\\' {
            at += 1;
            seen += 1;
            continue;
        }
        let length = if bytes.get(at + 1) == Some(&b'u') { 6 } else { 2 };
        let end = (at + length).min(literal.len());
        let piece = literal.get(at..end).unwrap_or("");
        // Half of a surrogate pair decodes to nothing by itself; both together make four bytes.
        let text = serde_json::from_str::<String>(&format!("\"{piece}\""));
        seen += text.map_or(2, |text| text.len());
        at = end;
    }
    at
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        if depth > DEPTH {
            return Err(self.error("too many levels of nesting", None));
        }
        let start = self.at;
        let kind = match self.bytes.get(self.at) {
            None => {
                return Err(self
                    .error("the file ends in the middle of a value", Some("is a closing bracket missing?")));
            }
            Some(b'{') => self.map(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => JsonKind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => JsonKind::Number(self.number()?),
            Some(_) => self.word()?,
        };
        Ok(Json { span: start..self.at, kind })
    }

    fn word(&mut self) -> Result<JsonKind, JsonError> {
        for (word, kind) in
            [("true", JsonKind::Bool(true)), ("false", JsonKind::Bool(false)), ("null", JsonKind::Null)]
        {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(kind);
            }
        }
        let rest = &self.text[self.at..];
        let hint = match rest.as_bytes().first() {
            Some(b'\'') => Some("strings stand in double quotes"),
            Some(b'/' | b'#') => Some("JSON has no comments"),
            Some(b'}' | b']') => Some("is there a comma too many before it?"),
            Some(b'$') => Some(
                "only ${protocolVersionDefault}, ${clientCapabilitiesDefault} and ${mcpStubArgs} may stand outside a string",
            ),
            _ => None,
        };
        let end = rest.find([',', '\n', ' ', ']']).filter(|end| *end > 0).unwrap_or(rest.len().min(1));
        let shown = rest.get(..end).unwrap_or("");
        let span = self.at..self.at + rest.chars().next().map_or(0, char::len_utf8).max(shown.len());
        Err(JsonError { span, message: format!("expected a JSON value, found {shown:?}"), hint })
    }

    fn map(&mut self, depth: usize) -> Result<JsonKind, JsonError> {
        let mut members: Vec<JsonMember> = Vec::new();
        self.at += 1;
        loop {
            self.space();
            match self.bytes.get(self.at) {
                Some(b'}') if members.is_empty() => break,
                Some(b'"') => {}
                Some(b'}') => {
                    return Err(
                        self.error("a comma stands before the closing brace", Some("remove the comma"))
                    );
                }
                found => {
                    let hint = match found {
                        Some(b'\'') => "strings stand in double quotes",
                        Some(b'/' | b'#') => "JSON has no comments",
                        _ => "is a comma too many or a quote missing?",
                    };
                    return Err(self.error("expected a key in double quotes", Some(hint)));
                }
            }
            let start = self.at;
            let key = self.string()?;
            let key_span = start..self.at;
            if members.iter().any(|member| member.key == key) {
                let message = format!("the key {key:?} stands twice in this object");
                return Err(JsonError {
                    span: key_span,
                    message,
                    hint: Some("readers of JSON keep only one of them"),
                });
            }
            self.space();
            if self.bytes.get(self.at) != Some(&b':') {
                return Err(self.error("expected a colon after the key", None));
            }
            self.at += 1;
            self.space();
            let value = self.value(depth + 1)?;
            members.push(JsonMember { key, key_span, value });
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => {
                    return Err(self.error(
                        "expected a comma or a closing brace",
                        Some("is a comma missing before this?"),
                    ));
                }
            }
        }
        self.at += 1;
        Ok(JsonKind::Map(members))
    }

    fn list(&mut self, depth: usize) -> Result<JsonKind, JsonError> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.space();
            match self.bytes.get(self.at) {
                Some(b']') if items.is_empty() => break,
                Some(b']') => {
                    return Err(
                        self.error("a comma stands before the closing bracket", Some("remove the comma"))
                    );
                }
                _ => items.push(self.value(depth + 1)?),
            }
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => {
                    return Err(self.error(
                        "expected a comma or a closing bracket",
                        Some("is a comma missing before this?"),
                    ));
                }
            }
        }
        self.at += 1;
        Ok(JsonKind::List(items))
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        let mut end = start + 1;
        loop {
            match self.bytes.get(end) {
                None | Some(b'\n') => {
                    let span = start..end;
                    let hint = Some("a line break inside a string is written \\n");
                    return Err(JsonError { span, message: "this string is not closed".into(), hint });
                }
                Some(b'\\') => end += 2,
                Some(b'"') => break,
                Some(_) => end += 1,
            }
        }
        let literal = &self.text[start..=end];
        let decoded = serde_json::from_str::<String>(literal).map_err(|error| JsonError {
            span: start..end + 1,
            message: format!("this string cannot be read: {}", plain(&error)),
            hint: Some("a backslash is written \\\\, so the expression \\d is \"\\\\d\""),
        })?;
        self.at = end + 1;
        Ok(decoded)
    }

    fn number(&mut self) -> Result<String, JsonError> {
        let rest = &self.text[self.at..];
        let length =
            rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(rest.len());
        let text = &rest[..length];
        if serde_json::from_str::<serde_json::Number>(text).is_err() {
            let span = self.at..self.at + length;
            return Err(JsonError { span, message: format!("{text} is not a JSON number"), hint: None });
        }
        self.at += length;
        Ok(text.to_owned())
    }

    fn error(&self, message: &str, hint: Option<&'static str>) -> JsonError {
        let end = self.text[self.at..].chars().next().map_or(self.at, |c| self.at + c.len_utf8());
        JsonError { span: self.at..end, message: message.to_owned(), hint }
    }
}

/// A reader's message without the line and column that do not fit our text.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_places_are_kept() {
        let text = "{ \"id\": 1.0e0, \"big\": 123456789012345678901234567890, \"a\": [\"x\\u00e9\", null] }";
        let json = Json::read(text).unwrap();
        assert_eq!(
            json.render(&Vars::new()).unwrap(),
            "{\"id\":1.0e0,\"big\":123456789012345678901234567890,\"a\":[\"xé\",null]}"
        );
        let leaf = json.at_pointer("/a/0").unwrap();
        assert_eq!(&text[leaf.span.clone()], "\"x\\u00e9\"");
    }

    #[test]
    fn broken_text_says_where_and_what() {
        for (text, at, words) in [
            ("{\"a\": 1,}", 8, "comma stands before"),
            ("{\"a\" 1}", 5, "colon"),
            ("{\"a\": 1 \"b\": 2}", 8, "comma or a closing brace"),
            ("{\"a\": 'x'}", 6, "expected a JSON value"),
            ("[1, 2", 5, "comma or a closing bracket"),
            ("{\"a\": \"\\d\"}", 6, "cannot be read"),
            ("{\"a\": 01}", 6, "not a JSON number"),
            ("{\"a\": 1, \"a\": 2}", 9, "stands twice"),
            ("{} x", 3, "end of the file"),
            ("", 0, "middle of a value"),
            ("{\"a\": ${nope}}", 6, "expected a JSON value"),
        ] {
            let error = Json::read(text).unwrap_err();
            assert_eq!(error.span.start, at, "{text}: {error:?}");
            assert!(error.message.contains(words), "{text}: {error:?}");
        }
    }

    #[test]
    fn a_place_in_a_decoded_string_leads_back_to_the_file() {
        let literal = "\"a\\n\\u00e9${x}\"";
        let decoded: String = serde_json::from_str(literal).unwrap();
        let hole = decoded.find("${").unwrap();
        assert_eq!(raw_offset(literal, hole), literal.find("${").unwrap());
    }

    #[test]
    fn endless_nesting_is_refused_without_a_crash() {
        assert!(Json::read(&"[".repeat(100_000)).unwrap_err().message.contains("nesting"));
    }
}
