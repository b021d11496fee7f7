//! Literal search: every line that has the text, as `grep -F` would find them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;

use super::{Hit, Request};
use crate::blocks::{Kind, Outline};
use crate::place::plain;
use crate::read::{Buffer, Content, is_binary};
use crate::walk::{self, Scope};
use crate::{CodeError, Reason, Stop, lang, testcode};

/// A line is shown up to this many characters around the text.
const SHOWN: usize = 400;
/// A page for which more lines are asked is a plain list: to name the block around each line, every file on the
/// page would have to be parsed.
const NAMED: usize = 50;

/// All lines that have the literal, as numbers: which file, and which of its lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    files: Vec<(PathBuf, Chosen)>,
    pub(super) total: usize,
    pub(super) truncated: bool,
    pub(super) notices: Vec<String>,
}

/// Which lines of a file are results.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
pub(super) fn count(request: &Request, scope: &Scope, stop: &Stop) -> Result<Lines, CodeError> {
    if request.query.is_empty() {
        let what = "the query is empty; an exact search needs a text".to_owned();
        return Err(CodeError::Request { tool: "search", what });
    }
    let finder = Finder::new(&request.query);
    let (workers, report) = walk::files(scope, stop, Worker::default, |worker: &mut Worker, path| {
        worker.file(&finder, request, scope, path);
    })?;
    let mut lines = Lines { truncated: report.truncated, notices: report.notices, ..Lines::default() };
    let mut unreadable = Vec::new();
    for worker in workers {
        lines.files.extend(worker.files);
        unreadable.extend(worker.unreadable);
    }
    lines.files.sort();
    lines.total = lines.files.iter().map(|(_, chosen)| chosen.count()).sum();
    lines.notices.extend(walk::folded("cannot read", unreadable));
    Ok(lines)
}

