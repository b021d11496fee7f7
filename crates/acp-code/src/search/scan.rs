//! Where the words of a query stand in a file, without parsing it.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::grammar::Term;
use crate::words;

/// A shorter beginning of a word stands for the word: `config` for configuration, `init` for initialize.
const SHORTEST_PART: usize = 4;

/// How well a word in the file fits a word of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    /// One is the beginning of the other.
    Part,
    /// The same stem, or the phrase itself.
    Same,
}

/// A word of the query in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) at: u32,
    pub(super) term: u8,
    pub(super) grade: Grade,
}

/// Looks for all terms at once.
#[derive(Debug)]
pub(super) struct Scanner {
    automaton: AhoCorasick,
    /// For each pattern of the automaton, the terms that it may begin.
    terms: Vec<Vec<u8>>,
    words: Vec<Word>,
}

#[derive(Debug)]
struct Word {
    text: String,
    stem: String,
    phrase: bool,
}

/// What is known of words that were met before, one per thread.
pub(super) type Known = HashMap<Vec<u8>, Vec<(u8, Grade)>>;

impl Scanner {
    /// At most 255 terms are looked for.
    pub(super) fn new(terms: &[Term]) -> Result<Self, aho_corasick::BuildError> {
        let mut patterns: Vec<String> = Vec::new();
        let mut owners: Vec<Vec<u8>> = Vec::new();
        for (index, term) in (0..u8::MAX).zip(terms) {
            let pattern = if term.phrase { term.text.clone() } else { beginning(&term.stem).to_owned() };
            match patterns.iter().position(|known| *known == pattern) {
                Some(known) => owners[known].push(index),
                None => {
                    patterns.push(pattern);
                    owners.push(vec![index]);
                }
            }
        }
        let automaton = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true)
            .build(&patterns)?;
        let words = terms
            .iter()
            .map(|term| Word { text: term.text.clone(), stem: term.stem.clone(), phrase: term.phrase })
            .collect();
        Ok(Self { automaton, terms: owners, words })
    }

    /// Adds all spots in the order of their places.
    pub(super) fn scan(&self, bytes: &[u8], known: &mut Known, spots: &mut Vec<Spot>) {
        for found in self.automaton.find_overlapping_iter(bytes) {
            let at = found.start();
            let Ok(place) = u32::try_from(at) else { return };
            let owners = &self.terms[found.pattern().as_usize()];
            let boundary = words::begins(bytes, at);
            for &term in owners {
                if self.words[usize::from(term)].phrase {
                    spots.push(Spot { at: place, term, grade: Grade::Same });
                }
            }
            if !boundary {
                continue;
            }
            let word = words::word_at(bytes, at);
            if word.len() > 64 {
                continue;
            }
            for (term, grade) in self.grades(&bytes[word], known) {
                if owners.contains(term) {
                    spots.push(Spot { at: place, term: *term, grade: *grade });
                }
            }
        }
    }

    fn grades<'k>(&self, word: &[u8], known: &'k mut Known) -> &'k [(u8, Grade)] {
        if !known.contains_key(word) {
            let grades = self.judge(&String::from_utf8_lossy(word).to_lowercase());
            known.insert(word.to_vec(), grades);
        }
        known.get(word).map_or(&[], Vec::as_slice)
    }

    fn judge(&self, word: &str) -> Vec<(u8, Grade)> {
        let stem = words::stem(word);
        let fits = |term: &Word| {
            if term.phrase {
                None
            } else if term.text == word || term.stem == stem {
                Some(Grade::Same)
            } else {
                is_part(&term.stem, &stem).then_some(Grade::Part)
            }
        };
        (0..).zip(&self.words).filter_map(|(index, term)| fits(term).map(|grade| (index, grade))).collect()
    }
}

/// What every word that may stand for this one begins with.
fn beginning(stem: &str) -> &str {
    let root = words::root(stem);
    let mut end = root.len().min(SHORTEST_PART);
    while !root.is_char_boundary(end) {
        end += 1;
    }
    &root[..end]
}

/// `config` and `configur`, `pars` and `parser`; not `in` and `initial`.
fn is_part(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    short.len() >= SHORTEST_PART
        && long.starts_with(words::root(short))
        && words::root(short).len() >= SHORTEST_PART
}
