//! Text that came from outside: an agent, a client, a file of a repository, a peer on NATS.
//!
//! [`Untrusted`] is such text on its way to a person. It has no `Display` of its own: whoever shows it says where
//! ([`line`](Untrusted::line), [`block`](Untrusted::block), [`markdown`](Untrusted::markdown)), and each of these cleans it.
//! [`redact`] takes secrets out of text, JSON values and conversations.
//! This crate never reads a file or the environment, and it never prints.
//!
//! Read first: [`Untrusted`], [`redact::text`], [`redact::value`].
#![deny(clippy::disallowed_methods)]

mod commands;
mod hidden;
mod json;
pub mod redact;
mod untrusted;

pub use commands::CommandGuard;
pub use json::escaped as json;
pub use untrusted::{Untrusted, UntrustedBlock, UntrustedLine, UntrustedMarkdown};

/// Text from outside on one line, for people.
#[must_use]
pub fn line(text: &str) -> String {
    Untrusted::new(text).line().to_string()
}

/// Text from outside with marks of the same length in place of what is not seen, so that places in it, counted in bytes,
/// stay what they are.
#[must_use]
pub fn same_places(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let ends_line = c == '\n' || (c == '\r' && rest.peek() == Some(&'\n'));
        if ends_line || c == '\t' || !hidden::is_hidden(c) {
            shown.push(c);
        } else {
            shown.extend(std::iter::repeat_n('?', c.len_utf8()));
        }
    }
    shown
}

/// Text from outside where several lines are expected, for people.
#[must_use]
pub fn block(text: &str) -> String {
    Untrusted::new(text).block().to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn places_stay_where_they_are() {
        let text = "a\u{202e}\u{1b}[2Jb\r\nc\td\u{9b}\re";
        let shown = super::same_places(text);
        assert_eq!(shown, "a????[2Jb\r\nc\td???e");
        assert_eq!(shown.len(), text.len());
    }
}
