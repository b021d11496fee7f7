//! Finding the pieces.

use std::borrow::Cow;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::anywhere;
use super::cuts::cuts;
use super::spec::{Wanted, parse};
use super::{ExtractRequest, ExtractResults, ExtractedPiece};
use crate::blocks::{Kind, Outline};
use crate::place::{Place, plain};
use crate::read::{Buffer, Content, WHOLE, is_binary, open};
use crate::walk::{self, Scope};
use crate::{CodeError, StopSignal, lang, testcode};

/// Lines of a file that is too large for memory are shown up to this many bytes.
const CUT: usize = 2000;
/// And so many bytes of them in one piece.
const LINES: usize = 4 << 20;
/// When the pieces are this many bytes together, no more are taken.
const MOST: usize = 16 << 20;

/// Takes every piece that was asked for, each below the root that `scope` has for it.
pub(crate) fn run(
    request: &ExtractRequest,
    scope: impl Fn(&str) -> Result<Scope, CodeError>,
    stop: &StopSignal,
) -> Result<ExtractResults, CodeError> {
    if request.files.is_empty() {
        let what = "`files` is empty; give at least one file, for instance src/main.rs:10".to_owned();
        return Err(CodeError::Request { tool: "extract", what });
    }
    let mut results = ExtractResults::default();
    let mut buffer = Buffer::default();
    let mut room = MOST;
    for wanted in &request.files {
        if walk::stopped(stop)? {
            results.truncated = true;
            break;
        }
        let scope = scope(wanted)?;
        let mut asked = Asked {
            request,
            text: wanted,
            scope: &scope,
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
    request: &'a ExtractRequest,
    text: &'a str,
    scope: &'a Scope,
    stop: &'a StopSignal,
    /// How many bytes may still be taken.
    room: usize,
    /// The deadline passed in the middle of a piece.
    late: bool,
    notices: &'a mut Vec<String>,
}

impl Asked<'_> {
    fn pieces(&mut self, buffer: &mut Buffer) -> Result<Vec<ExtractedPiece>, Failure> {
        if self.room == 0 {
            return Err(Failure::full(self.text));
        }
        if let Some(symbol) = self.text.trim().strip_prefix('#') {
            let found = anywhere::pieces(symbol, self.request, self.scope, self.stop);
            let found = found.map_err(|what| Failure::new(self.text, what))?;
            self.late = found.late;
            self.notices.extend(found.notices);
            return Ok(found.pieces);
        }
        let exists = |name: &str| {
            Place::find(&self.scope.place.root, Some(name)).is_ok_and(|place| place.path.is_file())
        };
        let spec = parse(self.text, exists).map_err(|what| Failure::new(self.text, what))?;
        let fail = |what: String| Failure::new(&spec.file, what);
        let place = Place::find(&self.scope.place.root, Some(&spec.file)).map_err(|error| match error {
            CodeError::Path { why, .. } => fail(format!("cannot read {:?}: {why}", spec.file)),
            other => fail(other.to_string()).denied(),
        })?;
        let shown = place.shown(&place.path);
        if self.scope.hidden.holds(|| &shown) {
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
            pieces.push(ExtractedPiece {
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
    fn large_file(&mut self, path: &Path, shown: &str, wanted: &Wanted) -> Result<ExtractedPiece, String> {
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
        Ok(ExtractedPiece {
            request: self.text.to_owned(),
            file: shown.to_owned(),
            lines: Some([first, to]),
            code: Some(lines.join("\n")),
            kind: Some(Kind::Lines.word().to_owned()),
            language: lang::of(path).map(|language| language.to_string()),
            ..ExtractedPiece::default()
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

    fn piece(self, request: &str) -> ExtractedPiece {
        ExtractedPiece {
            request: request.to_owned(),
            file: self.file,
            error: Some(self.what),
            ..ExtractedPiece::default()
        }
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
fn some_lines(path: &Path, first: usize, last: usize, stop: &StopSignal) -> std::io::Result<Taken> {
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
