//! What is told about a connection besides serving it.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use acp_rpc::{Frame, Reply, View};
use acp_script::agent::Journal;

/// Who wants to know what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// Every frame in a few words on standard error.
    pub(crate) verbose: bool,
    /// What the client did, one JSON line per frame.
    pub(crate) journal: Option<PathBuf>,
    /// The real standard output, for grandchildren.
    pub(crate) stdout: Option<Arc<OwnedFd>>,
}

impl Watch {
    pub(crate) fn saw(&self, way: &str, frame: &Frame) {
        if !self.verbose {
            return;
        }
        let id = frame.id().map(|id| format!(" #{id}")).unwrap_or_default();
        let what = match frame.view() {
            View::Request { method, .. } | View::Notification { method, .. } => method.to_owned(),
            View::Response { reply: Reply::Result(_), .. } => "result".to_owned(),
            View::Response { reply: Reply::Error(error), .. } => format!("error {error}"),
            View::Batch(frames) => format!("a batch of {}", frames.len()),
            View::Malformed(flaw) => format!("malformed: {flaw}"),
        };
        eprintln!("acp mock: {way} {what}{id}");
    }

    /// Appends a connection's journal to the file.
    pub(crate) fn keep(&self, journal: &Journal) {
        let Some(path) = &self.journal else { return };
        let mut text = String::new();
        for entry in journal.entries() {
            text.push_str(&serde_json::to_string(entry).unwrap_or_default());
            text.push('\n');
        }
        let written = OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = written.and_then(|mut file| file.write_all(text.as_bytes())) {
            eprintln!("acp mock: cannot write the journal {path:?}: {error}");
        }
    }
}
