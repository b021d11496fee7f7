//! Where the words of a query stand in a file, without parsing it.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind, packed};

use super::fold::{Folded, is_cased};
use super::grammar::Term;
use crate::{abbreviations, irregular, synonyms, words};

/// A shorter beginning of a word stands for the word: `config` for configuration, `init` for initialize.
const SHORTEST_PART: usize = 4;

/// Longer rows of letters are no words.
const LONGEST_WORD: usize = 64;

/// How well a word in the file fits a word of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    /// Another word that often means the same.
    Kin,
    /// One is the beginning of the other.
    Part,
    /// The same stem, or the phrase itself.
    Same,
}

/// In the order of their places in a list with one entry per term and grade.
pub(super) const GRADES: [Grade; 3] = [Grade::Same, Grade::Part, Grade::Kin];

impl Grade {
    fn place(self) -> usize {
        match self {
            Self::Same => 0,
            Self::Part => 1,
            Self::Kin => 2,
        }
    }
}

/// A word of the query in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) at: u32,
    pub(super) term: u8,
    pub(super) grade: Grade,
}

impl Spot {
    /// The place in a list with one entry per term and grade.
    pub(super) fn feature(self) -> usize {
        usize::from(self.term) * GRADES.len() + self.grade.place()
    }
}

/// Looks for all terms at once.
#[derive(Debug)]
pub(super) struct Scanner {
    /// The beginnings of all words, in the ways in which a word can be written.
    beginnings: Option<Beginnings>,
    /// Phrases whose letters are ASCII, or have no case.
    phrases: Option<Phrases>,
    /// Phrases with other letters: they are looked for in the folded text.
    cased: Option<Phrases>,
    words: Vec<Word>,
}

/// Phrases in any case of ASCII, and the term of each.
#[derive(Debug)]
struct Phrases {
    automaton: AhoCorasick,
    owners: Vec<u8>,
}

/// Vectors for few beginnings, an automaton for many.
#[derive(Debug)]
enum Beginnings {
    Few(packed::Searcher),
    Many(AhoCorasick),
}

#[derive(Debug)]
struct Word {
    term: Term,
    /// Stems of its short and long forms.
    also: Vec<String>,
    /// Stems of other words for it.
    kin: Vec<String>,
}

/// What is known of words that were met before, one per thread.
pub(super) type Known = HashMap<Vec<u8>, Vec<(u8, Grade)>>;

impl Scanner {
    /// At most 255 terms are looked for.
    pub(super) fn new(terms: &[Term]) -> Result<Self, aho_corasick::BuildError> {
        let words: Vec<Word> = terms
            .iter()
            .take(usize::from(u8::MAX))
            .map(|term| {
                let (mut also, mut kin) = (Vec::new(), Vec::new());
                if !term.phrase && !term.strict {
                    also = abbreviations::also(&term.stem);
                    kin = synonyms::of(&term.stem);
                }
                Word { term: term.clone(), also, kin }
            })
            .collect();
        let beginnings = Beginnings::new(&words)?;
        let phrases = Phrases::new(&words, |text| (!is_cased(text)).then(|| text.as_bytes().to_vec()))?;
        let cased = Phrases::new(&words, |text| is_cased(text).then(|| Folded::new(text.as_bytes()).bytes))?;
        Ok(Self { beginnings, phrases, cased, words })
    }

    /// Adds all spots in the order of their places.
    pub(super) fn scan(&self, bytes: &[u8], known: &mut Known, spots: &mut Vec<Spot>) {
        let before = spots.len();
        let mut visit = |at: usize| {
            let Ok(place) = u32::try_from(at) else { return };
            if !words::begins(bytes, at) {
                return;
            }
            let word = words::word_at(bytes, at);
            if word.len() <= LONGEST_WORD {
                let grades = self.grades(&bytes[word], known);
                spots.extend(grades.iter().map(|(term, grade)| Spot {
                    at: place,
                    term: *term,
                    grade: *grade,
                }));
            }
        };
        match &self.beginnings {
            Some(Beginnings::Few(searcher)) => {
                searcher.find_iter(bytes).for_each(|found| visit(found.start()));
            }
            Some(Beginnings::Many(automaton)) => {
                automaton.find_iter(bytes).for_each(|found| visit(found.start()));
            }
            None => {}
        }
        if let Some(phrases) = &self.phrases {
            spots.extend(phrases.spots(bytes));
        }
        if let Some(phrases) = &self.cased {
            if bytes.is_ascii() {
                spots.extend(phrases.spots(bytes));
            } else {
                let folded = Folded::new(bytes);
                let placed = |spot: Spot| {
                    let at = u32::try_from(folded.place(spot.at as usize)).ok()?;
                    Some(Spot { at, ..spot })
                };
                spots.extend(phrases.spots(&folded.bytes).filter_map(placed));
            }
        }
        if self.phrases.is_some() || self.cased.is_some() {
            spots[before..].sort_by_key(|spot| (spot.at, spot.term));
        }
    }

