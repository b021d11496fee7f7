//! What the parsers of some languages can bear.
//!
//! A grammar may have a scanner of its own, whose state is kept in 1 KB beside every token. In these four languages the
//! process ends where it does not fit, so texts that come near to that are not parsed. Nothing here knows what is code
//! and what is not: more is counted than a scanner would hold. In Python and YAML ordinary texts are far from the limits
//! all the same. In Kotlin and Ruby, where each quote may be one more open string to a parser that makes up for an error,
//! long ones are not, and their parser is watched.

use std::collections::BTreeSet;

use ast_grep_language::SupportLang;

use crate::watch::LONGEST_WORD;

/// Python keeps two bytes for each indentation, beside one for each of up to 255 open strings.
const PYTHON_COLUMNS: usize = 380;
/// YAML keeps ten bytes, and four for each mapping, each sequence and a text that is open.
const YAML_OPEN: usize = 250;
/// Columns and rows are numbers of 16 bits in YAML.
const YAML_COLUMN: usize = 1 << 15;
const YAML_ROWS: usize = 1 << 16;
/// Kotlin keeps two bytes for each open string.
const KOTLIN_QUOTES: usize = 500;
/// Ruby keeps the word of each open here-document and four bytes, and five bytes for each open literal. Where it does not
/// fit by far, nothing is kept; only with the last word may it be too much.
const RUBY_OPEN: usize = 1000;

/// How much a text asks of its language's scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Burden {
    /// Less than it bears.
    Light,
    /// Perhaps more than it bears.
    Heavy,
    /// More or less, as the parser takes the text: it has to be watched.
    Unknown,
}

/// What parsing the text as this language asks of its scanner.
pub(crate) fn burden(text: &str, language: SupportLang) -> Burden {
    let bytes = text.as_bytes();
    let (is_light, otherwise) = match language {
        SupportLang::Python => (are_few(python(bytes), PYTHON_COLUMNS), Burden::Heavy),
        SupportLang::Yaml => (yaml(bytes), Burden::Heavy),
        SupportLang::Kotlin => {
            (memchr::memchr_iter(b'"', bytes).nth(KOTLIN_QUOTES).is_none(), Burden::Unknown)
        }
        SupportLang::Ruby => (ruby(bytes), Burden::Unknown),
        _ => (true, Burden::Light),
    };
    if is_light { Burden::Light } else { otherwise }
}

/// Whether there are at most so many different columns: what is open at one moment begins further right each time.
fn are_few(columns: impl Iterator<Item = usize>, most: usize) -> bool {
    let (mut seen, mut last) = (BTreeSet::new(), 0);
    for column in columns {
        if column != last && seen.insert(column) && seen.len() > most {
            return false;
        }
        last = column;
    }
    true
}

/// Where lines begin; a line of nothing but a backslash goes on in the next. A comment ends at a zero byte too.
fn python(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut column = 0;
        loop {
            match bytes.get(at..)? {
                [b' ', ..] => column += 1,
                [b'\t', ..] => column += 8,
                [b'\r' | b'\n' | b'\x0c', ..] => column = 0,
                [b'\\', b'\n', ..] => at += 1,
                [b'\\', b'\r', b'\n', ..] => at += 2,
                [] => return None,
                [..] => break,
            }
            at += 1;
        }
        at = memchr::memchr2(b'\n', 0, &bytes[at..]).map_or(bytes.len(), |end| at + end);
        at += usize::from(bytes.get(at) == Some(&0));
        Some(column)
    })
}

/// Whether few mappings and sequences can be open at any time. What is open begins further right than what is open around
/// it, except that a sequence may begin where its mapping does.
fn yaml(bytes: &[u8]) -> bool {
    let (mut keys, mut dashes, mut rows) = (BTreeSet::new(), BTreeSet::new(), 0);
    let bytes = bytes.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(bytes);
    for line in bytes.split(|byte| matches!(byte, b'\n' | b'\r')) {
        rows += 1;
        for (column, is_dash) in beginnings(line) {
            if column >= YAML_COLUMN {
                return false;
            }
            if is_dash {
                dashes.insert(column)
            } else {
                keys.insert(column)
            };
        }
        // A row that has the number of an earlier one is taken for it once.
        if keys.len() + dashes.len() + rows / YAML_ROWS > YAML_OPEN {
            return false;
        }
    }
    true
}

