//! Literal search: every line that has the text, as `grep -F` would find them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;

use super::{Hit, SearchRequest};
use crate::blocks::{Kind, Outline};
use crate::place::plain;
use crate::read::{Buffer, Content, Stamp, is_binary};
use crate::walk::{self, Scope};
use crate::{CodeError, StopCause, StopSignal, lang, testcode};

/// A line is shown up to this many characters around the text.
const SHOWN: usize = 400;
/// A page for which more lines are asked is a plain list: to name the block around each line, every file on the
/// page would have to be parsed.
const NAMED: usize = 50;
/// Larger files are not parsed: neither to name the blocks around their lines, nor to tell which lines are tests.
const PARSED: usize = 1 << 20;

/// Said of files that are not what they were when their lines were counted.
const CHANGED: &str = "changed since the search began, so that lines may be missing or others; search again:";

/// All lines that have the literal, as numbers: which file, and which of its lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    files: Vec<Counted>,
    pub(super) total: usize,
    pub(super) truncated: bool,
    pub(super) notices: Vec<String>,
}

/// Some of the lines.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) hits: Vec<Hit>,
    pub(super) notices: Vec<String>,
}

/// A file with lines that are results.
#[derive(Clone, Debug)]
struct Counted {
    path: PathBuf,
    /// What the file was when its lines were counted.
    stamp: Stamp,
    chosen: Chosen,
}

/// Which lines of a file are results.
#[derive(Clone, Debug)]
enum Chosen {
    /// All that have the text, so many.
    All(usize),
    /// Those of them that are no test code, by their numbers from 0.
    Some(Vec<usize>),
}

impl Chosen {
    fn count(&self) -> usize {
        match self {
            Self::All(count) => *count,
            Self::Some(lines) => lines.len(),
        }
    }
}

/// Counts the lines in every file.
pub(super) fn count(request: &SearchRequest, scope: &Scope, stop: &StopSignal) -> Result<Lines, CodeError> {
    if request.query.is_empty() {
        let what = "the query is empty; an exact search needs a text".to_owned();
        return Err(CodeError::Request { tool: "search", what });
    }
    let finder = Finder::new(&request.query);
    let is_wanted = || stop.reason().is_none();
    let (workers, report) = walk::files(scope, stop, Worker::default, |worker: &mut Worker, path| {
        worker.file(&Look { finder: &finder, is_wanted: &is_wanted, stop }, request, scope, path);
    })?;
    let mut lines = Lines { truncated: report.truncated, notices: report.notices, ..Lines::default() };
    let (mut unreadable, mut unparsed) = (Vec::new(), Vec::new());
    for worker in workers {
        lines.files.extend(worker.files);
        unreadable.extend(worker.unreadable);
        unparsed.extend(worker.unparsed);
    }
    lines.files.sort_by(|a, b| a.path.cmp(&b.path));
    lines.total = lines.files.iter().map(|file| file.chosen.count()).sum();
    lines.notices.extend(walk::folded("cannot read", unreadable));
    let what = "not looked into for test code because they are larger than 1 MB:";
    lines.notices.extend(walk::folded(what, unparsed));
    Ok(lines)
}

impl Lines {
    /// The lines from `from` on, at most `max` of them.
    pub(super) fn page(
        &self,
        request: &SearchRequest,
        scope: &Scope,
        stop: &StopSignal,
        from: usize,
        max: usize,
    ) -> Result<Page, CodeError> {
        let finder = Finder::new(&request.query);
        let parts = self.parts(from, max);
        // What was counted before the deadline is shown, so only a cancellation ends this.
        let is_wanted = || stop.reason() != Some(StopCause::Cancelled);
        let look = Look { finder: &finder, is_wanted: &is_wanted, stop };
        let read = |buffer: &mut Buffer, part: &Part<'_>| {
            let file = OneFile { path: &part.file.path, look: &look };
            let shown = scope.place.shown(&part.file.path);
            let read = file.hits(buffer, part, &shown, max <= NAMED);
            let changed = read.is_err() || buffer.stamp() != part.file.stamp;
            // A file that is gone meanwhile has no lines any more.
            let (hits, late) = read.unwrap_or_default();
            (hits, changed.then_some(shown), late)
        };
        let found = walk::each(&parts, is_wanted, Buffer::default, read);
        if !is_wanted() {
            return Err(CodeError::Cancelled);
        }
        let (mut page, mut changed, mut is_late) = (Page::default(), Vec::new(), false);
        for (hits, other, late) in found {
            page.hits.extend(hits);
            changed.extend(other);
            is_late |= late;
        }
        page.notices.extend(walk::folded(CHANGED, changed));
        if is_late {
            page.notices.push("the time was up before the blocks around all lines were named".to_owned());
        }
        Ok(page)
    }

    /// What each file gives to a page.
    fn parts(&self, from: usize, max: usize) -> Vec<Part<'_>> {
        let (mut parts, mut passed, mut left) = (Vec::new(), 0, max);
        for file in &self.files {
            let count = file.chosen.count();
            if left == 0 {
                break;
            }
            if passed + count > from {
                let skip = from.saturating_sub(passed);
                let take = (count - skip).min(left);
                parts.push(Part { file, skip, take });
                left -= take;
            }
            passed += count;
        }
        parts
    }
}

