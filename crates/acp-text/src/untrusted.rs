//! Text from outside, and the ways to show it.

use std::fmt::{self, Write};

use crate::commands::CommandGuard;
use crate::hidden::{is_hidden, joins_emoji};

/// Text that came from outside and is about to be shown. It cannot be printed as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untrusted<'a>(&'a str);

impl<'a> Untrusted<'a> {
    /// Marks text as what came from outside.
    #[must_use]
    pub const fn new(text: &'a str) -> Untrusted<'a> {
        Untrusted(text)
    }

    /// For a place with one line: newlines are marks, too.
    #[must_use]
    pub const fn line(self) -> UntrustedLine<'a> {
        UntrustedLine(self.0)
    }

    /// For a place with several lines: newlines and tabs stay.
    #[must_use]
    pub const fn block(self) -> UntrustedBlock<'a> {
        UntrustedBlock(self.0)
    }

    /// For a line of Markdown: nothing in it is markup, a link, HTML, a mention or a workflow command.
    #[must_use]
    pub const fn markdown(self) -> UntrustedMarkdown<'a> {
        UntrustedMarkdown(self.0)
    }
}

/// One line of it.
#[derive(Clone, Copy, Debug)]
pub struct UntrustedLine<'a>(&'a str);

/// Several lines of it.
#[derive(Clone, Copy, Debug)]
pub struct UntrustedBlock<'a>(&'a str);

/// One line of it, in Markdown.
#[derive(Clone, Copy, Debug)]
pub struct UntrustedMarkdown<'a>(&'a str);

impl fmt::Display for UntrustedLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may stand at the beginning of a line.
        let safe = CommandGuard::default().pass(self.0);
        clean(&safe, f, |c, f| match c {
            '\n' => f.write_char('⏎'),
            '\t' => f.write_char(' '),
            c => mark(c, f),
        })
    }
}

impl fmt::Display for UntrustedBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        clean(self.0, f, |c, f| match c {
            '\n' | '\t' => f.write_char(c),
            c => mark(c, f),
        })
    }
}

impl fmt::Display for UntrustedMarkdown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = UntrustedLine(self.0).to_string();
        let mut before: Option<char> = None;
        let mut rest = line.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' if rest.peek().is_some_and(|c| c.is_alphanumeric() || *c == '#') => {
                    f.write_str("&amp;")?;
                }
                '@' => f.write_str("&#64;")?,
                // No address, which would be a link.
                ':' if line.contains("://") => f.write_str("&#58;")?,
                // A backslash before it does not help in a table whose cells are joined later.
                '|' => f.write_str("&#124;")?,
                '\\' | '`' | '*' | '[' | ']' => write!(f, "\\{c}")?,
                '#' | '-' | '+' | '=' | '~' if before.is_none() => write!(f, "\\{c}")?,
                '.' | ')' if before.is_some_and(|c| c.is_ascii_digit()) && starts_a_list(&line) => {
                    write!(f, "\\{c}")?;
                }
                c => f.write_char(c)?,
            }
            before = Some(c);
        }
        Ok(())
    }
}

/// Whether a line of Markdown would be the item of a numbered list.
fn starts_a_list(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let mut rest = rest.chars();
    matches!(rest.next(), Some('.' | ')')) && rest.next().is_none_or(char::is_whitespace)
}

/// Writes text; `other` writes what is not seen.
fn clean(
    text: &str,
    f: &mut fmt::Formatter<'_>,
    other: impl Fn(char, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    if !text.contains(is_hidden) {
        return f.write_str(text);
    }
    let mut rest = text.chars().peekable();
    let mut before = None;
    while let Some(c) = rest.next() {
        match c {
            // The newline of other systems is a newline.
            '\r' if rest.peek() == Some(&'\n') => continue,
            c if is_hidden(c) && !joins_emoji(before, c, rest.peek().copied()) => other(c, f)?,
            c => f.write_char(c)?,
        }
        before = Some(c);
    }
    Ok(())
}

/// A visible mark for what would not be seen.
fn mark(c: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if c.is_control() { f.write_char('\u{fffd}') } else { write!(f, "<U+{:04X}>", u32::from(c)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_steers_the_terminal_or_hides() {
        for (text, line, block) in [
            ("plain é 漢字", "plain é 漢字", "plain é 漢字"),
            ("a\u{1b}]52;c;aGk=\u{7}b", "a\u{fffd}]52;c;aGk=\u{fffd}b", "a\u{fffd}]52;c;aGk=\u{fffd}b"),
            ("two\r\nlines\tand", "two⏎lines and", "two\nlines\tand"),
            ("over\rwrite", "over\u{fffd}write", "over\u{fffd}write"),
            ("a\u{202e}b\u{200b}c", "a<U+202E>b<U+200B>c", "a<U+202E>b<U+200B>c"),
            ("tag\u{e0041}", "tag<U+E0041>", "tag<U+E0041>"),
            ("sep\u{2028}x", "sep<U+2028>x", "sep<U+2028>x"),
            ("👩\u{200d}💻 ❤\u{fe0f}", "👩\u{200d}💻 ❤\u{fe0f}", "👩\u{200d}💻 ❤\u{fe0f}"),
            ("a\u{200d}b", "a<U+200D>b", "a<U+200D>b"),
        ] {
            assert_eq!((crate::line(text).as_str(), crate::block(text).as_str()), (line, block), "{text:?}");
        }
    }

    #[test]
    fn markdown_stays_text() {
        for (text, shown) in [
            ("# heading", "\\# heading"),
            ("issue #5", "issue #5"),
            ("<img src=x onerror=y>", "&lt;img src=x onerror=y&gt;"),
            ("[click](http://evil)", "\\[click\\](http&#58;//evil)"),
            ("::error file=a::gone", ": :error file=a::gone"),
            ("a\n## b", "a⏎## b"),
            ("- item", "\\- item"),
            ("1. item", "1\\. item"),
            ("cost is 1.5", "cost is 1.5"),
            ("1.5", "1.5"),
            ("a & b &lt; &#60;", "a & b &amp;lt; &amp;#60;"),
            ("@everyone", "&#64;everyone"),
            ("a | b `c`", "a &#124; b \\`c\\`"),
            ("agent 1.2: fine", "agent 1.2: fine"),
        ] {
            assert_eq!(Untrusted::new(text).markdown().to_string(), shown);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_shown_without_hidden_characters(text in "\\PC*|(?s).*") {
            let shown = crate::line(&text);
            let hides = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{200b}' | '\u{e0000}'..='\u{e0fff}');
            prop_assert!(!shown.chars().any(hides));
            let shown = crate::block(&text);
            prop_assert!(!shown.chars().any(|c| hides(c) && !matches!(c, '\n' | '\t')));
        }
    }
}