/// Where mappings and sequences may begin in a line, and whether it is a sequence: behind the line's spaces and the marks
/// (`-`, `?`, `:`, a tag, an anchor) that follow there, and at each mark behind a mark. A dash between two words is none,
/// and a word is a key only where a colon ends a word of the line.
fn beginnings(line: &[u8]) -> impl Iterator<Item = (usize, bool)> + '_ {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | 0);
    let has_colon = memchr::memchr_iter(b':', line).any(|at| line.get(at + 1).is_none_or(is_blank));
    // Columns are characters.
    let is_first = |byte: &&u8| **byte & 0xC0 != 0x80;
    let (mut rest, mut next, mut is_beginning, mut was_mark) = (line, 0, true, false);
    std::iter::from_fn(move || {
        loop {
            let blank = rest.iter().take_while(|byte| is_blank(byte)).count();
            let first = rest.get(blank)?;
            let end = rest[blank..].iter().position(is_blank).map_or(rest.len(), |length| blank + length);
            let (word, column) = (&rest[blank..end], next + blank);
            next = column + word.iter().filter(is_first).count();
            rest = &rest[end..];
            let is_dash = word == b"-";
            let is_sign = is_dash || word == b"?" || word == b":";
            let is_mark = is_sign || word == b"---" || b"!&*".contains(first);
            let counts = is_beginning || (was_mark && is_mark);
            (is_beginning, was_mark) = (is_beginning && is_mark, is_mark);
            if counts && (is_sign || has_colon) {
                return Some((column, is_dash));
            }
        }
    })
}

/// Whether no more can be open than there is room for: all that may begin a literal or a here-document, as if nothing ever
/// ended. Without a here-document there always is.
fn ruby(bytes: &[u8]) -> bool {
    let mut words = memchr::memmem::find_iter(bytes, "<<").filter_map(|at| here_word(&bytes[at + 2..]));
    let size = words.try_fold(0_usize, |size, word| (word <= LONGEST_WORD).then_some(size + 4 + word));
    let is_opener = |byte: &&u8| matches!(byte, b'"' | b'\'' | b'`' | b'/' | b'%');
    size.is_some_and(|size| size == 0 || size + 5 * bytes.iter().filter(is_opener).count() <= RUBY_OPEN)
}

/// How long the word of a here-document is that begins with these bytes. In quotes it may go over lines.
fn here_word(rest: &[u8]) -> Option<usize> {
    let rest = rest.strip_prefix(b"-").or_else(|| rest.strip_prefix(b"~")).unwrap_or(rest);
    let (word, end) = match rest {
        [quote @ (b'"' | b'\'' | b'`'), word @ ..] => (word, memchr::memchr(*quote, word)),
        word => {
            let is_end = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric() && *byte != b'_';
            (word, word.iter().position(is_end))
        }
    };
    Some(end.unwrap_or(word.len())).filter(|length| *length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(from: usize, to: usize, line: &str) -> String {
        (from..to).map(|column| format!("{}{line}\n", " ".repeat(column))).collect()
    }

    #[test]
    fn columns_are_counted_once_each() {
        let python = |text: &str| python(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(python("a\n  b\n\tc\n \\\n  d\n   \n e\n#\0  f"), [0, 2, 8, 3, 1, 0, 2]);
        let yaml = |line: &str| beginnings(line.as_bytes()).collect::<Vec<_>>();
        let (key, dash) = (|column| (column, false), |column| (column, true));
        assert_eq!(yaml("  - ? !a &é key: value - value"), [dash(2), key(4), key(6), key(9), key(12)]);
        assert_eq!(yaml("--- - a"), [dash(4)]);
        assert_eq!(yaml("\"a\": - - b c"), [key(0), dash(7)]);
        assert!(yaml("   ").is_empty());
        assert!(yaml("  some words - and a http://url").is_empty());
    }

    #[test]
    fn what_scanners_cannot_hold_is_not_parsed() {
        use SupportLang as L;
        for (language, text) in [
            (L::Python, steps(0, 400, "if a:")),
            (L::Python, (0..400).map(|column| format!("#\0{}if a:\n", " ".repeat(column))).collect()),
            (L::Yaml, steps(0, 260, "a:")),
            (L::Yaml, steps(0, 260, "a:").replace('\n', "\r")),
            (L::Yaml, "- ".repeat(260)),
            (L::Yaml, format!("{}- a", " ".repeat(YAML_COLUMN))),
        ] {
            assert_eq!(burden(&text, language), Burden::Heavy, "{language}");
        }
    }

    #[test]
    fn ordinary_texts_are_parsed_however_long_they_are() {
        use SupportLang as L;
        for (language, text) in [
            (L::Python, steps(0, 100, "if a:").repeat(100)),
            (L::Yaml, format!("text: |\n{}", steps(2, 100, "- a: b").repeat(100))),
            (L::Yaml, format!("text: |\n{}", steps(2, 400, "words - words"))),
            (L::Yaml, format!("a: {{{}}}\n", "b: - c, ".repeat(1000))),
            (L::Yaml, "a:\n  - b: c\n".repeat(10_000)),
            (L::Kotlin, "val a = \"${b}\"\n".repeat(200)),
            (L::Ruby, "a << \"#{b}\"\nclass << self; end\n".repeat(1000)),
            (L::Ruby, "a<<b\n".repeat(100)),
        ] {
            assert_eq!(burden(&text, language), Burden::Light, "{language}");
        }
    }
}
