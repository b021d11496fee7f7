//! The part of a frame that a finding points at.

use std::ops::Range;

use crate::json::{Json, Kind, Tape};

/// Bytes shown before and after the place.
const BEFORE: usize = 48;
const AFTER: usize = 40;
/// The longest underlined part.
const MARKED: usize = 60;

/// A line of text with a marked part, in characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// The text, cut on both sides where it was long.
    pub text: String,
    /// Which characters are meant; empty for the whole.
    pub marked: Range<usize>,
}

/// Where in a frame's text the value of a JSON pointer stands. When the last name of the pointer is missing from
/// the text, the object that lacks it.
#[must_use]
pub fn locate(text: &str, pointer: &str) -> Option<Range<usize>> {
    let mut tape = Tape::default();
    let mut here = tape.read(text)?;
    for name in pointer.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let next = match here.kind() {
            Kind::Array => name.parse().ok().and_then(|index: usize| here.items().nth(index)),
            _ => here.get(&name),
        };
        match next {
            Some(next) => here = next,
            None => break,
        }
    }
    Some(range(text, here))
}

fn range(text: &str, value: Json<'_>) -> Range<usize> {
    let raw = value.raw();
    let start = raw.as_ptr() as usize - text.as_ptr() as usize;
    start..start + raw.len()
}

/// What to show of a frame's text for a pointer.
#[must_use]
pub fn excerpt(text: &str, pointer: &str) -> Excerpt {
    let place = if pointer.is_empty() { None } else { locate(text, pointer) };
    let Some(place) = place else {
        return Excerpt {
            text: printable(&crate::finding::cut(text, BEFORE + MARKED + AFTER)),
            marked: 0..0,
        };
    };
    let end = floor(text, place.end.min(place.start + MARKED));
    let from = floor(text, place.start.saturating_sub(BEFORE));
    let to = floor(text, (end + AFTER).min(text.len()));
    let mut shown = String::new();
    if from > 0 {
        shown.push('…');
    }
    shown.push_str(&printable(&text[from..place.start]));
    let start = shown.chars().count();
    shown.push_str(&printable(&text[place.start..end]));
    let stop = shown.chars().count();
    shown.push_str(&printable(&text[end..to]));
    if to < text.len() {
        shown.push('…');
    }
    Excerpt { text: shown, marked: start..stop.max(start + 1) }
}

fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Control characters, which could do anything to a terminal, as a sign that they were there.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pointed_value_is_marked() {
        let text = r#"{"jsonrpc":"2.0","method":"session/update","params":{"update":{"status":"done","list":[1,{"a~/b":null}]}}}"#;
        assert_eq!(&text[locate(text, "/params/update/status").expect("there")], "\"done\"");
        assert_eq!(&text[locate(text, "/params/update/list/1/a~0~1b").expect("there")], "null");
        assert_eq!(&text[locate(text, "/params/update/title").expect("its parent")], &text[62..104]);
        let shown = excerpt(text, "/params/update/status");
        let marked: String = shown.text.chars().skip(shown.marked.start).take(shown.marked.len()).collect();
        assert_eq!(marked, "\"done\"");
    }

    #[test]
    fn text_that_is_no_json_is_shown_from_its_beginning_without_control_characters() {
        let shown = excerpt("\u{1b}[31mhello", "/x");
        assert_eq!(shown.text, "\u{fffd}[31mhello");
        assert!(shown.marked.is_empty());
    }
}