impl Lines {
    /// The lines from `from` on, at most `max` of them.
    pub(super) fn page(
        &self,
        request: &Request,
        scope: &Scope,
        stop: &Stop,
        from: usize,
        max: usize,
    ) -> Result<Vec<Hit>, CodeError> {
        let finder = Finder::new(&request.query);
        let parts = self.parts(from, max);
        let read = |buffer: &mut Buffer, part: &Part<'_>| {
            let file = OneFile { path: part.path, finder: &finder };
            let shown = scope.place.shown(part.path);
            // A file that is gone meanwhile has no lines any more.
            file.hits(buffer, part, &shown, max <= NAMED).unwrap_or_default()
        };
        // What was counted before the deadline is shown, so only a cancellation ends this.
        let is_wanted = || stop.reason() != Some(Reason::Cancelled);
        let found = walk::each(&parts, is_wanted, Buffer::default, read);
        if is_wanted() { Ok(found.into_iter().flatten().collect()) } else { Err(CodeError::Cancelled) }
    }

    /// What each file gives to a page.
    fn parts(&self, from: usize, max: usize) -> Vec<Part<'_>> {
        let (mut parts, mut passed, mut left) = (Vec::new(), 0, max);
        for (path, chosen) in &self.files {
            let count = chosen.count();
            if left == 0 {
                break;
            }
            if passed + count > from {
                let skip = from.saturating_sub(passed);
                let take = (count - skip).min(left);
                parts.push(Part { path, chosen, skip, take });
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
    path: &'l Path,
    chosen: &'l Chosen,
    skip: usize,
    take: usize,
}

impl Part<'_> {
    /// Whether the line with this number belongs to the part, if it is the `nth` that has the text.
    fn has(&self, nth: usize, number: usize) -> bool {
        match self.chosen {
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
    files: Vec<(PathBuf, Chosen)>,
    unreadable: Vec<String>,
}

impl Worker {
    fn file(&mut self, finder: &Finder<'_>, request: &Request, scope: &Scope, path: PathBuf) {
        if !request.allow_tests && testcode::is_test_path(&scope.place.shown(&path)) {
            return;
        }
        let file = OneFile { path: &path, finder };
        match file.choose(&mut self.buffer, request.allow_tests) {
            Ok(chosen) if chosen.count() == 0 => {}
            Ok(chosen) => self.files.push((path, chosen)),
            Err(error) => self.unreadable.push(format!("{} ({})", scope.place.shown(&path), plain(&error))),
        }
    }
}

struct OneFile<'f> {
    path: &'f Path,
    finder: &'f Finder<'f>,
}

impl OneFile<'_> {
    /// Which lines of the file are results.
    fn choose(&self, buffer: &mut Buffer, allow_tests: bool) -> io::Result<Chosen> {
        match buffer.load(self.path)? {
            Content::Whole => {
                let bytes = buffer.bytes();
                let Some(first) = self.finder.find(bytes) else { return Ok(Chosen::All(0)) };
                if is_binary(bytes) {
                    return Ok(Chosen::All(0));
                }
                if allow_tests {
                    return Ok(Chosen::All(lines_with(self.finder, bytes, first).count()));
                }
                let outline = Outline::parse(String::from_utf8_lossy(bytes), lang::of(self.path));
                let lines = self.lines(bytes).map(|line| line.number);
                Ok(Chosen::Some(lines.filter(|line| !outline.is_test_line(*line)).collect()))
            }
            Content::Larger(file) => {
                let mut count = 0;
                self.slide(buffer, file, |_, _| count += 1)?;
                Ok(Chosen::All(count))
            }
        }
    }

    /// The lines of one part of the file.
    fn hits(&self, buffer: &mut Buffer, part: &Part<'_>, shown: &str, named: bool) -> io::Result<Vec<Hit>> {
        let hit = |first: usize, last: usize, code: String| Hit {
            file: shown.to_owned(),
            lines: [first + 1, last + 1],
            code,
            score: 1.0,
            kind: Kind::Lines.word().to_owned(),
            matched: vec![first + 1],
            ..Hit::default()
        };
        match buffer.load(self.path)? {
            Content::Whole => {
                let (bytes, language) = (buffer.bytes(), lang::of(self.path));
                let wanted = self.lines(bytes).enumerate().filter(|(nth, line)| part.has(*nth, line.number));
                let mut hits: Vec<Hit> = wanted
                    .take(part.take)
                    .map(|(_, line)| Hit {
                        language: language.map(|language| language.to_string()),
                        ..hit(line.number, line.last, excerpt(line.text, line.at))
                    })
                    .collect();
                if named {
                    name(&mut hits, &Outline::parse(String::from_utf8_lossy(bytes), language));
                }
                Ok(hits)
            }
            Content::Larger(file) => {
                let (mut hits, mut nth) = (Vec::new(), 0);
                self.slide(buffer, file, |number, code| {
                    if part.has(nth, number) {
                        hits.push(hit(number, number, code()));
                    }
                    nth += 1;
                })?;
                Ok(hits)
            }
        }
    }

    /// Every line that has the text.
    fn lines<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = Line<'b>> + 'b {
        let (mut number, mut counted) = (0, 0);
        let length = self.finder.needle().len();
        let first = self.finder.find(bytes).into_iter();
        let spots = first.flat_map(move |first| lines_with(self.finder, bytes, first));
        spots.map(move |at| {
            number += memchr::memchr_iter(b'\n', &bytes[counted..at]).count();
            counted = at;
            let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |end| end + 1);
            // A text may go over several lines; its own last byte belongs to its last line.
            let tail = at + length.saturating_sub(1);
            let end = memchr::memchr(b'\n', &bytes[tail..]).map_or(bytes.len(), |end| tail + end);
            let last = number + memchr::memchr_iter(b'\n', &bytes[at..tail]).count();
            Line { number, last, text: &bytes[start..end], at: at - start }
        })
    }

    /// A file that is too large for memory, piece by piece: the number of each line from 0, and its text.
    fn slide(
        &self,
        buffer: &mut Buffer,
        mut file: File,
        mut found: impl FnMut(usize, &dyn Fn() -> String),
    ) -> io::Result<()> {
        if is_binary(buffer.bytes()) {
            return Ok(());
        }
        let keep = self.finder.needle().len().saturating_sub(1).max(SHOWN);
        // Lines before the buffer, and how far the buffer has been looked at.
        let (mut line, mut done) = (0, 0);
        // A line that was reported is not reported again.
        let mut reported = None;
        loop {
            let bytes = buffer.bytes();
            let mut at = done;
            let mut counted = done;
            while let Some(next) = self.finder.find(&bytes[at..]).map(|next| at + next) {
                line += memchr::memchr_iter(b'\n', &bytes[counted..next]).count();
                counted = next;
                if reported != Some(line) {
                    reported = Some(line);
                    found(line, &|| {
                        let start = memchr::memrchr(b'\n', &bytes[..next]).map_or(0, |end| end + 1);
                        let end = memchr::memchr(b'\n', &bytes[next..]).map_or(bytes.len(), |end| next + end);
                        excerpt(&bytes[start..end], next - start)
                    });
                }
                at = next + 1;
            }
            // What is kept for the next piece is looked at again only where a text could begin in it.
            let length = bytes.len();
            let unread = length.saturating_sub(self.finder.needle().len().saturating_sub(1)).max(counted);
            line += memchr::memchr_iter(b'\n', &bytes[counted..unread]).count();
            if buffer.slide(&mut file, keep)? == 0 {
                return Ok(());
            }
            done = keep.min(length) - (length - unread).min(keep);
        }
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
