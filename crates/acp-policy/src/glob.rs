//! The small wildcard language of patterns.

/// Matches `text` against `pattern`, in which `*` stands for any run of characters, none included.
pub(crate) fn any_star(pattern: &str, text: &str) -> bool {
    any_star_from(pattern, text, &[0])
}

/// Whether the pattern matches what stands between one of `starts`, counted in characters, and the end of `text`.
pub(crate) fn any_star_from(pattern: &str, text: &str, starts: &[usize]) -> bool {
    let tokens: Vec<Token> =
        pattern.chars().map(|c| if c == '*' { Token::Deep } else { Token::Char(c) }).collect();
    matches(&tokens, text, starts)
}

/// Matches a path: `*` stays inside one component, `**` crosses components, `**/` is any number of folders.
pub(crate) fn path(pattern: &str, text: &str) -> bool {
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let (token, len) = if rest.starts_with("**/") {
            (Token::Folders, 3)
        } else if rest.starts_with("**") {
            (Token::Deep, 2)
        } else if c == '*' {
            (Token::Shallow, 1)
        } else {
            (Token::Char(c), c.len_utf8())
        };
        tokens.push(token);
        rest = &rest[len..];
    }
    matches(&tokens, text, &[0])
}

enum Token {
    Char(char),
    /// Any run of characters.
    Deep,
    /// Any run without a slash.
    Shallow,
    /// Nothing, or anything that ends in a slash.
    Folders,
}

/// Keeps the set of positions reached so far: no backtracking, so the cost is pattern times text.
fn matches(pattern: &[Token], text: &str, starts: &[usize]) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut reached = vec![false; text.len() + 1];
    for start in starts {
        reached[*start] = true;
    }
    for token in pattern {
        let mut next = vec![false; text.len() + 1];
        let mut before = false;
        for at in 0..=text.len() {
            let last = at.checked_sub(1).map(|i| (text[i], reached[i], next[i]));
            next[at] = match (token, last) {
                (Token::Char(c), Some((seen, true, _))) => seen == *c,
                (Token::Char(_), _) => false,
                (Token::Deep, last) => reached[at] || last.is_some_and(|(_, _, open)| open),
                (Token::Shallow, last) => reached[at] || last.is_some_and(|(c, _, open)| open && c != '/'),
                (Token::Folders, last) => reached[at] || last.is_some_and(|(c, _, _)| before && c == '/'),
            };
            before |= reached[at];
        }
        reached = next;
    }
    reached[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run() {
        for (pattern, text, hit) in [
            ("git *", "git status", true),
            ("git *", "git ", true),
            ("git *", "gitk", false),
            ("*", "", true),
            ("a*b*c", "a--b--c", true),
            ("a*b*c", "a--c--b", false),
            ("npm test", "npm test", true),
            ("npm test", "npm tests", false),
        ] {
            assert_eq!(any_star(pattern, text), hit, "{pattern} on {text}");
        }
    }

    #[test]
    fn in_paths_one_star_stays_in_its_folder() {
        for (pattern, text, hit) in [
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/deep/a.rs", false),
            ("src/**", "src/deep/a.rs", true),
            ("**/a.rs", "a.rs", true),
            ("**/a.rs", "x/y/a.rs", true),
            ("src/**/*.rs", "src/a.rs", true),
            ("src/**", "lib/a.rs", false),
            ("**/a.rs", "xa.rs", false),
            ("**/a.rs", "x/ya.rs", false),
        ] {
            assert_eq!(path(pattern, text), hit, "{pattern} on {text}");
        }
    }

    #[test]
    fn many_stars_stay_quick() {
        assert!(!any_star(&"*a".repeat(60), &"a".repeat(50).repeat(40).replace('a', "b")));
    }
}
