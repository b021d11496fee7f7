//! Words in code and in questions: `parseHTTPHeader_fast` is parse, http, header, fast.

use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};

use crate::irregular;

/// Words of a question that say nothing about the code that answers it.
const EMPTY: &[&str] = &[
    "a", "about", "above", "actually", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at",
    "be", "because", "been", "before", "being", "between", "both", "but", "by", "can", "cannot", "could",
    "did", "do", "does", "doing", "done", "during", "each", "either", "else", "ever", "every", "for", "from",
    "had", "has", "have", "having", "he", "her", "here", "how", "however", "i", "if", "in", "into", "is",
    "it", "its", "itself", "just", "may", "me", "might", "more", "most", "must", "my", "of", "off", "on",
    "once", "one", "only", "or", "other", "our", "out", "over", "own", "s", "same", "shall", "should", "so",
    "some", "such", "t", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "those", "through", "to", "too", "under", "until", "up", "upon", "us", "very", "was", "we", "were",
    "what", "when", "where", "whether", "which", "while", "who", "whole", "whose", "why", "will", "with",
    "within", "without", "would", "yet", "you", "your",
];

/// Words about code as such: they help only when little else was said.
const GENERAL: &[&str] = &[
    "class",
    "code",
    "codebase",
    "defined",
    "definition",
    "file",
    "find",
    "function",
    "handled",
    "happen",
    "happens",
    "implement",
    "implementation",
    "implemented",
    "implements",
    "logic",
    "method",
    "module",
    "part",
    "place",
    "program",
    "project",
    "show",
    "source",
    "struct",
    "thing",
    "things",
    "use",
    "used",
    "using",
    "way",
    "work",
    "works",
];

/// Whether the word says nothing.
pub(crate) fn is_empty(word: &str) -> bool {
    EMPTY.binary_search(&word).is_ok()
}

/// Whether the word is about code as such.
pub(crate) fn is_general(word: &str) -> bool {
    GENERAL.binary_search(&word).is_ok()
}

/// The word without its endings: parsing, parses and parsed are the same, and so are sent and send.
pub(crate) fn stem(word: &str) -> String {
    if word.len() < 3 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    Stemmer::create(Algorithm::English).stem(irregular::base(word)).into_owned()
}

/// The beginning that all words with this stem share: `hoping` has the stem `hope`, `studies` has `studi`.
pub(crate) fn root(stem: &str) -> &str {
    let cut = stem.trim_end_matches(['e', 'i', 'y']);
    let cut = if cut.ends_with("bl") { &cut[..cut.len() - 1] } else { cut };
    if cut.len() < 2 { stem } else { cut }
}

/// The kind of a byte where words are split.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Other,
}

/// Letters beyond ASCII count as lower case: they never split a word.
fn class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' | 0x80.. => Class::Lower,
        b'A'..=b'Z' => Class::Upper,
        b'0'..=b'9' => Class::Digit,
        _ => Class::Other,
    }
}

/// Whether a word begins at this byte.
pub(crate) fn begins(bytes: &[u8], at: usize) -> bool {
    let now = class(bytes[at]);
    if now == Class::Other {
        return false;
    }
    let Some(before) = at.checked_sub(1).map(|index| class(bytes[index])) else { return true };
    match (before, now) {
        (Class::Other, _) => true,
        (Class::Lower, Class::Upper) => true,
        // The last capital of a row begins the next word: HTTPHeader.
        (Class::Upper, Class::Upper) => bytes.get(at + 1).is_some_and(|next| class(*next) == Class::Lower),
        (before, now) => (before == Class::Digit) != (now == Class::Digit),
    }
}

/// The word that begins here.
pub(crate) fn word_at(bytes: &[u8], at: usize) -> Range<usize> {
    let mut end = at + 1;
    while end < bytes.len() && class(bytes[end]) != Class::Other && !begins(bytes, end) {
        end += 1;
    }
    at..end
}

/// All words of a text, in lower case.
pub(crate) fn split(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if begins(bytes, at) {
            let word = word_at(bytes, at);
            at = word.end;
            found.push(String::from_utf8_lossy(&bytes[word]).to_lowercase());
        } else {
            at += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_order_so_that_they_can_be_searched() {
        assert!(EMPTY.is_sorted());
        assert!(GENERAL.is_sorted());
    }

    #[test]
    fn names_split_at_case_digits_and_underscores() {
        assert_eq!(split("parseHTTPHeader_fast2x"), ["parse", "http", "header", "fast", "2", "x"]);
        assert_eq!(split("snake_case kebab-case größe"), ["snake", "case", "kebab", "case", "größe"]);
        assert_eq!(split("IPv4Addr"), ["i", "pv", "4", "addr"]);
    }

    #[test]
    fn every_form_of_a_word_begins_with_its_root() {
        for forms in [
            &["parse", "parsing", "parsed", "parses"][..],
            &["hope", "hoping", "hoped"],
            &["study", "studies", "studying"],
            &["possible", "possibly"],
            &["connect", "connection", "connected"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.iter().all(|other| *other == stems[0]), "{forms:?} have {stems:?}");
            assert!(forms.iter().all(|form| form.starts_with(root(&stems[0]))), "{forms:?}");
        }
    }
}
