//! Finding the pieces.

use std::borrow::Cow;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::spec::{Wanted, parse};
use super::{Piece, Request, Results};
use crate::blocks::{Block, Kind, Outline};
use crate::hidden::Hidden;
use crate::place::{Place, plain};
use crate::read::{Buffer, Content, WHOLE, is_binary, open};
use crate::{CodeError, Stop, lang, testcode, walk};

/// A function in a function is no block of its own unless the outer one is longer than this.
const LONG: usize = 150;
/// Lines of a file that is too large for memory are shown up to this many bytes.
const CUT: usize = 2000;
/// And so many bytes of them in one piece.
const LINES: usize = 4 << 20;
/// When the pieces are this many bytes together, no more are taken.
const MOST: usize = 16 << 20;
/// Names that are offered when one is not found.
const OFFERED: usize = 5;

/// Takes every piece that was asked for, each below the root that `place` has for it.
pub(crate) fn run<'r>(
    request: &Request,
    place: impl Fn(&str) -> (&'r PathBuf, &'r Hidden),
    stop: &Stop,
) -> Result<Results, CodeError> {
    if request.files.is_empty() {
        let what = "`files` is empty; give at least one file, for instance src/main.rs:10".to_owned();
        return Err(CodeError::Request { tool: "extract", what });
    }
    let mut results = Results::default();
    let mut buffer = Buffer::default();
    let mut room = MOST;
    for wanted in &request.files {
        if walk::stopped(stop)? {
            results.truncated = true;
            break;
        }
        let (root, hidden) = place(wanted);
        let mut asked = Asked {
            request,
            text: wanted,
            root,
            hidden,
            stop,
            room,
            late: false,
            notices: &mut results.notices,
        };
        let made = asked.pieces(&mut buffer);
        (room, results.truncated) = (asked.room, asked.late);
        match made {
            Ok(pieces) => {
                results.failed += pieces.iter().filter(|piece| piece.error.is_some()).count();
                results.results.extend(pieces);
            }
            Err(failure) => {
                results.failed += 1;
                results.denied += usize::from(failure.denied);
                results.results.push(failure.piece(wanted));
            }
        }
    }
    if results.truncated {
        walk::stopped(stop)?;
    }
    Ok(results)
}

struct Asked<'a> {
    request: &'a Request,
    text: &'a str,
    root: &'a Path,
    hidden: &'a Hidden,
    stop: &'a Stop,
    /// How many bytes may still be taken.
    room: usize,
    /// The deadline passed in the middle of a piece.
    late: bool,
    notices: &'a mut Vec<String>,
}

/// A piece of lines, from 0.
struct Cut {
    lines: [usize; 2],
    kind: &'static str,
    name: Option<String>,
    test: bool,
}

