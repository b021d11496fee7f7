//! Ranked search: look for the words in every file, then parse only the files that can reach the top.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ast_grep_language::SupportLang;

use super::filter::Filter;
use super::grammar::{self, Query};
use super::scan::{GRADES, Grade, Known, Scanner, Spot};
use super::score::{Field, Matter, WEIGHTS, promise};
use super::units::{Unit, units};
use super::{Hit, Ranking, SearchRequest};
use crate::blocks::{Kind, Outline};
use crate::place::plain;
use crate::read::{Buffer, Content, is_binary};
use crate::walk::{self, Scope};
use crate::{CodeError, StopSignal, lang, testcode, words};

/// At most this many files are parsed: those that promise most.
const PARSED: usize = 100;
/// And at most this many bytes of them, so that a tree of huge files takes no longer.
const PARSED_BYTES: usize = 4 << 20;
/// At most this many results are kept for all pages together.
const KEPT: usize = 500;
/// Spots of one file that are remembered between the two looks at it.
const REMEMBERED: usize = 1000;
/// Larger files are data, not code.
const LARGEST: usize = 4 << 20;
/// The rarity of a word is counted in pieces of this many bytes: files differ too much in size.
const PIECE: usize = 1024;
/// Queries with more words are refused: each has its own counter in every file.
const MOST_TERMS: usize = 64;

/// Runs the search and returns the whole ranking.
pub(super) fn run(request: &SearchRequest, scope: &Scope, stop: &StopSignal) -> Result<Ranking, CodeError> {
    let query = grammar::parse(&request.query)?;
    if query.terms.len() > MOST_TERMS {
        return Err(refused(&format!("the query has more than {MOST_TERMS} words; ask for fewer")));
    }
    let scanner = Scanner::new(&query.terms).map_err(|error| refused(&error.to_string()))?;
    let question = is_question(&request.query);
    let search = Search { query, scanner, request, scope, question };
    let (workers, report) =
        walk::files(scope, stop, Worker::default, |worker, path| search.look(worker, path))?;
    let mut all = Worker::default();
    for worker in workers {
        all.pieces += worker.pieces;
        all.candidates.extend(worker.candidates);
        all.unreadable.extend(worker.unreadable);
        all.too_large.extend(worker.too_large);
    }
    let mut notices = report.notices;
    notices.extend(walk::folded("cannot read", all.unreadable));
    notices.extend(walk::folded(
        "left out because they are larger than 4 MB (an exact search reads them):",
        all.too_large,
    ));
    let rarity = search.rarity(&all.candidates, all.pieces);
    let candidates = search.best(all.candidates, &rarity, &mut notices);
    let (mut hits, late) = search.parse(&candidates, &rarity, stop)?;
    if hits.len() > KEPT {
        let count = hits.len();
        notices.push(format!(
            "the best {KEPT} of {count} results are kept; a folder, or a word with +, narrows the search"
        ));
        hits.truncate(KEPT);
    }
    Ok(Ranking { hits, truncated: report.truncated || late, notices })
}

fn refused(what: &str) -> CodeError {
    CodeError::Request { tool: "search", what: what.to_owned() }
}

struct Search<'s> {
    query: Query,
    scanner: Scanner,
    request: &'s SearchRequest,
    scope: &'s Scope,
    /// Whether somebody asks in whole words.
    question: bool,
}

/// One thread's share of the first look.
#[derive(Default)]
struct Worker {
    buffer: Buffer,
    known: Known,
    spots: Vec<Spot>,
    /// How much text there is, in pieces of [`PIECE`] bytes.
    pieces: usize,
    candidates: Vec<Candidate>,
    unreadable: Vec<String>,
    too_large: Vec<String>,
}

/// A file that has words of the query.
struct Candidate {
    path: PathBuf,
    shown: String,
    size: usize,
    spots: Vec<Spot>,
    /// For each term and grade, what the path counts for it.
    on_path: Vec<f64>,
    /// For each term and grade, how many pieces of [`PIECE`] bytes have it.
    pieces: Vec<u32>,
}

