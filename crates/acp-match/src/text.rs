//! One expected string: an unanchored regular expression, with a short cut for the plain ones.
//!
//! Most expectations are words such as `^end_turn$`. They need no regex engine, and a test suite compiles thousands.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use fancy_regex::{Regex, RegexBuilder};

/// How many steps a look-around expression may take before it counts as not matching.
const BACKTRACK_LIMIT: usize = 200_000;
/// How many compiled expressions a thread keeps.
const KEPT: usize = 4096;

thread_local! {
    /// Expressions that were compiled before: a run of many tests needs the same ones again and again.
    static COMPILED: RefCell<HashMap<String, Arc<Regex>>> = RefCell::new(HashMap::new());
}

#[derive(Debug, Clone)]
pub(crate) enum Text {
    Word { source: String, word: String, from_start: bool, to_end: bool },
    Regex { regex: Arc<Regex> },
}

/// Whether a text matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hit {
    Yes,
    No,
    /// The backtracking limit was reached.
    GaveUp,
}

impl Text {
    pub(crate) fn compile(source: &str) -> Result<Text, Box<fancy_regex::Error>> {
        if let Some(word) = plain(source) {
            return Ok(word);
        }
        if let Some(regex) = COMPILED.with_borrow(|compiled| compiled.get(source).cloned()) {
            return Ok(Text::Regex { regex });
        }
        let regex = RegexBuilder::new(source).backtrack_limit(BACKTRACK_LIMIT).build();
        let regex = Arc::new(regex.map_err(Box::new)?);
        COMPILED.with_borrow_mut(|compiled| {
            if compiled.len() >= KEPT {
                compiled.clear();
            }
            compiled.insert(source.to_owned(), Arc::clone(&regex));
        });
        Ok(Text::Regex { regex })
    }

    pub(crate) fn source(&self) -> &str {
        match self {
            Text::Word { source, .. } => source,
            Text::Regex { regex } => regex.as_str(),
        }
    }

    pub(crate) fn check(&self, actual: &str) -> Hit {
        let hit = match self {
            Text::Word { word, from_start: true, to_end: true, .. } => actual == word,
            Text::Word { word, from_start: true, .. } => actual.starts_with(word.as_str()),
            Text::Word { word, to_end: true, .. } => actual.ends_with(word.as_str()),
            Text::Word { word, .. } => actual.contains(word.as_str()),
            Text::Regex { regex } => match regex.is_match(actual) {
                Ok(hit) => hit,
                Err(_) => return Hit::GaveUp,
            },
        };
        if hit { Hit::Yes } else { Hit::No }
    }
}

/// What the first group of a regular expression takes from a text; the whole match when it has no group.
pub fn first_group(source: &str, text: &str) -> Option<String> {
    let regex = RegexBuilder::new(source).backtrack_limit(BACKTRACK_LIMIT).build().ok()?;
    let found = regex.captures(text).ok()??;
    let part = if found.len() > 1 { found.get(1) } else { found.get(0) };
    part.map(|part| part.as_str().to_owned())
}

/// `^`, then literal characters or escaped punctuation, then `$`: the same meaning without an engine.
fn plain(source: &str) -> Option<Text> {
    let from_start = source.starts_with('^');
    let mut rest = source.strip_prefix('^').unwrap_or(source).chars().peekable();
    let mut word = String::new();
    let mut to_end = false;
    while let Some(c) = rest.next() {
        match c {
            '$' if rest.peek().is_none() => to_end = true,
            '\\' => match rest.next() {
                // An escaped angle bracket is a word boundary.
                Some(escaped) if escaped.is_ascii_punctuation() && !matches!(escaped, '<' | '>') => {
                    word.push(escaped);
                }
                _ => return None,
            },
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => return None,
            c => word.push(c),
        }
    }
    Some(Text::Word { source: source.to_owned(), word, from_start, to_end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    #[test]
    fn look_around_works_and_runaway_expressions_give_up() {
        let text = Text::compile("^(?!sess_0).+$").unwrap();
        assert_eq!(text.check("abc"), Hit::Yes);
        assert_eq!(text.check("sess_01"), Hit::No);
        let slow = Text::compile("(?=(a+)+b)(a+)+\\1c").unwrap();
        assert_eq!(slow.check(&"a".repeat(60)), Hit::No);
        let slow = Text::compile("^(?:(a|aa)+\\1)+$(?<=b)").unwrap();
        assert_ne!(slow.check(&"a".repeat(80)), Hit::Yes);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_short_cut_agrees_with_the_engine(
            source in "\\^?([a-c/ ]|\\\\[./$<>-]){0,4}\\$?",
            actual in "[a-c/. $<>-]{0,6}",
        ) {
            let engine = Regex::new(&source);
            match (Text::compile(&source), engine) {
                (Ok(text), Ok(engine)) => prop_assert_eq!(text.check(&actual) == Hit::Yes, engine.is_match(&actual).unwrap()),
                (Err(_), Err(_)) => {}
                (ours, theirs) => prop_assert!(false, "{:?} against {:?}", ours, theirs.is_ok()),
            }
        }
    }
}
