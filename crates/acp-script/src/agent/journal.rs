//! What the client did, for tests to look at.

use std::time::Duration;

use acp_rpc::{Frame, Reply, View};
use serde::Serialize;

/// Everything that came in, in order, without the payloads.
#[derive(Clone, Debug, Default)]
pub struct ClientJournal {
    entries: Vec<JournalEntry>,
    dropped: u64,
}

/// One frame from the client.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct JournalEntry {
    /// Seconds since the connection began.
    pub t: f64,
    /// `request`, `notification`, `result`, `error`, `batch` or `malformed`.
    pub kind: &'static str,
    /// The method, or the flaw of a malformed frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The id as JSON text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A journal keeps at most this many entries; a script's checks do not need more.
const LIMIT: usize = 100_000;

impl ClientJournal {
    /// The entries, oldest first.
    pub fn entries(&self) -> &[JournalEntry] {
        &self.entries
    }

    /// How many entries were left out because there were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn note(&mut self, now: Duration, frame: &Frame) {
        if self.entries.len() >= LIMIT {
            self.dropped += 1;
            return;
        }
        let (kind, method) = match frame.view() {
            View::Request { method, .. } => ("request", Some(method.to_owned())),
            View::Notification { method, .. } => ("notification", Some(method.to_owned())),
            View::Response { reply: Reply::Result(_), .. } => ("result", None),
            View::Response { reply: Reply::Error(_), .. } => ("error", None),
            View::Batch(_) => ("batch", None),
            View::Malformed(flaw) => ("malformed", Some(flaw.to_string())),
        };
        let id = frame.id().map(ToString::to_string);
        self.entries.push(JournalEntry { t: now.as_secs_f64(), kind, method, id });
    }
}