impl Search<'_> {
    fn passes(&self, shown: &str, term: &impl Fn(usize) -> Option<bool>) -> bool {
        self.query.expr.outlook(term, &|filter: &Filter| filter.passes(shown)).0
    }

    /// The first look at a file: are the words there?
    fn look(&self, worker: &mut Worker, path: PathBuf) {
        let shown = self.scope.place.shown(&path);
        if !self.passes(&shown, &|_| None) || (!self.request.allow_tests && testcode::is_test_path(&shown)) {
            return;
        }
        match worker.buffer.load(&path) {
            Ok(Content::Whole) if worker.buffer.bytes().len() <= LARGEST => {}
            Ok(_) => {
                if !is_binary(worker.buffer.bytes()) {
                    worker.too_large.push(shown);
                }
                return;
            }
            Err(error) => {
                worker.unreadable.push(format!("{shown} ({})", plain(&error)));
                return;
            }
        }
        let bytes = worker.buffer.bytes();
        if is_binary(bytes) {
            return;
        }
        worker.pieces += bytes.len() / PIECE + 1;
        worker.spots.clear();
        self.scanner.scan(bytes, &mut worker.known, &mut worker.spots);
        if worker.spots.is_empty() {
            return;
        }
        let on_path = self.on_path(&shown, &mut worker.known);
        let pieces = pieces_with(&worker.spots, self.query.terms.len());
        // A term that is somewhere in the file may be absent from a block, so only absence is certain.
        let is_there = |term: usize| own_features(term).any(|at| pieces[at] > 0 || on_path[at] > 0.0);
        let known = |term: usize| if is_there(term) { None } else { Some(false) };
        if !self.passes(&shown, &known) {
            return;
        }
        // Where there are too many, other words for a word go first.
        let all = worker.spots.len() <= REMEMBERED;
        let spots = worker.spots.iter().filter(|spot| all || spot.grade != Grade::Kin);
        let spots = spots.take(REMEMBERED).copied().collect();
        let size = bytes.len();
        worker.candidates.push(Candidate { path, shown, size, spots, on_path, pieces });
    }

    fn on_path(&self, shown: &str, known: &mut Known) -> Vec<f64> {
        let mut spots = Vec::new();
        self.scanner.scan(shown.as_bytes(), known, &mut spots);
        let mut counts = vec![0.0; self.query.terms.len() * GRADES.len()];
        for spot in spots {
            counts[spot.feature()] += WEIGHTS.of(Field::Path);
        }
        counts
    }

    fn rarity(&self, candidates: &[Candidate], pieces: usize) -> Vec<f64> {
        let having = |term: usize| candidates.iter().map(|candidate| candidate.pieces[term] as usize).sum();
        (0..self.query.terms.len() * GRADES.len())
            .map(|index| {
                let (term, grade) = (index / GRADES.len(), GRADES[index % GRADES.len()]);
                WEIGHTS.rarity(pieces, having(index), grade, self.query.terms[term].weak)
            })
            .collect()
    }

    /// The files that promise most, most promising first.
    fn best(&self, candidates: Vec<Candidate>, rarity: &[f64], notices: &mut Vec<String>) -> Vec<Candidate> {
        let count = candidates.len();
        let mut ordered: Vec<(f64, Candidate)> = candidates
            .into_iter()
            .map(|candidate| (promise(&candidate.spots, &candidate.on_path, rarity), candidate))
            .collect();
        ordered.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.shown.cmp(&b.1.shown)));
        // A file that has no room does not end the list: smaller ones behind it may have it.
        let mut room = PARSED_BYTES;
        let mut kept: Vec<Candidate> = ordered.into_iter().map(|(_, candidate)| candidate).collect();
        kept.retain(|candidate| {
            let fits = candidate.size <= room;
            room -= if fits { candidate.size } else { 0 };
            fits
        });
        kept.truncate(PARSED);
        if kept.len() < count {
            let kept = kept.len();
            notices.push(format!(
                "ranked the {kept} most promising of {count} files that have words of the query"
            ));
        }
        kept
    }

    /// The second look: the units of these files, best first.
    fn parse(
        &self,
        candidates: &[Candidate],
        rarity: &[f64],
        stop: &StopSignal,
    ) -> Result<(Vec<Hit>, bool), CodeError> {
        let found = walk::each(
            candidates,
            || stop.reason().is_none(),
            || (Buffer::default(), Known::new()),
            |(buffer, known), candidate| self.rank_file(candidate, rarity, buffer, known, stop),
        );
        let late = walk::stopped(stop)?;
        let mut hits: Vec<Hit> = found.into_iter().flatten().flatten().collect();
        hits.sort_by(|a, b| {
            b.score.total_cmp(&a.score).then_with(|| (&a.file, a.lines).cmp(&(&b.file, b.lines)))
        });
        Ok((hits, late))
    }

    /// The results in a file, if it is still there and the time suffices.
    fn rank_file(
        &self,
        candidate: &Candidate,
        rarity: &[f64],
        buffer: &mut Buffer,
        known: &mut Known,
        stop: &StopSignal,
    ) -> Option<Vec<Hit>> {
        let mut found = Vec::new();
        if !matches!(buffer.load(&candidate.path), Ok(Content::Whole)) {
            return None;
        }
        let text = String::from_utf8_lossy(buffer.bytes());
        let mut spots = Vec::new();
        self.scanner.scan(text.as_bytes(), known, &mut spots);
        let language = lang::of(&candidate.path);
        let outline = Outline::parse(Cow::Borrowed(&*text), language, stop)?;
        let file =
            File { candidate, outline: &outline, language, test: testcode::is_test_path(&candidate.shown) };
        let mut from = 0;
        for unit in units(&outline) {
            let bytes = outline.bytes(unit.lines[0], unit.lines[1]);
            while spots.get(from).is_some_and(|spot| (spot.at as usize) < bytes.start) {
                from += 1;
            }
            let inside = spots[from..].iter().take_while(|spot| (spot.at as usize) < bytes.end).count();
            if inside > 0 {
                found.extend(self.rank_unit(&file, &unit, &spots[from..from + inside], rarity, known));
            }
            from += inside;
        }
        Some(found)
    }

    fn rank_unit(
        &self,
        file: &File<'_>,
        unit: &Unit,
        spots: &[Spot],
        rarity: &[f64],
        known: &mut Known,
    ) -> Option<Hit> {
        let outline = file.outline;
        let block = unit.block.map(|index| &outline.blocks[index]);
        let test = file.test || block.is_some_and(|block| block.test);
        if test && !self.request.allow_tests {
            return None;
        }
        let mut around = file.candidate.on_path.clone();
        let mut counts = vec![0.0; around.len()];
        let own = block.filter(|_| unit.kind != Kind::Lines);
        let lead = own.map_or(0..0, |block| first_sentence(&outline.text, &block.doc));
        for spot in spots {
            let at = spot.at as usize;
            let field = match own {
                Some(block) if block.name_bytes.contains(&at) => Field::Name,
                Some(_) if lead.contains(&at) => Field::Lead,
                Some(block) if block.doc.contains(&at) => Field::Doc,
                Some(block) if at < block.body => Field::Signature,
                _ if outline.in_comment(at) => Field::Comment,
                _ => Field::Body,
            };
            counts[spot.feature()] += WEIGHTS.of(field);
        }
        let scope = match own {
            Some(block) => outline.scope(block),
            None => block.and_then(|block| block.name.as_deref()),
        };
        if let Some(scope) = scope {
            let mut above = Vec::new();
            self.scanner.scan(scope.as_bytes(), known, &mut above);
            for spot in above {
                around[spot.feature()] += WEIGHTS.of(Field::Scope);
            }
        }
        for (count, around) in counts.iter_mut().zip(&around) {
            *count += around;
        }
        let is_there = |term: usize| Some(own_features(term).any(|at| counts[at] > 0.0));
        if !self.passes(&file.candidate.shown, &is_there) {
            return None;
        }
        let code = outline.slice(unit.lines[0], unit.lines[1]);
        let covered = WEIGHTS.covered(spots, &around, rarity);
        let near = WEIGHTS.near(spots, rarity);
        let score = (WEIGHTS.score(&counts, rarity, count_words(code)) * covered + near)
            * WEIGHTS.standing(
                unit.kind,
                [unit.lines[1] + 1 - unit.lines[0], code.len()],
                test,
                file.matter(),
            )
            * if self.question { WEIGHTS.for_question(unit.kind) } else { 1.0 };
        let mut matched: Vec<usize> = spots
            .iter()
            .filter(|spot| spot.grade == Grade::Same)
            .map(|spot| outline.line_of(spot.at as usize) + 1)
            .collect();
        matched.dedup();
        Some(Hit {
            file: file.candidate.shown.clone(),
            lines: [unit.lines[0] + 1, unit.lines[1] + 1],
            code: code.to_owned(),
            score: (score * 1000.0).round() / 1000.0,
            kind: unit.kind.word().to_owned(),
            name: own.and_then(|block| block.name.clone()),
            language: file.language.map(|language| language.to_string()),
            matched,
        })
    }
}

