//! The files below a place, on all cores, as the ignore rules allow.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ignore::{DirEntry, ParallelVisitor, ParallelVisitorBuilder, WalkBuilder, WalkState};

use crate::hidden::Hidden;
use crate::place::{Place, one_line, plain};
use crate::{CodeError, StopCause, StopSignal, rules};

/// How many names a notice lists before it only counts.
const LISTED: usize = 5;
/// How far hidden files are counted.
const COUNTED: usize = 10_000;

/// Which files are looked at.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Where the walk begins.
    pub(crate) place: Place,
    /// Whether files that ignore rules hide are looked at too.
    pub(crate) ignored: bool,
    /// Whether files whose name begins with a dot are looked at too, except what is in `.git`.
    pub(crate) dotfiles: bool,
    /// Files that are not looked at.
    pub(crate) hidden: Hidden,
}

/// What a walk came across.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// How many files were visited.
    pub(crate) files: usize,
    /// The deadline passed in mid-walk.
    pub(crate) truncated: bool,
    /// How many files may not be looked at.
    pub(crate) hidden: usize,
    /// For people: folders that could not be read, rules that hide everything.
    pub(crate) notices: Vec<String>,
}

/// Calls `visit` for every file, on several threads with a state each. Returns all states.
pub(crate) fn files<S: Send>(
    scope: &Scope,
    stop: &StopSignal,
    new: impl Fn() -> S + Sync,
    visit: impl Fn(&mut S, PathBuf) + Sync,
) -> Result<(Vec<S>, Report), CodeError> {
    let shared = Shared {
        scope,
        stop,
        visit: &visit,
        states: Mutex::new(Vec::new()),
        flaws: Mutex::new(Vec::new()),
        files: AtomicUsize::new(0),
        hidden: AtomicUsize::new(0),
    };
    let left_out: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut walker = walker(scope);
    let mut notices = Vec::new();
    if !scope.ignored {
        notices.extend(vet(&mut walker, scope, &left_out)?);
    } else if scope.dotfiles {
        walker.filter_entry(|entry| entry.file_name() != ".git");
    }
    walker.build_parallel().visit(&mut Builder { shared: &shared, new: &new });
    let truncated = stopped(stop)?;
    let files = shared.files.into_inner();
    let flaws = shared.flaws.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    notices.extend(relative(&scope.place.root, folded("cannot read", flaws)));
    let left_out = left_out.lock().map(|mut left_out| std::mem::take(&mut *left_out)).unwrap_or_default();
    notices.extend(folded("left out because their ignore rules are no ordinary file:", left_out));
    let hidden = shared.hidden.into_inner();
    if hidden > 0 {
        let what = if hidden == 1 { "file was" } else { "files were" };
        notices.push(format!("{hidden} {what} not looked at: that is not allowed"));
    } else if files == 0 && !truncated {
        notices.extend(nothing(scope));
    }
    let states = shared.states.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok((states, Report { files, truncated, hidden, notices }))
}

/// Calls `work` for every item, on several threads with a state each, as long as the results are wanted. Returns
/// all states.
pub(crate) fn share<T: Sync, S: Send>(
    items: &[T],
    is_wanted: impl Fn() -> bool + Sync,
    new: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize, &T) + Sync,
) -> Vec<S> {
    let next = AtomicUsize::new(0);
    let states = Mutex::new(Vec::new());
    let turn = || {
        let mut state = new();
        while is_wanted() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            work(&mut state, index, item);
        }
        if let Ok(mut states) = states.lock() {
            states.push(state);
        }
    };
    std::thread::scope(|threads_of| {
        for _ in 1..threads().min(items.len()) {
            threads_of.spawn(turn);
        }
        turn();
    });
    states.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Like [`share`], but returns what `work` made of each item, in the order of the items.
pub(crate) fn each<T: Sync, S: Send, R: Send>(
    items: &[T],
    is_wanted: impl Fn() -> bool + Sync,
    new: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> R + Sync,
) -> Vec<R> {
    let states = share(
        items,
        is_wanted,
        || (new(), Vec::new()),
        |(state, found), index, item| found.push((index, work(state, item))),
    );
    let mut found: Vec<(usize, R)> = states.into_iter().flat_map(|(_, found)| found).collect();
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, result)| result).collect()
}

/// Whether the deadline has passed; an error when the call was cancelled.
pub(crate) fn stopped(stop: &StopSignal) -> Result<bool, CodeError> {
    match stop.reason() {
        Some(StopCause::Cancelled) => Err(CodeError::Cancelled),
        Some(StopCause::Deadline) => Ok(true),
        None => Ok(false),
    }
}

/// One line for a list of the same trouble: the first names, then only their number.
pub(crate) fn folded(what: &str, mut names: Vec<String>) -> Vec<String> {
    if names.is_empty() {
        return Vec::new();
    }
    names.sort();
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    vec![one_line(&format!("{what} {}{tail}", names.join(", "))).into_owned()]
}

/// How many threads a walk uses.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(12))
}

fn walker(scope: &Scope) -> WalkBuilder {
    let mut builder = WalkBuilder::new(&scope.place.path);
    builder.threads(threads());
    if scope.ignored {
        builder.standard_filters(false).hidden(true);
    }
    if scope.dotfiles {
        builder.hidden(false);
    }
    builder
}

