//! What is told about a connection besides serving it.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use acp_rpc::{Frame, Reply, View};
use acp_script::agent::ClientJournal;

/// Who wants to know what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// Every frame in a few words on standard error.
    pub(crate) verbose: bool,
    /// What the client did, one JSON line per frame.
    pub(crate) journal: Option<Arc<File>>,
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
        eprintln!("acp mock: {way} {}", acp_text::line(&format!("{what}{id}")));
    }

    /// Appends what is new in a connection's journal to the file; `kept` says how much of it is there already.
    pub(crate) fn keep(&self, journal: &ClientJournal, kept: &mut usize) {
        let Some(file) = &self.journal else { return };
        let new = &journal.entries()[*kept..];
        if new.is_empty() {
            return;
        }
        *kept += new.len();
        let mut text = String::new();
        for entry in new {
            text.push_str(&serde_json::to_string(entry).unwrap_or_default());
            text.push('\n');
        }
        let mut file: &File = file;
        if let Err(error) = file.write_all(text.as_bytes()) {
            eprintln!("acp mock: cannot write the journal: {error}");
        }
    }
}
