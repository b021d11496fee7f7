//! The recorded conversations under `tests`.

#![expect(clippy::disallowed_methods, reason = "tests read their cases from files")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_rpc::transcript::TranscriptEntry;
use acp_rules::{ConversationEnd, Finding, Judge, JudgeConfig};

/// A conversation and how it ended.
#[derive(Clone)]
pub struct Conversation {
    pub name: String,
    pub entries: Vec<TranscriptEntry>,
    pub ending: ConversationEnd,
}

impl Conversation {
    /// Reads a transcript. Lines without a time are a tenth of a second apart; `{"ending": "cut"}` says how it ended.
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut out = Self {
            name: path.display().to_string(),
            entries: Vec::new(),
            ending: ConversationEnd::default(),
        };
        let mut last = Duration::ZERO;
        for (number, line) in text.lines().enumerate() {
            if let Some(ending) = line.strip_prefix("{\"ending\": \"") {
                out.ending = match ending.trim_end_matches("\"}") {
                    "cut" => ConversationEnd::Cut,
                    "agent-exited" => ConversationEnd::AgentExited,
                    "client-closed" => ConversationEnd::ClientClosed,
                    "client-left" => ConversationEnd::ClientLeft,
                    "unknown" => ConversationEnd::Unknown,
                    other => panic!("{}:{}: unknown ending {other}", path.display(), number + 1),
                };
                continue;
            }
            let entry = TranscriptEntry::parse_at(line, last + Duration::from_millis(100))
                .unwrap_or_else(|error| panic!("{}:{}: {error}", path.display(), number + 1));
            last = entry.t;
            out.entries.push(entry);
        }
        out
    }

    /// Judges it to its end.
    pub fn judge(&self) -> Judge {
        let mut judge = Judge::new(JudgeConfig::default());
        judge.set_ending(self.ending);
        for entry in &self.entries {
            judge.observe(entry.t, entry.dir, &entry.frame());
        }
        let last = self.entries.last().map_or(Duration::ZERO, |entry| entry.t);
        judge.close(last + Duration::from_secs(5));
        judge
    }
}

/// The requirement or clause that a finding names.
pub fn claim(finding: &Finding) -> String {
    let clause = finding.clause.map(|name| format!("/{name}")).unwrap_or_default();
    format!("{}{clause}", finding.requirement)
}

/// A folder beside this test.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The transcripts of a folder, by name.
pub fn transcripts(folder: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "ndjson"))
        .collect();
    out.sort();
    out
}

/// Every conversation there is.
pub fn all() -> Vec<Conversation> {
    let mut paths = transcripts(&folder("recordings"));
    for rule in acp_rules::rules() {
        paths.extend(transcripts(&folder("rules").join(rule.name)));
    }
    paths.iter().map(|path| Conversation::read(path)).collect()
}
