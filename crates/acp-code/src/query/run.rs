//! The walk behind a structural query.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ast_grep_language::SupportLang;

use super::matches::{InFile, MOST};
use super::pattern::{self, Compiled};
use super::{QueryMatch, QueryRequest, QueryResults};
use crate::place::plain;
use crate::read::{Buffer, Content};
use crate::walk::{self, Scope};
use crate::{CodeError, StopSignal, lang, testcode};

/// `ast-grep` leaves out files that are larger than this and have more lines than [`MANY_LINES`].
const LARGE: usize = 3_000_000;
const MANY_LINES: usize = 200_000;
/// A file of more bytes than this waits for the end of the walk.
const LATE: usize = 32 << 10;
/// So much code is held before matches that are not among the first are dropped.
const HELD: usize = MOST;

/// Runs the query over the scope.
pub(crate) fn run(
    request: &QueryRequest,
    scope: &Scope,
    stop: &StopSignal,
) -> Result<QueryResults, CodeError> {
    let plan = Plan::new(request)?;
    let job = Job { plan: &plan, request, scope, stop };
    let (workers, report) =
        walk::files(scope, stop, Worker::default, |worker, path| worker.file(&job, path))?;
    let mut all = Worker::default();
    workers.into_iter().for_each(|worker| all.join(worker));
    let mut late = std::mem::take(&mut all.late);
    late.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.path.cmp(&b.path)));
    let is_wanted = || stop.reason().is_none();
    let workers =
        walk::share(&late, is_wanted, Worker::default, |worker, _, late| worker.late_file(&job, late));
    workers.into_iter().for_each(|worker| all.join(worker));
    let truncated = walk::stopped(stop)? || report.truncated;
    let mut notices = report.notices;
    // Almost anything is found in a text; was it meant?
    let in_texts = || all.found.iter().all(|hit| lang::named(&hit.language).is_ok_and(lang::is_text));
    if (all.found.is_empty() || (plan.asked.is_none() && in_texts()))
        && let Some(flaw) = plan.flaw(&all.seen, &request.pattern)
    {
        if all.found.is_empty() && flaw.is_everywhere {
            return Err(flaw.error);
        }
        notices.push(flaw.note());
    }
    all.trim(request.max_results);
    let total = all.total;
    notices.extend(walk::folded("cannot read", all.unreadable));
    notices.extend(walk::folded("left out because they are not UTF-8:", all.not_text));
    notices.extend(walk::folded("left out because they are too large to parse:", all.too_large));
    notices.extend(walk::folded("left out because they nest too deep:", all.too_deep));
    // Of files that come after the last result nothing is given anyway.
    let last = all.found.last().filter(|_| all.found.len() == request.max_results).map(|hit| &hit.file);
    all.cut.retain(|file| last.is_none_or(|last| file <= last));
    let what = format!(
        "given in part because their matches, one inside the other, are more than {} MB:",
        MOST >> 20
    );
    notices.extend(walk::folded(&what, all.cut));
    if report.files > 0 && report.hidden == 0 && all.seen.is_empty() && !report.truncated {
        notices.push(plan.no_files());
    }
    Ok(QueryResults { results: all.found, total, truncated, notices })
}

/// The pattern in each language that may come up.
struct Plan {
    asked: Option<SupportLang>,
    ready: Vec<Result<Compiled, CodeError>>,
}

impl Plan {
    fn new(request: &QueryRequest) -> Result<Self, CodeError> {
        let asked = request.language.as_deref().map(lang::named).transpose()?;
        let refused = |what: String| Err(CodeError::Request { tool: "query", what });
        if request.pattern.trim().is_empty() {
            let what = "the pattern is empty; give a piece of code with $HOLES, for instance foo($A)";
            return refused(what.to_owned());
        }
        if request.pattern.len() > pattern::LONGEST {
            let longest = pattern::LONGEST;
            return refused(format!(
                "the pattern is longer than {longest} bytes; give a smaller piece of code"
            ));
        }
        if let Some(language) = asked {
            return Ok(Self { asked, ready: vec![Ok(Compiled::new(&request.pattern, language)?)] });
        }
        let ready =
            lang::BUILT_IN.iter().map(|language| Compiled::new(&request.pattern, *language)).collect();
        Ok(Self { asked, ready })
    }