/// Some of a file's lines.
#[derive(Debug)]
struct Part<'l> {
    file: &'l Counted,
    skip: usize,
    take: usize,
}

impl Part<'_> {
    /// Whether the line with this number belongs to the part, if it is the `nth` that has the text.
    fn has(&self, nth: usize, number: usize) -> bool {
        match &self.file.chosen {
            Chosen::All(_) => (self.skip..self.skip + self.take).contains(&nth),
            Chosen::Some(lines) => lines
                .get(self.skip..self.skip + self.take)
                .is_some_and(|lines| lines.binary_search(&number).is_ok()),
        }
    }
}

#[derive(Default)]
struct Worker {
    buffer: Buffer,
    files: Vec<Counted>,
    unreadable: Vec<String>,
    /// Files with lines whose tests were not told apart.
    unparsed: Vec<String>,
}

impl Worker {
    fn file(&mut self, look: &Look<'_>, request: &SearchRequest, scope: &Scope, path: PathBuf) {
        if !request.allow_tests && testcode::is_test_path(&scope.place.shown(&path)) {
            return;
        }
        let file = OneFile { path: &path, look };
        match file.choose(&mut self.buffer, request.allow_tests) {
            Ok(chosen) if chosen.count() == 0 => {}
            Ok(chosen) => {
                if !request.allow_tests && self.buffer.bytes().len() > PARSED && lang::of(&path).is_some() {
                    self.unparsed.push(scope.place.shown(&path));
                }
                self.files.push(Counted { path, stamp: self.buffer.stamp(), chosen });
            }
            Err(error) => self.unreadable.push(format!("{} ({})", scope.place.shown(&path), plain(&error))),
        }
    }
}

/// What is looked for, and how long.
struct Look<'l> {
    finder: &'l Finder<'l>,
    is_wanted: &'l (dyn Fn() -> bool + Sync),
    /// What ends the parsing of a file.
    stop: &'l StopSignal,
}

struct OneFile<'f> {
    path: &'f Path,
    look: &'f Look<'f>,
}