impl Asked<'_> {
    fn pieces(&mut self, buffer: &mut Buffer) -> Result<Vec<Piece>, Failure> {
        if self.room == 0 {
            return Err(Failure::full(self.text));
        }
        let exists = |name: &str| Place::find(self.root, Some(name)).is_ok_and(|place| place.path.is_file());
        let spec = parse(self.text, exists).map_err(|what| Failure::new(self.text, what))?;
        let fail = |what: String| Failure::new(&spec.file, what);
        let place = Place::find(self.root, Some(&spec.file)).map_err(|error| match error {
            CodeError::Path { why, .. } => fail(format!("cannot read {:?}: {why}", spec.file)),
            other => fail(other.to_string()).denied(),
        })?;
        let shown = place.shown(&place.path);
        if self.hidden.holds(|| &shown) {
            return Err(fail(format!("{shown:?} may not be looked at")).denied());
        }
        if place.path.is_dir() {
            return Err(fail(format!("{shown:?} is a folder; name a file in it")));
        }
        let content = buffer
            .load(&place.path)
            .map_err(|error| fail(format!("cannot read {shown:?}: {}", plain(&error))))?;
        if is_binary(buffer.bytes()) {
            return Err(fail(format!("{shown:?} is a binary file")));
        }
        if matches!(content, Content::Larger(_)) {
            return self.large_file(&place.path, &shown, &spec.wanted).map(|piece| vec![piece]).map_err(fail);
        }
        let text = String::from_utf8_lossy(buffer.bytes());
        let language = lang::of(&place.path);
        // A whole file is taken as it is, with no look at its blocks.
        let syntax = language.filter(|_| spec.wanted != Wanted::All);
        let parse = match spec.wanted {
            Wanted::Symbol(_) => Outline::parse_names,
            _ => Outline::parse,
        };
        let Some(outline) = parse(Cow::Borrowed(&*text), syntax, self.stop) else {
            self.late = true;
            return Err(fail(format!("the time was up before the blocks of {shown:?} were found")));
        };
        let whole_file_is_test = testcode::is_test_path(&shown);
        let mut pieces = Vec::new();
        for cut in cuts(&outline, &spec.wanted, &shown).map_err(&fail)? {
            if !self.request.allow_tests && (cut.test || whole_file_is_test) {
                let what = "this is test code, which was not wanted (allow_tests is false)";
                return Err(fail(what.to_owned()));
            }
            let more = self.request.context_lines;
            let first = cut.lines[0].saturating_sub(more);
            let last = cut.lines[1].saturating_add(more).min(outline.count().saturating_sub(1));
            if self.room == 0 {
                pieces.push(Failure::full(&shown).piece(self.text));
                break;
            }
            let code = outline.slice(first, last);
            self.room = self.room.saturating_sub(code.len());
            pieces.push(Piece {
                request: self.text.to_owned(),
                file: shown.clone(),
                lines: Some([first + 1, last + 1]),
                code: Some(code.to_owned()),
                kind: Some(cut.kind.to_owned()),
                name: cut.name,
                language: language.map(|language| language.to_string()),
                error: None,
            });
        }
        if matches!(text, Cow::Owned(_)) {
            self.notices.push(format!("{shown} is not UTF-8; what could not be read is shown as \u{FFFD}"));
        }
        Ok(pieces)
    }

    /// Lines of a file that is too large to hold: no blocks, and long lines are cut.
    fn large_file(&mut self, path: &Path, shown: &str, wanted: &Wanted) -> Result<Piece, String> {
        let megabytes = WHOLE >> 20;
        let Wanted::Lines(first, last) = *wanted else {
            return Err(format!(
                "{shown:?} is larger than {megabytes} MB; ask for lines of it: {shown}:1-20"
            ));
        };
        let first = first.saturating_sub(self.request.context_lines).max(1);
        let last = last.saturating_add(self.request.context_lines);
        let Taken { lines, bytes, end } =
            some_lines(path, first, last, self.stop).map_err(|error| plain(&error))?;
        self.room = self.room.saturating_sub(bytes);
        self.late = matches!(end, End::Late);
        if lines.is_empty() {
            return Err(match end {
                End::Late => format!("the time was up before line {first} of {shown:?} was read"),
                _ => format!("{shown:?} has no line {first}"),
            });
        }
        let to = first + lines.len() - 1;
        if let End::Full = end {
            let megabytes = LINES >> 20;
            self.notices
                .push(format!("of {shown} only the lines {first}-{to} are given, which are {megabytes} MB"));
        }
        self.notices.push(format!(
            "{shown} is larger than {megabytes} MB: lines are shown as they are, without their block, up to {CUT} bytes each"
        ));
        Ok(Piece {
            request: self.text.to_owned(),
            file: shown.to_owned(),
            lines: Some([first, to]),
            code: Some(lines.join("\n")),
            kind: Some(Kind::Lines.word().to_owned()),
            language: lang::of(path).map(|language| language.to_string()),
            ..Piece::default()
        })
    }
}

/// Why there is no piece.
struct Failure {
    file: String,
    what: String,
    denied: bool,
}

impl Failure {
    fn new(file: &str, what: String) -> Self {
        Self { file: file.to_owned(), what, denied: false }
    }

    fn denied(self) -> Self {
        Self { denied: true, ..self }
    }

    /// There is no room for what stands there.
    fn full(file: &str) -> Self {
        let megabytes = MOST >> 20;
        Self::new(
            file,
            format!("the pieces before it are more than {megabytes} MB together; ask for it alone"),
        )
    }

    fn piece(self, request: &str) -> Piece {
        Piece { request: request.to_owned(), file: self.file, error: Some(self.what), ..Piece::default() }
    }
}

/// Lines that were read.
struct Taken {
    lines: Vec<String>,
    bytes: usize,
    end: End,
}

