//! Small helpers over JSON trees, and numbers that keep their text.

use serde_json::{Map as Object, Value};

/// A JSON object.
pub(crate) type Map = Object<String, Value>;

/// Stands before the text of a number that a tree of `Value` would not give back as it was written.
const MARK: &str = "\u{E000}number:";
const OPEN: &str = "\"\u{E000}number:";

/// Parses JSON text, keeping the text of unusual numbers (long integers, fractions, exponents) behind a mark.
/// Returns the tree and whether a mark was used.
pub(crate) fn parse(text: &str) -> Option<(Value, bool)> {
    match marked(text) {
        Some(text) => serde_json::from_str(&text).ok().map(|value| (value, true)),
        None => serde_json::from_str(text).ok().map(|value| (value, false)),
    }
}

/// Turns marked numbers back into their text.
pub(crate) fn unmark(text: String) -> String {
    if !text.contains(OPEN) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(OPEN) {
        out.push_str(&rest[..at]);
        rest = &rest[at + OPEN.len()..];
        let end = rest.find('"').unwrap_or(rest.len());
        // A quote behind a backslash opens nothing: there the mark is somebody's text.
        if out.ends_with('\\') || !is_number(&rest[..end]) {
            out.push_str(OPEN);
            continue;
        }
        out.push_str(&rest[..end]);
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// A tree as JSON text, to be shown inside a string: no mark is left in it.
pub(crate) fn written(value: &Value) -> String {
    unmark(value.to_string())
}

/// A value as text for a reader: a string itself, anything else as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) if !text.starts_with(MARK) => text.clone(),
        other => written(other),
    }
}

/// The text with unusual numbers marked, or `None` when there are none.
fn marked(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'-' | b'0'..=b'9' => {
                let end = number_end(bytes, at);
                if is_unusual(&text[at..end]) {
                    if text.contains(MARK) || text.contains("\\ue000") || text.contains("\\uE000") {
                        return None;
                    }
                    out.push_str(&text[copied..at]);
                    out.push_str(OPEN);
                    out.push_str(&text[at..end]);
                    out.push('"');
                    copied = end;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn number_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while at < bytes.len() && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
        at += 1;
    }
    at
}

fn is_unusual(number: &str) -> bool {
    number.len() > 18 || number == "-0" || number.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

/// The object inside `value`, or nothing.
pub(crate) fn into_map(value: Value) -> Option<Map> {
    match value {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

/// A string field, borrowed.
pub(crate) fn text<'a>(map: &'a Map, field: &str) -> Option<&'a str> {
    map.get(field).and_then(Value::as_str)
}

/// Builds an object from pairs.
pub(crate) fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Removes and returns `map._meta.<key>`, and an emptied `_meta` with it.
pub(crate) fn take_meta(map: &mut Map, key: &str) -> Map {
    let Some(Value::Object(meta)) = map.get_mut("_meta") else { return Map::new() };
    let Some(found) = meta.get(key).and_then(Value::as_object).cloned() else { return Map::new() };
    meta.shift_remove(key);
    if meta.is_empty() {
        map.shift_remove("_meta");
    }
    found
}

/// Puts `value` at `map._meta.<key>.<field>`.
pub(crate) fn put_meta(map: &mut Map, key: &str, field: &str, value: Value) {
    let meta = map.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    if !meta.is_object() {
        *meta = Value::Object(Map::new());
    }
    let Some(meta) = meta.as_object_mut() else { return };
    let slot = meta.entry(key.to_owned()).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    if let Some(slot) = slot.as_object_mut() {
        slot.insert(field.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusual_number_keeps_its_text() {
        for text in [r#"{"a":12345678901234567890123,"b":[1.0,1e3,-0],"c":"1.5"}"#, r#"{"a":7}"#, "[1.50]"] {
            let (value, _) = parse(text).unwrap();
            assert_eq!(unmark(value.to_string()), text);
        }
    }

    #[test]
    fn text_that_already_holds_the_mark_is_left_alone() {
        let text = "{\"a\":\"\u{E000}number:x\",\"b\":1.5}";
        let (value, marked) = parse(text).unwrap();
        assert!(!marked);
        assert_eq!(value.to_string(), text);
    }

    #[test]
    fn a_tree_shown_as_text_has_its_numbers_and_no_mark() {
        let (value, _) = parse(r#"{"score":0.5,"of":[12345678901234567890123]}"#).unwrap();
        assert_eq!(text_of(&value), r#"{"score":0.5,"of":[12345678901234567890123]}"#);
        assert_eq!(text_of(&value["score"]), "0.5");
        assert_eq!(text_of(&Value::from("said")), "said");
    }

    #[test]
    fn only_a_marked_number_is_unmarked() {
        for text in
            ["a \"\u{E000}number:0.5\" b", "\u{E000}number:{", "\u{E000}number:1.2.3", "\u{E000}number:"]
        {
            let json = Value::from(text).to_string();
            assert_eq!(unmark(json.clone()), json);
        }
    }
}
