//! Sessions: a ranking that is handed out page by page.

use super::exact::Lines;
use super::{Hit, SearchRequest};

/// At most this many sessions are remembered; the one that was used longest ago goes first.
const SESSIONS: usize = 64;

/// Everything that a search found, before it is cut into pages.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Ranked(Vec<Hit>),
    Exact(Lines),
}

/// A search and how far it was handed out.
#[derive(Clone, Debug)]
pub(crate) struct Paged {
    pub(crate) request: SearchRequest,
    pub(crate) found: Found,
    /// How many results were handed out.
    pub(crate) given: usize,
    pub(crate) page: usize,
    pub(crate) truncated: bool,
    pub(crate) notices: Vec<String>,
}

/// The sessions of an engine, the one used last at the end.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    sessions: Vec<(String, Paged)>,
}

impl Pages {
    /// The session's search, if it is remembered.
    pub(crate) fn take(&mut self, session: &str) -> Option<Paged> {
        let index = self.sessions.iter().position(|(name, _)| name == session)?;
        Some(self.sessions.remove(index).1)
    }

    /// Remembers a search under a name.
    pub(crate) fn put(&mut self, session: &str, paged: Paged) {
        self.sessions.retain(|(name, _)| name != session);
        self.sessions.push((session.to_owned(), paged));
        if self.sessions.len() > SESSIONS {
            self.sessions.remove(0);
        }
    }
}