/// Why no more lines were read.
enum End {
    /// These are all.
    Done,
    /// They are [`LINES`] bytes.
    Full,
    /// The call has to end.
    Late,
}

/// Reads lines without ever holding a whole one.
fn some_lines(path: &Path, first: usize, last: usize, stop: &Stop) -> std::io::Result<Taken> {
    let mut reader = BufReader::with_capacity(1 << 20, open(path)?.0);
    let mut taken = Taken { lines: Vec::new(), bytes: 0, end: End::Done };
    let mut now: Vec<u8> = Vec::new();
    let mut line = 1;
    let mut is_open = false;
    while line <= last {
        if stop.reason().is_some() {
            taken.end = End::Late;
            return Ok(taken);
        }
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', piece);
        let used = end.unwrap_or(piece.len());
        if line >= first {
            is_open = true;
            let room = CUT.saturating_sub(now.len());
            now.extend_from_slice(&piece[..used.min(room)]);
            if used > room && !now.ends_with("…".as_bytes()) {
                now.extend_from_slice("…".as_bytes());
            }
        }
        reader.consume(used + usize::from(end.is_some()));
        if end.is_some() {
            if line >= first {
                if taken.bytes + now.len() + 1 > LINES {
                    taken.end = End::Full;
                    return Ok(taken);
                }
                taken.push(&now);
                now.clear();
                is_open = false;
            }
            line += 1;
        }
    }
    if is_open {
        taken.push(&now);
    }
    Ok(taken)
}

impl Taken {
    fn push(&mut self, line: &[u8]) {
        self.bytes += line.len() + 1;
        self.lines.push(String::from_utf8_lossy(line).into_owned());
    }
}

fn cuts(outline: &Outline<'_>, wanted: &Wanted, shown: &str) -> Result<Vec<Cut>, String> {
    let last = outline.count().saturating_sub(1);
    match wanted {
        Wanted::All => Ok(vec![Cut { lines: [0, last], kind: "file", name: None, test: false }]),
        Wanted::Lines(from, to) => {
            if *from > outline.count() {
                return Err(format!("{shown:?} has only {} lines", outline.count()));
            }
            Ok(vec![grown(outline, from - 1, (to - 1).min(last))])
        }
        Wanted::Symbol(_) if outline.is_too_deep => Err(format!(
            "{shown:?} was not parsed: it nests too deep for its language's parser; ask for lines of it: {shown}:1-20"
        )),
        Wanted::Symbol(parts) => symbols(outline, parts, shown),
    }
}

/// The lines grown to the whole blocks that they touch.
fn grown(outline: &Outline<'_>, from: usize, to: usize) -> Cut {
    let (first, last) = (block_at(outline, from), block_at(outline, to));
    let begin = first.map_or_else(|| paragraph(outline, from)[0], |block| block.lines[0]);
    let end = last.map_or_else(|| paragraph(outline, to)[1], |block| block.lines[1]);
    let single = first.filter(|block| block.lines[0] <= begin && block.lines[1] >= end);
    Cut {
        lines: [begin.min(from), end.max(to)],
        kind: single.map_or(Kind::Lines, |block| block.kind).word(),
        name: single.and_then(|block| block.name.clone()),
        test: first.is_some_and(|block| block.test) || last.is_some_and(|block| block.test),
    }
}

/// The block that a reader would point at: a function in a function is part of the outer one.
fn block_at<'o>(outline: &'o Outline<'_>, line: usize) -> Option<&'o Block> {
    let mut block = outline.around(line)?;
    while let Some(parent) = block.parent.map(|parent| &outline.blocks[parent])
        && parent.kind == Kind::Function
        && parent.lines[1] - parent.lines[0] < LONG
    {
        block = parent;
    }
    Some(block)
}

/// The lines around a line that stands in no block, up to the next empty ones.
fn paragraph(outline: &Outline<'_>, line: usize) -> [usize; 2] {
    let is_blank = |line: usize| outline.slice(line, line).trim().is_empty();
    // Where the block before the line ends and the one after it begins.
    let (mut from, mut to) = (0, outline.count());
    for block in &outline.blocks {
        if block.lines[1] < line {
            from = from.max(block.lines[1] + 1);
        } else {
            to = to.min(block.lines[0]);
        }
    }
    let (mut first, mut last) = (line, line);
    while first > from && !is_blank(first - 1) {
        first -= 1;
    }
    while last + 1 < to && !is_blank(last + 1) {
        last += 1;
    }
    [first, last]
}