    fn compiled(&self, language: SupportLang) -> Option<&Compiled> {
        self.ready.iter().filter_map(|entry| entry.as_ref().ok()).find(|entry| entry.language == language)
    }

    /// What to look for in a file of this language: in the file itself, and in the code that it carries.
    fn parts(&self, host: SupportLang) -> Option<Parts<'_>> {
        let carried = lang::carried_by(host);
        match self.asked {
            Some(asked) if asked == host => Some((self.compiled(host), Vec::new())),
            Some(asked) if carried.contains(&asked) => {
                Some((None, self.compiled(asked).into_iter().collect()))
            }
            Some(_) => None,
            // Like `ast-grep`: a file is left out when the pattern is no code of its own language.
            None => {
                let own = self.compiled(host)?;
                Some((Some(own), carried.iter().filter_map(|language| self.compiled(*language)).collect()))
            }
        }
    }

    /// Whether the pattern is at fault that nothing was found: which languages that came up cannot read it.
    fn flaw(&self, seen: &BTreeMap<String, usize>, pattern: &str) -> Option<Flaw> {
        if self.asked.is_some() {
            let error = self.ready.iter().flatten().find_map(|entry| entry.error(pattern))?;
            return Some(Flaw { error, others: Vec::new(), is_everywhere: true });
        }
        let mut common: Vec<_> = seen.iter().collect();
        common.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let (mut flaws, mut names, mut is_everywhere) = (Vec::new(), Vec::new(), true);
        for (name, _) in &common {
            let read = lang::named(name).and_then(|language| Compiled::new(pattern, language));
            let is_bent = read.as_ref().is_ok_and(|compiled| compiled.has_letters_for_brackets(pattern));
            match read.map_or_else(Some, |compiled| compiled.error(pattern)) {
                Some(flaw) => {
                    flaws.push(flaw);
                    names.push((*name).clone());
                }
                None => is_everywhere &= is_bent,
            }
        }
        let error = flaws.into_iter().next()?;
        Some(Flaw { error, others: names.split_off(1), is_everywhere })
    }

    fn no_files(&self) -> String {
        match self.asked {
            Some(language) => format!("there are no {language} files here"),
            None => "there are no files here in a language that is built in".to_owned(),
        }
    }
}

/// What is wrong with the pattern.
struct Flaw {
    /// In the language that most files have of those that cannot read it.
    error: CodeError,
    /// The others that cannot.
    others: Vec<String>,
    /// No language that came up reads it as code.
    is_everywhere: bool,
}

impl Flaw {
    /// A line: the picture of the place is for an error.
    fn note(&self) -> String {
        let mut note = self.error.to_string().lines().next().unwrap_or_default().to_owned();
        if !self.others.is_empty() {
            note.push_str(&format!("; nor as {}", self.others.join(", ")));
        }
        note
    }
}

/// The pattern in a file's own language, and in those that it carries.
type Parts<'p> = (Option<&'p Compiled>, Vec<&'p Compiled>);

/// What is looked for, and where.
struct Job<'j> {
    plan: &'j Plan,
    request: &'j QueryRequest,
    scope: &'j Scope,
    stop: &'j StopSignal,
}

/// A large file that has what every match must have.
struct Late {
    path: PathBuf,
    host: SupportLang,
    size: usize,
}

/// One thread's share.
#[derive(Default)]
struct Worker {
    buffer: Buffer,
    found: Vec<QueryMatch>,
    /// How many bytes of code they have.
    held: usize,
    total: usize,
    /// There are enough matches in this file and before it: later files are only counted.
    enough: Option<String>,
    /// What is parsed after the walk.
    late: Vec<Late>,
    seen: BTreeMap<String, usize>,
    unreadable: Vec<String>,
    not_text: Vec<String>,
    too_large: Vec<String>,
    too_deep: Vec<String>,
    /// Files whose matches are given in part.
    cut: Vec<String>,
}

