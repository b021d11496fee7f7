//! Paths such as `result.modes[0].id`, as captures, preconditions and explanations write them.

use serde_json::Value;
use std::fmt;

/// A parsed path into a JSON value: keys separated by dots, array positions in brackets.
///
/// A key that holds a dot or a bracket is written `["like.this"]`. A part that is all digits is a key of an object or
/// a position in an array, whichever the value turns out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    parts: Vec<String>,
}

/// Why a path could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the path at character {offset}: {reason}")]
pub struct PathError {
    /// Byte offset inside the path.
    pub offset: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

impl Path {
    /// Reads a path. The empty path is the whole value.
    pub fn parse(text: &str) -> Result<Path, PathError> {
        let mut parts = Vec::new();
        let mut at = 0;
        let bytes = text.as_bytes();
        while at < text.len() {
            match bytes[at] {
                b'[' => at = bracket(text, at, &mut parts)?,
                b'.' if parts.is_empty() => {
                    return Err(PathError { offset: at, reason: "a path does not begin with a dot" });
                }
                b'.' => at = key(text, at + 1, &mut parts)?,
                _ if parts.is_empty() => at = key(text, at, &mut parts)?,
                _ => {
                    return Err(PathError { offset: at, reason: "a dot or a bracket must follow a bracket" });
                }
            }
        }
        Ok(Path { parts })
    }

    /// The value at this path, if there is one.
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.parts.iter().try_fold(value, |here, part| match here {
            Value::Object(map) => map.get(part),
            Value::Array(list) => part.parse::<usize>().ok().and_then(|index| list.get(index)),
            _ => None,
        })
    }

    /// Every value at this path, where a part `*` stands for each element of an array.
    pub fn find_all<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![value];
        for part in &self.parts {
            found = found.into_iter().flat_map(|here| step(here, part)).collect();
        }
        found
    }

    /// The value there, to be changed.
    pub fn find_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        self.parts.iter().try_fold(value, |here, part| match here {
            Value::Object(map) => map.get_mut(part),
            Value::Array(list) => part.parse::<usize>().ok().and_then(|index| list.get_mut(index)),
            _ => None,
        })
    }

    /// The first key, which some paths use as a namespace.
    pub fn first(&self) -> Option<&str> {
        self.parts.first().map(String::as_str)
    }

    /// The path without its first key.
    pub fn rest(&self) -> Path {
        Path { parts: self.parts.iter().skip(1).cloned().collect() }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for part in &self.parts {
            push_key(&mut text, part);
        }
        f.write_str(&text)
    }
}

/// What one part of a path leads to.
fn step<'v>(here: &'v Value, part: &str) -> Vec<&'v Value> {
    match here {
        Value::Array(list) if part == "*" => list.iter().collect(),
        Value::Array(list) => {
            part.parse::<usize>().ok().and_then(|index| list.get(index)).into_iter().collect()
        }
        Value::Object(map) => map.get(part).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Appends a key to a path in its written form.
pub(crate) fn push_key(path: &mut String, key: &str) {
    let plain = !key.is_empty() && !key.contains(['.', '[', ']', '"']);
    if !plain {
        path.push_str(&format!("[{}]", Value::from(key)));
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

fn key(text: &str, from: usize, parts: &mut Vec<String>) -> Result<usize, PathError> {
    let end = text[from..].find(['.', '[']).map_or(text.len(), |found| from + found);
    if end == from {
        return Err(PathError { offset: from, reason: "a key is missing here" });
    }
    parts.push(text[from..end].to_owned());
    Ok(end)
}

fn bracket(text: &str, open: usize, parts: &mut Vec<String>) -> Result<usize, PathError> {
    let inner = open + 1;
    if text[inner..].starts_with('"') {
        let mut stream = serde_json::Deserializer::from_str(&text[inner..]).into_iter::<String>();
        let Some(Ok(name)) = stream.next() else {
            return Err(PathError { offset: inner, reason: "the quoted key is not a JSON string" });
        };
        let end = inner + stream.byte_offset();
        if !text[end..].starts_with(']') {
            return Err(PathError { offset: end, reason: "a closing bracket is missing" });
        }
        parts.push(name);
        return Ok(end + 1);
    }
    let Some(len) = text[inner..].find(']') else {
        return Err(PathError { offset: open, reason: "the bracket is not closed" });
    };
    let digits = &text[inner..inner + len];
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(PathError { offset: inner, reason: "a bracket holds a position or a quoted key" });
    }
    parts.push(digits.to_owned());
    Ok(inner + len + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_reaches_keys_positions_and_quoted_keys() {
        let value = json!({ "a": [ { "b.c": 7 } ], "0": { "x": null } });
        assert_eq!(Path::parse("a[0][\"b.c\"]").unwrap().find(&value), Some(&json!(7)));
        assert_eq!(Path::parse("a.0").unwrap().find(&value), Some(&json!({ "b.c": 7 })));
        assert_eq!(Path::parse("0.x").unwrap().find(&value), Some(&Value::Null));
        assert_eq!(Path::parse("").unwrap().find(&value), Some(&value));
        assert_eq!(Path::parse("a[1]").unwrap().find(&value), None);
    }

    #[test]
    fn a_star_stands_for_each_element_of_an_array() {
        let value = json!({ "a": [ { "b": 1 }, { "c": 2 }, { "b": 3 } ], "*": { "b": 4 } });
        let all =
            |path: &str| Path::parse(path).unwrap().find_all(&value).into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(all("a.*.b"), [json!(1), json!(3)]);
        assert_eq!(all("a.2.b"), [json!(3)]);
        assert_eq!(all("*.b"), [json!(4)]);
        assert!(all("a.*.b.*").is_empty());
    }

    #[test]
    fn a_bad_path_says_where() {
        for (text, offset) in [(".a", 0), ("a..b", 2), ("a[", 1), ("a[x]", 2), ("a[0]b", 4), ("a.", 2)] {
            assert_eq!(Path::parse(text).unwrap_err().offset, offset, "{text}");
        }
    }

    #[test]
    fn a_path_prints_as_it_is_read() {
        for text in ["a.b.c", "a[\"x.y\"].z", ""] {
            assert_eq!(Path::parse(text).unwrap().to_string(), text);
        }
    }
}
