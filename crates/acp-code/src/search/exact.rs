//! Literal search: every line that has the text, as `grep -F` would find them.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use memchr::memmem::Finder;

use super::{Hit, Request};
use crate::blocks::{Kind, Outline};
use crate::place::plain;
use crate::read::{Buffer, Content, is_binary};
use crate::walk::{self, Scope};
use crate::{CodeError, Stop, lang, testcode};

/// A line is shown up to this many characters around the text.
const SHOWN: usize = 400;

/// All lines that have the literal, as numbers: which file, and how many lines of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    files: Vec<(PathBuf, usize)>,
    pub(super) total: usize,
    pub(super) truncated: bool,
    pub(super) notices: Vec<String>,
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
    lines.total = lines.files.iter().map(|(_, count)| count).sum();
    lines.notices.extend(walk::folded("cannot read", unreadable));
    Ok(lines)
}

impl Lines {
    /// The lines from `from` on, at most `max` of them.
    pub(super) fn page(&self, request: &Request, scope: &Scope, from: usize, max: usize) -> Vec<Hit> {
        let finder = Finder::new(&request.query);
        let (mut hits, mut buffer) = (Vec::new(), Buffer::default());
        let mut passed = 0;
        for (path, count) in &self.files {
            if hits.len() >= max {
                break;
            }
            if passed + count > from {
                let skip = from.saturating_sub(passed);
                let shown = scope.place.shown(path);
                let file = OneFile { path, shown: &shown, finder: &finder, allow_tests: request.allow_tests };
                // A file that is gone meanwhile has no lines any more.
                if let Ok(found) = file.hits(&mut buffer, skip, max - hits.len()) {
                    hits.extend(found);
                }
            }
            passed += count;
        }
        hits
    }
}

#[derive(Default)]
struct Worker {
    buffer: Buffer,
    files: Vec<(PathBuf, usize)>,
    unreadable: Vec<String>,
}

impl Worker {
    fn file(&mut self, finder: &Finder<'_>, request: &Request, scope: &Scope, path: PathBuf) {
        let file = OneFile { path: &path, shown: "", finder, allow_tests: request.allow_tests };
        match file.count(&mut self.buffer, scope) {
            Ok(0) => {}
            Ok(count) => self.files.push((path, count)),
            Err(error) => self.unreadable.push(format!("{} ({})", scope.place.shown(&path), plain(&error))),
        }
    }
}

struct OneFile<'f> {
    path: &'f PathBuf,
    shown: &'f str,
    finder: &'f Finder<'f>,
    allow_tests: bool,
}

impl OneFile<'_> {
    fn count(&self, buffer: &mut Buffer, scope: &Scope) -> io::Result<usize> {
        match buffer.load(self.path)? {
            Content::Whole => {
                let bytes = buffer.bytes();
                let Some(first) = self.finder.find(bytes) else { return Ok(0) };
                if is_binary(bytes) {
                    return Ok(0);
                }
                if self.allow_tests {
                    return Ok(lines_with(self.finder, bytes, first).count());
                }
                if testcode::is_test_path(&scope.place.shown(self.path)) {
                    return Ok(0);
                }
                Ok(self.not_tests(bytes).len())
            }
            Content::Larger(file) => {
                let mut count = 0;
                self.slide(buffer, file, |_| count += 1)?;
                Ok(count)
            }
        }
    }

    /// Where the lines begin that have the text and are no test code.
    fn not_tests(&self, bytes: &[u8]) -> Vec<usize> {
        let text = String::from_utf8_lossy(bytes);
        let outline = Outline::parse(Cow::Borrowed(&*text), lang::of(self.path));
        let Some(first) = self.finder.find(text.as_bytes()) else { return Vec::new() };
        lines_with(self.finder, text.as_bytes(), first)
            .filter(|at| self.allow_tests || !outline.is_test_line(outline.line_of(*at)))
            .collect()
    }

    fn hits(&self, buffer: &mut Buffer, skip: usize, max: usize) -> io::Result<Vec<Hit>> {
        match buffer.load(self.path)? {
            Content::Whole => {
                let text = String::from_utf8_lossy(buffer.bytes());
                let language = lang::of(self.path);
                let outline = Outline::parse(Cow::Borrowed(&*text), language);
                let spots = self.not_tests(text.as_bytes());
                Ok(spots.into_iter().skip(skip).take(max).map(|at| self.hit(&outline, at)).collect())
            }
            Content::Larger(file) => {
                let mut hits = Vec::new();
                let mut passed = 0;
                self.slide(buffer, file, |line| {
                    if passed >= skip && hits.len() < max {
                        hits.push(Hit {
                            file: self.shown.to_owned(),
                            kind: Kind::Lines.word().to_owned(),
                            ..line
                        });
                    }
                    passed += 1;
                })?;
                Ok(hits)
            }
        }
    }

    fn hit(&self, outline: &Outline<'_>, at: usize) -> Hit {
        let line = outline.line_of(at);
        let last = outline.line_of(at + self.finder.needle().len().saturating_sub(1)).max(line);
        let range = outline.bytes(line, last);
        let block = outline.around(line);
        Hit {
            file: self.shown.to_owned(),
            lines: [line + 1, last + 1],
            code: excerpt(&outline.text.as_bytes()[range.clone()], at - range.start),
            score: 1.0,
            kind: block.map_or(Kind::Lines, |block| block.kind).word().to_owned(),
            name: block.and_then(|block| block.name.clone()),
            language: lang::of(self.path).map(|language| language.to_string()),
            matched: vec![line + 1],
        }
    }

    /// A file that is too large for memory, piece by piece.
    fn slide(&self, buffer: &mut Buffer, mut file: File, mut found: impl FnMut(Hit)) -> io::Result<()> {
        if is_binary(buffer.bytes()) {
            return Ok(());
        }
        let keep = self.finder.needle().len().saturating_sub(1).max(SHOWN);
        // Lines before the buffer, and how far the buffer has been looked at.
        let (mut line, mut done) = (1, 0);
        // A line that was reported is not reported again.
        let mut reported = 0;
        loop {
            let bytes = buffer.bytes();
            let mut at = done;
            let mut counted = done;
            while let Some(next) = self.finder.find(&bytes[at..]).map(|next| at + next) {
                line += memchr::memchr_iter(b'\n', &bytes[counted..next]).count();
                counted = next;
                if line != reported {
                    reported = line;
                    let start = memchr::memrchr(b'\n', &bytes[..next]).map_or(0, |end| end + 1);
                    let end = memchr::memchr(b'\n', &bytes[next..]).map_or(bytes.len(), |end| next + end);
                    let code = excerpt(&bytes[start..end], next - start);
                    found(Hit {
                        lines: [line, line],
                        code,
                        score: 1.0,
                        matched: vec![line],
                        ..Hit::default()
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