impl OneFile<'_> {
    /// Which lines of the file are results.
    fn choose(&self, buffer: &mut Buffer, allow_tests: bool) -> io::Result<Chosen> {
        match buffer.load(self.path)? {
            Content::Whole => {
                let bytes = buffer.bytes();
                let Some(first) = self.look.finder.find(bytes) else { return Ok(Chosen::All(0)) };
                if is_binary(bytes) {
                    return Ok(Chosen::All(0));
                }
                if allow_tests || bytes.len() > PARSED {
                    return Ok(Chosen::All(lines_with(self.look.finder, bytes, first).count()));
                }
                let text = String::from_utf8_lossy(bytes);
                let Some(outline) = Outline::parse(text, lang::of(self.path), self.look.stop) else {
                    return Ok(Chosen::All(0));
                };
                let (tests, lines) = (outline.test_lines(), self.lines(bytes).map(|line| line.number));
                Ok(Chosen::Some(lines.filter(|line| tests.get(*line) != Some(&true)).collect()))
            }
            Content::Larger(file) => {
                let mut count = 0;
                self.slide(buffer, file, |_| {
                    count += 1;
                    true
                })?;
                Ok(Chosen::All(count))
            }
        }
    }

    /// The lines of one part of the file, and whether there was no time to name their blocks.
    fn hits(
        &self,
        buffer: &mut Buffer,
        part: &Part<'_>,
        shown: &str,
        named: bool,
    ) -> io::Result<(Vec<Hit>, bool)> {
        let language = lang::of(self.path);
        let hit = |line: &Line<'_>| Hit {
            file: shown.to_owned(),
            lines: [line.number + 1, line.last + 1],
            code: excerpt(line.text, line.at),
            score: 1.0,
            kind: Kind::Lines.word().to_owned(),
            language: language.map(|language| language.to_string()),
            matched: vec![line.number + 1],
            ..Hit::default()
        };
        match buffer.load(self.path)? {
            Content::Whole => {
                let bytes = buffer.bytes();
                let wanted = self.lines(bytes).enumerate().filter(|(nth, line)| part.has(*nth, line.number));
                let mut hits: Vec<Hit> = wanted.take(part.take).map(|(_, line)| hit(&line)).collect();
                let mut late = false;
                if named && bytes.len() <= PARSED {
                    match Outline::parse(String::from_utf8_lossy(bytes), language, self.look.stop) {
                        Some(outline) => name(&mut hits, &outline),
                        None => late = true,
                    }
                }
                Ok((hits, late))
            }
            Content::Larger(file) => {
                let (mut hits, mut nth) = (Vec::new(), 0);
                self.slide(buffer, file, |line| {
                    if part.has(nth, line.number) {
                        hits.push(hit(line));
                    }
                    nth += 1;
                    hits.len() < part.take
                })?;
                Ok((hits, false))
            }
        }
    }

    /// Every line that has the text.
    fn lines<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = Line<'b>> + 'b {
        let (mut number, mut counted) = (0, 0);
        let finder = self.look.finder;
        let spots = finder.find(bytes).into_iter().flat_map(move |first| lines_with(finder, bytes, first));
        spots.map(move |at| {
            number += newlines(&bytes[counted..at]);
            counted = at;
            Line::new(bytes, at, finder.needle().len(), number)
        })
    }

    /// A file that is too large for memory, piece by piece, until `found` has enough. So much around a line is in the
    /// buffer that its excerpt is the same as of a small file.
    fn slide(
        &self,
        buffer: &mut Buffer,
        mut file: File,
        mut found: impl FnMut(&Line<'_>) -> bool,
    ) -> io::Result<()> {
        if is_binary(buffer.bytes()) {
            return Ok(());
        }
        let length = self.look.finder.needle().len();
        let behind = length + 2 * SHOWN;
        let keep = behind + 2 * SHOWN;
        // How far the buffer has been looked at, and the number of the line there.
        let (mut done, mut number) = (0, 0);
        // A line that was found is not found again.
        let mut last = None;
        let mut at_end = false;
        while (self.look.is_wanted)() {
            let bytes = buffer.bytes();
            let limit = if at_end { bytes.len() } else { bytes.len().saturating_sub(behind) };
            let mut from = Some(done);
            while let Some(at) = from.and_then(|from| self.next(bytes, from)).filter(|at| *at < limit) {
                number += newlines(&bytes[done..at]);
                done = at;
                if last != Some(number) && !found(&Line::new(bytes, at, length, number)) {
                    return Ok(());
                }
                last = Some(number);
                from = memchr::memchr(b'\n', &bytes[at..]).map(|end| at + end + 1);
            }
            if at_end {
                return Ok(());
            }
            number += newlines(&bytes[done..limit]);
            let gone = bytes.len().saturating_sub(keep);
            at_end = buffer.slide(&mut file, keep)? == 0;
            done = limit - gone;
        }
        Ok(())
    }

    /// Where the text stands next.
    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        self.look.finder.find(&bytes[from..]).map(|at| from + at)
    }
}

/// A line that has the text.
struct Line<'b> {
    /// From 0.
    number: usize,
    /// The line in which the text ends.
    last: usize,
    text: &'b [u8],
    /// Where in the line the text begins.
    at: usize,
}

impl<'b> Line<'b> {
    /// The line of this number, with a text of this length.
    fn new(bytes: &'b [u8], at: usize, length: usize, number: usize) -> Self {
        let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |end| end + 1);
        // A text may go over several lines; its own last byte belongs to its last line.
        let tail = at + length.saturating_sub(1);
        let end = memchr::memchr(b'\n', &bytes[tail..]).map_or(bytes.len(), |end| tail + end);
        let last = number + newlines(&bytes[at..tail]);
        Self { number, last, text: &bytes[start..end], at: at - start }
    }
}

fn newlines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// Says in which block each line stands.
fn name(hits: &mut [Hit], outline: &Outline<'_>) {
    for hit in hits {
        if let Some(block) = outline.around(hit.lines[0] - 1) {
            block.kind.word().clone_into(&mut hit.kind);
            hit.name.clone_from(&block.name);
        }
    }
}

/// Where the text first stands in each line that has it.
fn lines_with<'b>(finder: &'b Finder<'_>, bytes: &'b [u8], first: usize) -> impl Iterator<Item = usize> + 'b {
    let mut next = Some(first);
    std::iter::from_fn(move || {
        let at = next?;
        let end = memchr::memchr(b'\n', &bytes[at..]).map(|end| at + end + 1);
        next = end.and_then(|end| finder.find(&bytes[end..]).map(|found| end + found));
        Some(at)
    })
}

/// The line, or the part of a very long one around the text.
fn excerpt(line: &[u8], at: usize) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= 2 * SHOWN {
        return String::from_utf8_lossy(line).into_owned();
    }
    let from = at.saturating_sub(SHOWN / 2);
    let to = (at + SHOWN).min(line.len());
    let cut = |yes: bool| if yes { "…" } else { "" };
    let middle = String::from_utf8_lossy(&line[from..to.max(from)]).replace('\u{FFFD}', "");
    format!("{}{middle}{}", cut(from > 0), cut(to < line.len()))
}