    fn grades<'k>(&self, word: &[u8], known: &'k mut Known) -> &'k [(u8, Grade)] {
        if !known.contains_key(word) {
            let grades = self.judge(&String::from_utf8_lossy(word));
            known.insert(word.to_vec(), grades);
        }
        known.get(word).map_or(&[], Vec::as_slice)
    }

    fn judge(&self, written: &str) -> Vec<(u8, Grade)> {
        let word = written.to_lowercase();
        let stem = words::stem(&word);
        let is_capitals = written.len() > 1 && !written.bytes().any(|byte| byte.is_ascii_lowercase());
        let fits = |wanted: &Word| {
            let term = &wanted.term;
            if term.phrase {
                None
            } else if term.text == word || term.stem == stem {
                Some(if term.capitals && !is_capitals { Grade::Part } else { Grade::Same })
            } else if term.strict {
                None
            } else {
                let part = is_part(&term.stem, &stem) || wanted.also.contains(&stem);
                let kin = || wanted.kin.contains(&stem).then_some(Grade::Kin);
                if part { Some(Grade::Part) } else { kin() }
            }
        };
        (0..).zip(&self.words).filter_map(|(index, term)| fits(term).map(|grade| (index, grade))).collect()
    }
}

impl Phrases {
    /// Those phrases of which `written` makes something to look for.
    fn new(
        words: &[Word],
        written: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<Option<Self>, aho_corasick::BuildError> {
        let (texts, owners): (Vec<Vec<u8>>, Vec<u8>) = (0..)
            .zip(words)
            .filter(|(_, word)| word.term.phrase)
            .filter_map(|(index, word)| Some((written(&word.term.text)?, index)))
            .unzip();
        if texts.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(texts)?;
        Ok(Some(Self { automaton, owners }))
    }

    fn spots<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = Spot> + 'b {
        self.automaton.find_overlapping_iter(bytes).filter_map(|found| {
            let term = self.owners[found.pattern().as_usize()];
            Some(Spot { at: u32::try_from(found.start()).ok()?, term, grade: Grade::Same })
        })
    }
}

impl Beginnings {
    /// Words are split where their case changes, so each is written in small letters, in capitals, or with one capital
    /// in front; no other way has to be looked for.
    fn new(words: &[Word]) -> Result<Option<Self>, aho_corasick::BuildError> {
        let mut all: Vec<&str> = Vec::new();
        for word in words.iter().filter(|word| !word.term.phrase) {
            for stem in [&word.term.stem].into_iter().chain(&word.also).chain(&word.kin) {
                all.push(beginning(stem));
                all.extend(irregular::forms(stem).iter().map(|form| beginning(form)));
            }
        }
        all.sort_unstable();
        // What begins with a shorter beginning is found with it.
        all.dedup_by(|next, kept| next.starts_with(*kept));
        let mut written: Vec<String> = Vec::new();
        for text in all {
            let mut chars = text.chars();
            let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
            written.extend([text.to_owned(), format!("{first}{}", chars.as_str()), text.to_uppercase()]);
        }
        written.sort_unstable();
        written.dedup();
        if written.is_empty() {
            return Ok(None);
        }
        let few = if written.len() <= 64 { packed::Searcher::new(&written) } else { None };
        Ok(Some(match few {
            Some(searcher) => Self::Few(searcher),
            None => Self::Many(AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(&written)?),
        }))
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
