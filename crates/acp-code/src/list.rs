//! The files of a folder: as a tree, or those whose path fits a pattern.

use std::collections::BTreeMap;

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};

use crate::walk::{self, Scope};
use crate::{CodeError, StopSignal};

/// What to list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// A folder inside the root; the whole root without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How many levels are opened. Without it, as many as have room.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::number::some")]
    pub depth: Option<usize>,
    /// The most entries.
    #[serde(default = "crate::number::two_hundred", deserialize_with = "crate::number::positive")]
    pub max_results: usize,
    /// Whether files that ignore rules hide are listed too.
    #[serde(default)]
    pub all: bool,
}

/// Which files to find.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobRequest {
    /// `*` and `?` inside a name, `**` across folders, `{a,b}`. Without a `/` it is held against names alone.
    pub pattern: String,
    /// A folder inside the root, which the pattern is relative to; the whole root without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The most files.
    #[serde(default = "crate::number::two_hundred", deserialize_with = "crate::number::positive")]
    pub max_results: usize,
    /// Whether files that ignore rules hide are found too.
    #[serde(default)]
    pub all: bool,
}

/// Files and folders in the order of their paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListResults {
    /// The entries.
    pub results: Vec<ListEntry>,
    /// How many files there are, shown or not.
    pub files: usize,
    /// The deadline passed: there may be files that were not seen.
    pub truncated: bool,
    /// What the reader should know: entries that had no room, hidden and unreadable files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// A file, or a folder that was not opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListEntry {
    /// Path below the root, with `/`.
    pub path: String,
    /// Of a folder that was not opened: how many files lie below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<usize>,
}

/// The files of a folder, opened as deep as was asked for or as has room.
pub(crate) fn files(
    request: &ListRequest,
    scope: &Scope,
    stop: &StopSignal,
) -> Result<ListResults, CodeError> {
    let (paths, mut results) = found(scope, stop)?;
    let start = below(scope);
    let deepest = paths.iter().map(|path| depth(path, &start)).max().unwrap_or(1);
    let depth = request.depth.unwrap_or_else(|| {
        let fits = |depth: &usize| entries(&paths, &start, *depth).len() <= request.max_results;
        (1..=deepest).rev().find(fits).unwrap_or(1)
    });
    results.results = entries(&paths, &start, depth);
    if depth < deepest && request.depth.is_none() {
        results
            .notices
            .push("folders with their number of files were not opened; list one of them".to_owned());
    }
    cut(&mut results, request.max_results);
    Ok(results)
}

/// The files whose path fits the pattern.
pub(crate) fn glob(
    request: &GlobRequest,
    scope: &Scope,
    stop: &StopSignal,
) -> Result<ListResults, CodeError> {
    let pattern = request.pattern.trim();
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let refused = |what: String| CodeError::Request { tool: "glob", what };
    if pattern.is_empty() {
        return Err(refused("`pattern` is empty; give one such as **/*.rs".to_owned()));
    }
    let fits = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| refused(format!("{pattern:?} is no pattern: {}", error.kind())))?
        .compile_matcher();
    let (mut paths, mut results) = found(scope, stop)?;
    let start = below(scope);
    let by_name = !pattern.contains('/');
    paths.retain(|path| {
        let path = path.strip_prefix(&start).unwrap_or(path);
        fits.is_match(path) || (by_name && path.rsplit('/').next().is_some_and(|name| fits.is_match(name)))
    });
    results.files = paths.len();
    results.results = paths.into_iter().map(|path| ListEntry { path, files: None }).collect();
    cut(&mut results, request.max_results);
    Ok(results)
}

/// All files of the scope by their paths below the root, in order, and what is to be said about them.
fn found(scope: &Scope, stop: &StopSignal) -> Result<(Vec<String>, ListResults), CodeError> {
    let place = &scope.place;
    let (states, report) = walk::files(scope, stop, Vec::new, |paths, path| paths.push(place.shown(&path)))?;
    let mut paths: Vec<String> = states.into_iter().flatten().collect();
    paths.sort_unstable();
    let results = ListResults {
        results: Vec::new(),
        files: paths.len(),
        truncated: report.truncated,
        notices: report.notices,
    };
    Ok((paths, results))
}

/// What stands before the names of the folder that is listed.
fn below(scope: &Scope) -> String {
    match scope.place.shown(&scope.place.path).as_str() {
        "." => String::new(),
        folder => format!("{folder}/"),
    }
}

fn depth(path: &str, start: &str) -> usize {
    path.strip_prefix(start).unwrap_or(path).split('/').count()
}

/// The files down to this depth, and the folders below which there are more.
fn entries(paths: &[String], start: &str, most: usize) -> Vec<ListEntry> {
    let mut entries: BTreeMap<&str, Option<usize>> = BTreeMap::new();
    for path in paths {
        let rest = path.strip_prefix(start).unwrap_or(path);
        let closed = rest.match_indices('/').nth(most - 1).map(|(at, _)| path.len() - rest.len() + at);
        match closed {
            None => drop(entries.insert(path, None)),
            Some(end) => *entries.entry(&path[..end]).or_insert(Some(0)).get_or_insert(0) += 1,
        }
    }
    entries.into_iter().map(|(path, files)| ListEntry { path: path.to_owned(), files }).collect()
}

fn cut(results: &mut ListResults, most: usize) {
    let left = results.results.len().saturating_sub(most);
    if left > 0 {
        results.results.truncate(most);
        results
            .notices
            .push(format!("{left} more entries have no room; narrow it down with a folder or a pattern"));
    }
}