struct File<'f> {
    candidate: &'f Candidate,
    outline: &'f Outline<'f>,
    language: Option<SupportLang>,
    test: bool,
}

impl File<'_> {
    fn matter(&self) -> Matter {
        use SupportLang as L;
        let path = Path::new(&self.candidate.shown);
        let ending = path.extension().and_then(|extension| extension.to_str());
        match self.language {
            Some(L::Markdown | L::Json | L::Yaml | L::Html) => Matter::Prose,
            Some(L::TypeScript) if self.candidate.shown.ends_with(".d.ts") => Matter::Declarations,
            Some(L::Python) if ending == Some("pyi") => Matter::Declarations,
            Some(_) => Matter::Code,
            None => match ending {
                Some(
                    "scala" | "dart" | "lua" | "ex" | "exs" | "hs" | "zig" | "pl" | "r" | "jl" | "ml" | "sql"
                    | "proto" | "vue",
                ) => Matter::Code,
                _ => Matter::Prose,
            },
        }
    }
}

/// The places of a term in lists with one entry per term and grade; other words for it are not the term.
fn own_features(term: usize) -> impl Iterator<Item = usize> {
    let of = |grade: Grade| Spot { at: 0, term: u8::try_from(term).unwrap_or(u8::MAX), grade }.feature();
    [of(Grade::Same), of(Grade::Part)].into_iter()
}

