//! What can go wrong before there are results.

use std::path::PathBuf;

/// A call that gave no results. Trouble with single files is a notice in the results instead.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// The root is missing or is no folder.
    #[error("cannot use {path:?} as the root: {why}")]
    Root {
        /// The folder that was asked for.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A path leads out of the root.
    #[error("{path:?} lies outside the root {root:?}; give a path inside it")]
    Outside {
        /// The path that was asked for.
        path: String,
        /// The folder that holds everything that may be read.
        root: PathBuf,
    },
    /// A path does not exist or cannot be reached.
    #[error("cannot search in {path:?}: {why}")]
    Path {
        /// The path that was asked for.
        path: String,
        /// What the system said.
        why: String,
    },
    /// The words of a search do not form a query.
    #[error("cannot read the query at character {at}: {what}\n{}", pointed(query, *at))]
    Query {
        /// The query as given.
        query: String,
        /// Where reading stopped, counted from 1.
        at: usize,
        /// What is wrong there and what would be right.
        what: String,
    },
    /// A structural pattern that is no code of the language.
    #[error(
        "cannot read the pattern as {language} at line {line}, column {column}: {what}\n{}",
        pointed(excerpt, *column)
    )]
    Pattern {
        /// The language it was read as.
        language: String,
        /// Line of the first flaw, counted from 1.
        line: usize,
        /// Column of the first flaw, counted from 1.
        column: usize,
        /// What is wrong there.
        what: String,
        /// The pattern's line.
        excerpt: String,
    },
    /// No such language in this build.
    #[error("the language {name:?} is not built in; use one of: {known}")]
    Language {
        /// The name as given.
        name: String,
        /// The names that work.
        known: String,
    },
    /// A request that contradicts itself or has wrong values.
    #[error("cannot run {tool}: {what}")]
    Request {
        /// The tool's name.
        tool: &'static str,
        /// What is wrong and what to do.
        what: String,
    },
    /// No tool has this name.
    #[error("there is no tool {0:?}; the tools are search, query and extract")]
    NoSuchTool(String),
    /// [`crate::StopSignal::cancel`] was called.
    #[error("cancelled")]
    Cancelled,
}

/// So many characters are shown before the place of a flaw, and as many from there on.
const AROUND: usize = 100;

/// The text with a caret under a character, counted from 1; of a long text, the part around it.
fn pointed(text: &str, at: usize) -> String {
    let start = at.saturating_sub(AROUND + 1);
    let mut rest = text.chars().skip(start);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = rest.by_ref().take(2 * AROUND).map(plain).collect();
    let cut = |yes: bool| if yes { "…" } else { "" };
    let (before, after) = (cut(start > 0), cut(rest.next().is_some()));
    let column = at - start + before.chars().count();
    format!("  {before}{shown}{after}\n  {:>column$}", "^")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flaw_is_pointed_at_wherever_it_stands() {
        assert_eq!(pointed("one (two", 5), "  one (two\n      ^");
        assert_eq!(pointed("", 1), "  \n  ^");
        for (length, at) in [(90, 90), (90, 91), (300, 1), (300, 250), (100_000, 70_000), (100_000, 100_001)]
        {
            let text: String = (1..=length).map(|number| if number == at { '(' } else { 'é' }).collect();
            let shown = pointed(&text, at);
            let (line, caret) = shown.split_once('\n').expect("two lines");
            let under: Vec<char> = line.chars().skip(caret.chars().count() - 1).take(1).collect();
            assert!(line.chars().count() <= 2 * AROUND + 4, "{length} {at}");
            assert_eq!(under.first().copied(), (at <= length).then_some('('), "{length} {at}");
        }
    }
}
