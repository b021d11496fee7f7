//! JSON that can be shown in a terminal as it is.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::hidden::is_hidden;

/// The same JSON with every character that is not seen as an escape. JSON has such characters only in strings, where the
/// escape means the same; what stands between values (spaces, newlines) stays.
#[must_use]
pub fn escaped(json: &str) -> Cow<'_, str> {
    let hidden = |c: char| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t');
    if json.is_ascii() && !json.contains('\u{7f}') || !json.contains(hidden) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_mean_the_same() {
        let value = serde_json::json!({ "a\u{202e}": "\u{9b}31m\u{e0041}\u{7f}\u{fffe}\u{1ffff}é\n" });
        let plain = value.to_string();
        let shown = escaped(&plain);
        assert!(!shown.chars().any(is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
        assert!(matches!(escaped(r#"{"a":"é"}"#), Cow::Borrowed(_)));
    }
}