/// For each term and grade, how many pieces of a file have it.
fn pieces_with(spots: &[Spot], terms: usize) -> Vec<u32> {
    let mut counts = vec![0; terms * GRADES.len()];
    let mut last = vec![None; terms * GRADES.len()];
    for spot in spots {
        let (term, piece) = (spot.feature(), spot.at as usize / PIECE);
        if last[term] != Some(piece) {
            last[term] = Some(piece);
            counts[term] += 1;
        }
    }
    counts
}

/// Whether the query is a question, and not some words to look for.
fn is_question(query: &str) -> bool {
    const ASKING: [&str; 9] = ["how", "what", "when", "where", "which", "who", "whose", "why", "does"];
    let query = query.trim();
    let first = query.split_whitespace().next().unwrap_or_default().to_lowercase();
    query.split_whitespace().nth(2).is_some() && (query.ends_with('?') || ASKING.contains(&first.as_str()))
}

/// The bytes of the first sentence of a comment.
fn first_sentence(text: &str, doc: &Range<usize>) -> Range<usize> {
    let Some(comment) = text.get(doc.clone()) else { return doc.start..doc.start };
    let stop = |mark: &str| comment.find(mark);
    let end = [stop(". "), stop(".\n"), stop("\n\n")].into_iter().flatten().min();
    doc.start..doc.start + end.unwrap_or(comment.len())
}

fn count_words(text: &str) -> usize {
    let bytes = text.as_bytes();
    (0..bytes.len()).filter(|at| words::begins(bytes, *at)).count()
}