fn symbols(outline: &Outline<'_>, parts: &[String], shown: &str) -> Result<Vec<Cut>, String> {
    let mut found: Vec<&Block> =
        outline.blocks.iter().filter(|block| answers(outline, block, parts)).collect();
    // A type is its declaration; its `impl` blocks are asked for through their methods.
    if found.iter().any(|block| block.kind != Kind::Impl) {
        found.retain(|block| block.kind != Kind::Impl);
    }
    // What is defined here is shown, and not that it was announced before.
    if found.iter().any(|block| !block.forward) {
        found.retain(|block| !block.forward);
    }
    if found.is_empty() {
        return Err(not_found(outline, parts, shown));
    }
    Ok(found
        .into_iter()
        .map(|block| Cut {
            lines: block.lines,
            kind: block.kind.word(),
            name: block.name.clone(),
            test: block.test,
        })
        .collect())
}

/// Whether the block has this name, inside blocks with the names before it.
fn answers(outline: &Outline<'_>, block: &Block, parts: &[String]) -> bool {
    let Some((last, outer)) = parts.split_last() else { return false };
    if !block.name.as_deref().is_some_and(|name| is_called(name, last)) {
        return false;
    }
    let owner = block.owner.as_deref().map(without_arguments).unwrap_or_default();
    let mut around: Vec<&str> = fronts(block.name.as_deref().unwrap_or_default()).collect();
    around.extend(owner.rsplit("::"));
    let mut at = block.parent;
    while let Some(parent) = at {
        let name = outline.blocks[parent].name.as_deref().unwrap_or_default();
        around.push(name);
        around.extend(fronts(name));
        at = outline.blocks[parent].parent;
    }
    // Innermost first, and every part must be met on the way out.
    let mut chain = around.into_iter();
    outer.iter().rev().all(|part| chain.any(|name| is_called(name, part)))
}

/// What stands before the last part of a name: `b` and `a` of `a::b::c`.
fn fronts(name: &str) -> impl Iterator<Item = &str> {
    name.rsplit("::").flat_map(|part| part.rsplit('.')).skip(1).filter(|part| !part.is_empty())
}

/// `Walk<'a, T>` is called Walk, `ns::Walk` and `Outer<T>::Walk` too, and `$size` is called size.
fn is_called(name: &str, wanted: &str) -> bool {
    let plain = without_arguments(name);
    let bare = plain.split(['(', '[']).next().unwrap_or(&plain).trim();
    bare == wanted
        || name == wanted
        || bare.rsplit("::").next() == Some(wanted)
        || bare.rsplit('.').next() == Some(wanted)
        || bare.strip_prefix("r#").unwrap_or(bare).trim_start_matches(['$', '@']) == wanted
        || operator(wanted).is_some_and(|sign| operator(name).unwrap_or(name) == sign)
}

/// What follows the word in `operator +`.
fn operator(name: &str) -> Option<&str> {
    let sign = name.strip_prefix("operator")?;
    (!sign.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')).then(|| sign.trim())
}

/// The name without what stands between `<` and `>`.
fn without_arguments(name: &str) -> Cow<'_, str> {
    // An operator of C++ may be called `<`.
    let (arguments, rest) = name.split_at(name.find("operator").unwrap_or(name.len()));
    if !arguments.contains('<') {
        return Cow::Borrowed(name);
    }
    let mut depth = 0_usize;
    let mut plain = String::with_capacity(name.len());
    for letter in arguments.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            letter if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    Cow::Owned(plain + rest)
}

fn not_found(outline: &Outline<'_>, parts: &[String], shown: &str) -> String {
    let wanted = parts.join(".");
    let last = parts.last().map(|part| part.to_lowercase()).unwrap_or_default();
    let mut near: Vec<&str> = outline
        .blocks
        .iter()
        .filter_map(|block| block.name.as_deref())
        .filter(|name| {
            let lower = name.to_lowercase();
            lower.contains(&last) || (lower.len() > 3 && last.contains(&lower))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(OFFERED);
    let hint = if near.is_empty() { String::new() } else { format!("; there is {}", near.join(", ")) };
    format!("{shown:?} declares no {wanted:?}{hint}")
}
