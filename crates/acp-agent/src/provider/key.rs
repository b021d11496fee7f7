//! A key that nobody sees.

use std::fmt;

use reqwest::header::HeaderValue;

/// What is shorter is nobody's secret.
const SHORTEST_SECRET: usize = 6;

/// A secret that is only ever written into a request's header.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Takes a key as people paste it: with spaces and newlines around. An empty one is none.
    pub fn new(text: &str) -> Option<Key> {
        let text = text.trim();
        (!text.is_empty()).then(|| Key(text.to_owned()))
    }

    /// A header's value with this key; `None` when it has characters that no header can carry.
    pub(super) fn header(&self, prefix: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The secret itself, for what is computed from it.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// A text of the other side, which may quote the key, without it. What is so short is a stand-in for servers that
    /// want no key, and part of many a word.
    pub(super) fn scrub(&self, text: &str) -> String {
        if self.0.len() < SHORTEST_SECRET {
            return text.to_owned();
        }
        text.replace(&self.0, "[key]")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let key = Key::new(" sk-secret\n").expect("a key");
        assert_eq!(format!("{key:?}"), "Key(…)");
        let header = key.header("Bearer ").expect("a header");
        assert!(!format!("{header:?}").contains("secret"));
        assert_eq!(header.as_bytes(), b"Bearer sk-secret");
        assert_eq!(key.scrub("the key sk-secret is wrong"), "the key [key] is wrong");
    }

    #[test]
    fn what_stands_in_for_a_key_spoils_no_words() {
        assert_eq!(Key::new("k").expect("a key").scrub("ask again"), "ask again");
        assert_eq!(Key::new("secret").expect("a key").scrub("a secret"), "a [key]");
    }

    #[test]
    fn what_cannot_be_a_key_is_none() {
        assert_eq!(Key::new(" \n"), None);
        assert!(Key::new("two\nlines").expect("a key").header("").is_none());
    }
}
