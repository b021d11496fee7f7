//! What the parsers of some languages can bear.
//!
//! A grammar may have a scanner of its own, whose state is kept in 1 KB beside every token. In these four languages the
//! process ends where it does not fit, so texts that come near to that are not parsed. Nothing here knows what is code
//! and what is not: more is counted than a scanner would hold, and ordinary texts are far from the limits.

use std::collections::BTreeSet;

use ast_grep_language::SupportLang;

/// Python keeps two bytes for each indentation, beside one for each of up to 255 open strings.
const PYTHON_COLUMNS: usize = 380;
/// YAML keeps four bytes for each mapping and sequence; at one column there may be both.
const YAML_COLUMNS: usize = 120;
/// Kotlin keeps two bytes for each open string, and a string inside a string stands in `${…}`.
const KOTLIN_HOLES: usize = 500;
/// Ruby keeps the word of each open here-document and four bytes, and five bytes for each open literal.
const RUBY_WORD: usize = 120;
const RUBY_OPEN: usize = 700;

/// Whether the text can be parsed as this language.
pub(crate) fn bears(text: &str, language: SupportLang) -> bool {
    let bytes = text.as_bytes();
    match language {
        SupportLang::Python => are_few(python(bytes), PYTHON_COLUMNS),
        SupportLang::Yaml => are_few(bytes.split(|byte| *byte == b'\n').flat_map(yaml), YAML_COLUMNS),
        SupportLang::Kotlin => memchr::memmem::find_iter(bytes, "${").nth(KOTLIN_HOLES).is_none(),
        SupportLang::Ruby => ruby(bytes),
        _ => true,
    }
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

/// Where lines begin; a line of nothing but a backslash goes on in the next.
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
        at = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end);
        Some(column)
    })
}

/// Where something may begin in a line: behind its spaces and the marks (`-`, `?`, `:`, a tag, an anchor) that follow
/// there, and at each mark behind a mark. A dash between two words is none.
fn yaml(line: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let (mut at, mut is_beginning, mut was_mark) = (0, true, false);
    std::iter::from_fn(move || {
        loop {
            at += line[at..].iter().take_while(|byte| is_blank(byte)).count();
            let first = line.get(at)?;
            let column = at;
            at += line[at..].iter().position(is_blank).unwrap_or(line.len() - at);
            let word = &line[column..at];
            let is_mark =
                word == b"---" || word.len() == 1 && b"-?:".contains(first) || b"!&*".contains(first);
            let counts = is_beginning || (was_mark && is_mark);
            (is_beginning, was_mark) = (is_beginning && is_mark, is_mark);
            if counts {
                return Some(column);
            }
        }
    })
}

/// Whether few here-documents and literals with code in them are open at any time. A here-document is open until a line
/// with nothing but its word.
fn ruby(bytes: &[u8]) -> bool {
    let (mut open, mut size, mut depth) = (Vec::<&[u8]>::new(), 0, 0_usize);
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Some(ended) = open.iter().position(|word| *word == line.trim_ascii()) {
            size -= 4 + open.remove(ended).len();
        }
        for word in memchr::memmem::find_iter(line, "<<").filter_map(|at| here_word(&line[at + 2..])) {
            if word.len() > RUBY_WORD {
                return false;
            }
            open.push(word);
            size += 4 + word.len();
        }
        depth += memchr::memmem::find_iter(line, "#{").count();
        if size + 5 * depth > RUBY_OPEN {
            return false;
        }
        depth = depth.saturating_sub(memchr::memchr_iter(b'}', line).count());
    }
    true
}

/// The word of a here-document that begins with these bytes.
fn here_word(rest: &[u8]) -> Option<&[u8]> {
    let rest = rest.strip_prefix(b"-").or_else(|| rest.strip_prefix(b"~")).unwrap_or(rest);
    let (word, end) = match rest {
        [quote @ (b'"' | b'\'' | b'`'), word @ ..] => (word, word.iter().position(|byte| byte == quote)),
        word => {
            let is_end = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric() && *byte != b'_';
            (word, word.iter().position(is_end))
        }
    };
    Some(&word[..end.unwrap_or(word.len())]).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(from: usize, to: usize, line: &str) -> String {
        (from..to).map(|column| format!("{}{line}\n", " ".repeat(column))).collect()
    }

    #[test]
    fn columns_are_counted_once_each() {
        assert_eq!(python(b"a\n  b\n\tc\n \\\n  d\n   \n e").collect::<Vec<_>>(), [0, 2, 8, 3, 1]);
        let columns = |line: &str| yaml(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(columns("  - ? !a &b key: value - value"), [2, 4, 6, 9, 12]);
        assert_eq!(columns("--- - a"), [0, 4, 6]);
        assert_eq!(columns("\"a\" - - b c"), [0, 6]);
        assert!(columns("   ").is_empty());
    }

    #[test]
    fn what_scanners_cannot_hold_is_not_parsed() {
        use SupportLang as L;
        for (language, text) in [
            (L::Python, steps(0, 400, "if a:")),
            (L::Yaml, steps(0, 130, "a:")),
            (L::Yaml, "- ".repeat(130)),
            (L::Kotlin, "\"${".repeat(600)),
            (L::Ruby, format!("x = <<~{}\n", "A".repeat(200))),
            (L::Ruby, format!("x = <<~'{}'\n", "A ".repeat(100))),
            (L::Ruby, "\"#{".repeat(200)),
        ] {
            assert!(!bears(&text, language), "{language}");
        }
    }

    #[test]
    fn ordinary_texts_are_parsed_however_long_they_are() {
        use SupportLang as L;
        for (language, text) in [
            (L::Python, steps(0, 100, "if a:").repeat(100)),
            (L::Yaml, format!("text: |\n{}", steps(2, 100, "- a: b").repeat(100))),
            (L::Yaml, format!("a: {{{}}}\n", "b: - c, ".repeat(1000))),
            (L::Kotlin, "val a = \"${b}\"\n".repeat(400)),
            (L::Ruby, "a << \"#{b}\" << <<~EOS\n#{c}\nEOS\nclass << self; end\n".repeat(1000)),
        ] {
            assert!(bears(&text, language), "{language}");
        }
    }
}