/// Keeps the walk from files with rules that have no end. A folder that has one is left out.
fn vet(
    walker: &mut WalkBuilder,
    scope: &Scope,
    left_out: &Arc<Mutex<Vec<String>>>,
) -> Result<Option<String>, CodeError> {
    let start = &scope.place.path;
    if let Some(name) = rules::endless(start) {
        let why = format!("its {name} is no ordinary file; remove it, or search with --no-ignore");
        return Err(CodeError::Path { path: scope.place.shown(start), why });
    }
    let above = start.ancestors().skip(1).find(|folder| rules::endless(folder).is_some());
    if above.is_some() {
        // Those from here on count all the same.
        walker.parents(false).git_ignore(false).git_exclude(false).git_global(false);
        walker.add_custom_ignore_filename(".gitignore");
    }
    let (place, left_out) = (scope.place.clone(), Arc::clone(left_out));
    let dotfiles = scope.dotfiles;
    walker.filter_entry(move |entry| {
        if dotfiles && entry.file_name() == ".git" {
            return false;
        }
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let Some(name) = is_folder.then(|| rules::endless(entry.path())).flatten() else { return true };
        if let Ok(mut left_out) = left_out.lock() {
            left_out.push(format!("{}/{name}", place.shown(entry.path())));
        }
        false
    });
    Ok(above.map(|folder| {
        format!(
            "the ignore rules above {} do not count: those in {} are no ordinary file",
            scope.place.shown(start),
            folder.display()
        )
    }))
}

/// Why a walk found nothing, as far as that is known: a folder that cannot be read may hold files.
fn nothing(scope: &Scope) -> Option<String> {
    let start = scope.place.shown(&scope.place.path);
    let mut open = walker(scope);
    open.standard_filters(false);
    let mut is_closed = false;
    let hidden = open
        .build()
        .inspect(|entry| is_closed |= entry.is_err())
        .filter_map(Result::ok)
        .filter(|entry| is_file(entry) && !below_git(entry.path()))
        .take(COUNTED)
        .count();
    Some(match hidden {
        0 if is_closed => return None,
        0 => format!("there are no files in {start}"),
        1 => format!("ignore rules hide the only file in {start}; name it as the path to see it"),
        COUNTED => format!("ignore rules hide every file in {start}, {COUNTED} or more of them"),
        count => format!("ignore rules hide all {count} files in {start}"),
    })
}

fn below_git(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".git")
}

fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_file())
}

struct Shared<'s, S, V> {
    scope: &'s Scope,
    stop: &'s StopSignal,
    visit: &'s V,
    states: Mutex<Vec<S>>,
    flaws: Mutex<Vec<String>>,
    files: AtomicUsize,
    hidden: AtomicUsize,
}

struct Builder<'s, S, V, N> {
    shared: &'s Shared<'s, S, V>,
    new: &'s N,
}

struct Visitor<'s, S: Send, V> {
    shared: &'s Shared<'s, S, V>,
    state: Option<S>,
    files: usize,
}

impl<'s, S: Send + 's, V: Fn(&mut S, PathBuf) + Sync, N: Fn() -> S> ParallelVisitorBuilder<'s>
    for Builder<'s, S, V, N>
{
    fn build(&mut self) -> Box<dyn ParallelVisitor + 's> {
        Box::new(Visitor { shared: self.shared, state: Some((self.new)()), files: 0 })
    }
}

impl<S: Send, V: Fn(&mut S, PathBuf) + Sync> ParallelVisitor for Visitor<'_, S, V> {
    fn visit(&mut self, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        if self.shared.stop.reason().is_some() {
            return WalkState::Quit;
        }
        match entry {
            Ok(entry) if is_file(&entry) && self.is_hidden(entry.path()) => {
                self.shared.hidden.fetch_add(1, Ordering::Relaxed);
            }
            Ok(entry) if is_file(&entry) => {
                self.files += 1;
                if let Some(state) = &mut self.state {
                    (self.shared.visit)(state, entry.into_path());
                }
            }
            Ok(_) => {}
            Err(error) => {
                if let Ok(mut flaws) = self.shared.flaws.lock() {
                    flaws.push(said(&error));
                }
            }
        }
        WalkState::Continue
    }
}

impl<S: Send, V> Visitor<'_, S, V> {
    fn is_hidden(&self, path: &Path) -> bool {
        let Scope { place, hidden, .. } = self.shared.scope;
        hidden.holds(|| place.shown(path))
    }
}

impl<S: Send, V> Drop for Visitor<'_, S, V> {
    fn drop(&mut self) {
        self.shared.files.fetch_add(self.files, Ordering::Relaxed);
        if let (Some(state), Ok(mut states)) = (self.state.take(), self.shared.states.lock()) {
            states.push(state);
        }
    }
}

/// The path and the system's words.
fn said(error: &ignore::Error) -> String {
    match error {
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => said(err),
        ignore::Error::WithPath { path, err } => format!("{} ({})", path.display(), said(err)),
        ignore::Error::Io(error) => plain(error),
        other => other.to_string(),
    }
}

/// The same notices with paths below the root.
fn relative(root: &Path, notices: Vec<String>) -> Vec<String> {
    let prefix = format!("{}/", root.display());
    notices.into_iter().map(|notice| notice.replace(&prefix, "")).collect()
}
