//! Named sets of commands that only read, as data: `Bash(git:read)`.

use std::sync::OnceLock;

use crate::shell;

const SETS: &str = include_str!("../data/sets.txt");
const STARTERS: &str = include_str!("../data/starters.txt");

struct Row {
    set: &'static str,
    words: Vec<&'static str>,
    /// Options before a subcommand, not a command.
    is_global: bool,
    takes_arguments: bool,
    options: Vec<&'static str>,
}

/// Whether this is how a set is called.
pub(crate) fn exists(name: &str) -> bool {
    rows().iter().any(|row| row.set == name)
}

/// Whether a set has commands of this program.
pub(crate) fn has_program(set: &str, program: &str) -> bool {
    rows().iter().any(|row| row.set == set && row.words.first() == Some(&program))
}

/// The names of all sets.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = rows().iter().map(|row| row.set).collect();
    names.dedup();
    names
}

/// Whether a shell would run `line` as a command of the set and nothing else.
pub(crate) fn covers(set: &str, line: &str) -> bool {
    shell::words(line).is_some_and(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        covers_words(set, &words)
    })
}

/// The same with the words of a command.
pub(crate) fn covers_words(set: &str, words: &[&str]) -> bool {
    let rows = || rows().iter().filter(|row| row.set == set);
    let Some((program, mut rest)) = words.split_first() else { return false };
    let globals = rows().find(|row| row.is_global && row.words == [*program]);
    while let Some((option, more)) = rest.split_first()
        && globals.is_some_and(|row| row.has_option(option))
    {
        rest = more;
    }
    rows().filter(|row| !row.is_global && row.words.first() == Some(program)).any(|row| {
        let own = &row.words[1..];
        rest.starts_with(own) && row.takes(&rest[own.len()..])
    })
}

impl Row {
    fn takes(&self, arguments: &[&str]) -> bool {
        let mut options_end = false;
        arguments.iter().all(|word| {
            if !word.starts_with('-') || *word == "-" {
                return self.takes_arguments && is_inside(word);
            }
            // The program may take a `--` for the value of an option, and what follows for one more option:
            // `git grep -e -- -Ocmd` starts `cmd`.
            let is_option = !options_end && self.has_option(word);
            options_end |= *word == "--";
            is_option
        })
    }

    fn has_option(&self, word: &str) -> bool {
        self.options.iter().any(|option| {
            if let Some(front) = option.strip_suffix('=') {
                let value = word.strip_prefix(front).and_then(|rest| rest.strip_prefix('='));
                value.is_some_and(|value| !checks_signatures(front, value) && is_inside(value))
            } else if let Some(front) = option.strip_suffix('#') {
                let digits = word.strip_prefix(front);
                digits.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
            } else {
                word == *option
            }
        })
    }
}

/// Whether git would start the program that checks signatures: for `%G?` in a format, which may have `+`, `-` or a space
/// behind its `%`, and for an order by signatures.
fn checks_signatures(option: &str, value: &str) -> bool {
    let asks = |rest: &str| rest.trim_start_matches(['+', '-', ' ']).starts_with('G');
    value.split('%').skip(1).any(asks) || (option == "--sort" && value.contains("signature"))
}

/// Whether a word, if it is a path, stays below the working folder. Revisions may have dots (`a..b`) and paths behind a
/// colon (`HEAD:src`).
fn is_inside(word: &str) -> bool {
    !word.starts_with('/')
        && !word.starts_with('~')
        && !word.split(['/', ':']).any(|part| part == "..")
        && !word.contains(":/")
        && !word.contains("://")
}

fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let (mut rows, mut set) = (Vec::new(), "");
        for line in SETS.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let Some((head, options)) = line.split_once('|').filter(|_| line.starts_with(' ')) else {
                set = line.trim();
                continue;
            };
            let mut words: Vec<&str> = head.split_whitespace().collect();
            let is_global = words.last() == Some(&"global");
            let takes_arguments = words.last() != Some(&"!");
            if is_global || !takes_arguments {
                words.pop();
            }
            let options = options.split_whitespace().collect();
            rows.push(Row { set, words, is_global, takes_arguments, options });
        }
        rows
    })
}

/// What to know about a program that a wildcard is for.
pub(crate) fn danger(program: &str) -> Option<&'static str> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let rows =
        STARTERS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": "));
    rows.into_iter().find(|(known, _)| *known == name).map(|(_, why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_can_be_read() {
        assert_eq!(names(), ["git:read", "files:read"]);
        assert!(rows().iter().all(|row| !row.set.is_empty() && !row.words.is_empty()));
        assert!(rows().iter().flat_map(|row| &row.options).all(|option| option.starts_with('-')));
        assert!(danger("git").is_some() && danger("/usr/bin/find").is_some() && danger("ls").is_none());
    }
}
