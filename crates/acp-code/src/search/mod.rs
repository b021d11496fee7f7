//! Ranked and literal search.
//!
//! Ranked search has no index. It finds word beginnings in every file, estimates each file by its rare words standing
//! close together (rarity is counted in pieces of 1 KB), and parses only the most promising files. Every line belongs
//! to exactly one unit, so no result contains another.

mod exact;
mod filter;
mod fold;
mod grammar;
mod pages;
mod rank;
mod scan;
mod score;
mod units;

use std::sync::Mutex;

use serde::{Deserialize, Serialize};

pub(crate) use pages::Pages;
use pages::{Found, Paged};

use crate::walk::Scope;
use crate::{CodeError, StopSignal};

/// What to look for. Field names, defaults and meaning are the `search` tool's input schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// Words, `AND`/`OR`/`NOT`, `+`/`-`, `"phrases"`, parentheses, `file:` `ext:` `dir:` `lang:`. With
    /// [`SearchRequest::exact`], one literal.
    pub query: String,
    /// A file or folder inside the root; the whole root without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The most results on one page.
    #[serde(default = "crate::number::ten", deserialize_with = "crate::number::positive")]
    pub max_results: usize,
    /// Whether test code may be among the results.
    #[serde(default = "crate::number::yes")]
    pub allow_tests: bool,
    /// Take the query as one literal, case and all, and report the lines that have it.
    #[serde(default)]
    pub exact: bool,
    /// Keep the whole ranking under this name, for [`SearchRequest::next_page`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The page after the last one that this session saw. Needs [`SearchRequest::session`].
    #[serde(default, rename = "nextPage")]
    pub next_page: bool,
    /// The most tokens on one page, at four bytes a token. The first result is given whatever it takes.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::number::some")]
    pub max_tokens: Option<usize>,
}

impl SearchRequest {
    /// A ranked search with the defaults of the schema.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), max_results: 10, allow_tests: true, ..Self::default() }
    }
}

/// One page of hits, best first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchResults {
    /// The hits of this page.
    pub results: Vec<Hit>,
    /// How many hits there are on all pages together.
    pub total: usize,
    /// This page's number, from 1.
    pub page: usize,
    /// Whether `nextPage` would find more.
    pub more: bool,
    /// The deadline passed: there may be hits that were not seen.
    pub truncated: bool,
    /// What the reader should know: hidden, unreadable or skipped files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// A block of code that answers the query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Path below the root, with `/`.
    pub file: String,
    /// First and last line, counted from 1.
    pub lines: [usize; 2],
    /// The text of these lines.
    pub code: String,
    /// Higher is better; the same in every run.
    pub score: f64,
    /// `function`, `type`, `impl`, `section`… or `lines` where there is no syntax to go by, and in an exact search on a
    /// long page and in a large file.
    pub kind: String,
    /// The declared name, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The language, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The lines inside [`Hit::lines`] that hold what was looked for.
    pub matched: Vec<usize>,
}

/// A whole ranking.
struct Ranking {
    hits: Vec<Hit>,
    truncated: bool,
    notices: Vec<String>,
}

/// Runs the search, or hands out the next page of one that ran before.
pub(crate) fn run(
    request: &SearchRequest,
    scope: &Scope,
    pages: &Mutex<Pages>,
    stop: &StopSignal,
) -> Result<SearchResults, CodeError> {
    let refused = |what: String| CodeError::Request { tool: "search", what };
    let Some(session) = &request.session else {
        if request.next_page {
            return Err(refused(
                "nextPage needs a session; give the session of the search to go on with".into(),
            ));
        }
        let mut paged = found(request, scope, stop)?;
        return paged.next(request, scope, stop);
    };
    let mut paged = if request.next_page {
        let lock = |pages: &Mutex<Pages>| pages.lock().ok().and_then(|mut pages| pages.take(session));
        let paged = lock(pages).ok_or_else(|| {
            refused(format!("the session {session:?} has no search yet; search once without nextPage"))
        })?;
        if !paged.request.is_same_search(request) {
            let before = paged.request.query.clone();
            remember(pages, session, paged);
            return Err(refused(format!(
                "the session {session:?} last searched for {before:?} with other settings; \
                 repeat that request with nextPage, or search anew without it"
            )));
        }
        paged
    } else {
        found(request, scope, stop)?
    };
    let results = paged.next(request, scope, stop);
    remember(pages, session, paged);
    results
}

fn remember(pages: &Mutex<Pages>, session: &str, paged: Paged) {
    if let Ok(mut pages) = pages.lock() {
        pages.put(session, paged);
    }
}

fn found(request: &SearchRequest, scope: &Scope, stop: &StopSignal) -> Result<Paged, CodeError> {
    let (found, truncated, notices) = if request.exact {
        let mut lines = exact::count(request, scope, stop)?;
        let (truncated, notices) = (lines.truncated, std::mem::take(&mut lines.notices));
        (Found::Exact(lines), truncated, notices)
    } else {
        let ranking = rank::run(request, scope, stop)?;
        (Found::Ranked(ranking.hits), ranking.truncated, ranking.notices)
    };
    Ok(Paged { request: request.clone(), found, given: 0, page: 0, truncated, notices })
}

impl SearchRequest {
    /// Whether another request differs in nothing but its page.
    fn is_same_search(&self, other: &Self) -> bool {
        let key = |request: &Self| {
            (request.query.clone(), request.path.clone(), request.allow_tests, request.exact)
        };
        key(self) == key(other)
    }
}

impl Paged {
    /// The next page of at most as many results and tokens as the request says.
    fn next(
        &mut self,
        request: &SearchRequest,
        scope: &Scope,
        stop: &StopSignal,
    ) -> Result<SearchResults, CodeError> {
        let mut notices = self.notices.clone();
        let max = request.max_results;
        let (mut results, total): (Vec<Hit>, usize) = match &self.found {
            Found::Ranked(hits) => (hits.iter().skip(self.given).take(max).cloned().collect(), hits.len()),
            Found::Exact(lines) => {
                let page = lines.page(&self.request, scope, stop, self.given, max)?;
                notices.extend(page.notices);
                (page.hits, lines.total)
            }
        };
        let left_out = request.max_tokens.map_or(0, |most| cut(&mut results, most));
        if left_out > 0 {
            let what = if left_out == 1 { "result has" } else { "results have" };
            notices.push(format!(
                "{left_out} more {what} no room in {} tokens",
                request.max_tokens.unwrap_or(0)
            ));
        }
        self.given = self.given.saturating_add(max).min(total).saturating_sub(left_out);
        self.page += 1;
        Ok(SearchResults {
            results,
            total,
            page: self.page,
            more: self.given < total,
            truncated: self.truncated,
            notices,
        })
    }
}

/// Leaves out the last results until the page has so many tokens; says how many went.
fn cut(results: &mut Vec<Hit>, most: usize) -> usize {
    /// What a result takes besides its code: its place and its line numbers.
    const LINE: usize = 8;
    let mut tokens = 0;
    let fits = |hit: &&Hit| {
        let lines = hit.lines[1] - hit.lines[0] + 2;
        tokens += (hit.code.len() + lines * LINE + hit.file.len()).div_ceil(4);
        tokens <= most
    };
    let kept = results.iter().take_while(fits).count().max(1).min(results.len());
    let left_out = results.len() - kept;
    results.truncate(kept);
    left_out
}