impl Worker {
    /// A file that the walk came upon. A large one waits: at the end all threads share them, the largest first, so that
    /// none is left with a large one while the others have nothing to do.
    fn file(&mut self, job: &Job<'_>, path: PathBuf) {
        let Some(host) = lang::of(&path) else { return };
        let parts = job.plan.parts(host);
        if job.plan.asked.is_none() || parts.is_some() {
            *self.seen.entry(host.to_string()).or_default() += 1;
        }
        let Some(parts) = parts.and_then(|parts| self.load(job, &path, parts)) else { return };
        let size = self.buffer.bytes().len();
        if size > LATE {
            self.late.push(Late { path, host, size });
        } else {
            self.matches(job, &path, host, &parts);
        }
    }

    fn late_file(&mut self, job: &Job<'_>, late: &Late) {
        let parts = job.plan.parts(late.host).and_then(|parts| self.load(job, &late.path, parts));
        if let Some(parts) = parts {
            self.matches(job, &late.path, late.host, &parts);
        }
    }

    /// Reads the file and says what can match in it.
    fn load<'p>(&mut self, job: &Job<'_>, path: &Path, (own, carried): Parts<'p>) -> Option<Parts<'p>> {
        match self.buffer.load(path) {
            Ok(Content::Whole) => {
                let bytes = self.buffer.bytes();
                let own = own.filter(|compiled| compiled.may_match(bytes));
                let carried: Vec<_> = carried.into_iter().filter(|entry| entry.may_match(bytes)).collect();
                (!bytes.is_empty() && (own.is_some() || !carried.is_empty())).then_some((own, carried))
            }
            Ok(Content::Larger(_)) => {
                self.too_large.push(job.scope.place.shown(path));
                None
            }
            Err(error) => {
                self.unreadable.push(format!("{} ({})", job.scope.place.shown(path), plain(&error)));
                None
            }
        }
    }

    /// The matches in the file that was read.
    fn matches(&mut self, job: &Job<'_>, path: &Path, host: SupportLang, (own, carried): &Parts<'_>) {
        let (bytes, request) = (self.buffer.bytes(), job.request);
        let shown = || job.scope.place.shown(path);
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.not_text.push(shown());
            return;
        };
        if text.len() > LARGE && memchr::memchr_iter(b'\n', bytes).count() > MANY_LINES {
            self.too_large.push(shown());
            return;
        }
        if !request.allow_tests && testcode::is_test_path(&shown()) {
            return;
        }
        let file = shown();
        let only_count = self.enough.as_ref().is_some_and(|last| file > *last);
        let in_file = InFile {
            file: &file,
            text,
            host,
            own: *own,
            carried,
            wanted: if only_count { 0 } else { request.max_results },
            allow_tests: request.allow_tests,
            stop: job.stop,
        };
        let found = in_file.find();
        self.total += found.total;
        self.held += found.given.iter().map(QueryMatch::size).sum::<usize>();
        self.found.extend(found.given);
        self.too_deep.extend(found.is_deep.then(|| file.clone()));
        self.cut.extend(found.is_cut.then_some(file));
        let max = request.max_results;
        if self.found.len() / 2 > max.max(500) || (self.held > HELD && self.found.len() > max) {
            self.trim(max);
            self.held = self.found.iter().map(QueryMatch::size).sum();
            self.enough = self.found.last().map(|hit| hit.file.clone());
        }
    }

    fn join(&mut self, other: Self) {
        self.found.extend(other.found);
        self.total += other.total;
        self.late.extend(other.late);
        self.unreadable.extend(other.unreadable);
        self.not_text.extend(other.not_text);
        self.too_large.extend(other.too_large);
        self.too_deep.extend(other.too_deep);
        self.cut.extend(other.cut);
        for (language, count) in other.seen {
            *self.seen.entry(language).or_default() += count;
        }
    }

    /// Keeps the first matches in the order of files and positions.
    fn trim(&mut self, max: usize) {
        self.found.sort_by(|a, b| (&a.file, a.bytes, &a.language).cmp(&(&b.file, b.bytes, &b.language)));
        self.found.truncate(max);
    }
}
