//! What the exam of a client has come to so far. It is kept in a folder per client, so that a new conversation goes on.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use acp_campaign::Driven;
use acp_comply::{
    AgentRun, ConformancePolicy, RESULTS_VERSION, ReportingTool, Results, Side, Suite, TestOutcome, Verdict,
};
use acp_report::{ReportFormat, ReportOptions};
use serde_json::Value;

use super::questions::SeenByHand;
use crate::self_check::header;

const RESULTS: &str = "results.json";
const BY_HAND: &str = "by-hand.json";
/// The name of the report in the workspace and in the folder, without its end.
pub(super) const REPORT: &str = "acp-exam-report";

/// The results of one client.
#[derive(Debug)]
pub(super) struct Paper {
    pub folder: PathBuf,
    pub run: AgentRun,
    pub by_hand: Vec<SeenByHand>,
    /// How many results are from an earlier conversation.
    pub earlier: usize,
    files: usize,
    began: Instant,
    started: String,
}

impl Paper {
    /// The results of the client that introduces itself so, those of an earlier conversation with it included.
    pub fn open(state: &Path, introduction: &Value, files: usize) -> Paper {
        let word = |name: &str| introduction["clientInfo"][name].as_str().map(str::to_owned);
        let name = word("name").unwrap_or_else(|| "client".to_owned());
        let folder = state.join(slug(&name));
        let mut run =
            AgentRun { side: Side::Client, version: word("version"), ..AgentRun::new(&name, "acp exam") };
        run.header = Some(header(introduction));
        let mut by_hand = Vec::new();
        if let Some(kept) = read(&folder.join(RESULTS))
            && let Some(old) = kept.agents.into_iter().find(|old| old.version == run.version)
        {
            run.tests = old.tests;
            run.findings = old.findings;
            run.exercised = old.exercised;
            let text = std::fs::read_to_string(folder.join(BY_HAND)).unwrap_or_default();
            by_hand = serde_json::from_str(&text).unwrap_or_default();
        }
        let earlier = run.tests.len();
        let started = jiff::Timestamp::now().to_string();
        Paper { folder, run, by_hand, earlier, files, began: Instant::now(), started }
    }

    /// Takes what a test came to, in place of what it came to before.
    pub fn take(&mut self, driven: Driven) {
        self.run.tests.retain(|known| known.id != driven.outcome.id);
        for requirement in driven.exercised {
            *self.run.exercised.entry(requirement).or_default() += 1;
        }
        for finding in driven.others {
            let is_known = self.run.findings.iter().any(|known| {
                known.rule == finding.rule
                    && known.requirement == finding.requirement
                    && known.clause == finding.clause
            });
            if !is_known {
                self.run.findings.push(finding);
            }
        }
        self.run.tests.push(driven.outcome);
    }

    pub fn outcome(&self, id: &str) -> Option<&TestOutcome> {
        self.run.tests.iter().find(|known| known.id == id)
    }

    /// How many tests have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.run.tests.iter().filter(|outcome| outcome.verdict == verdict).count()
    }

    /// One sentence over everything.
    pub fn summary(&self) -> String {
        format!(
            "So far: {} hold, {} fail, {} advice, {} not applicable or not reached, {} errors, {} by hand.",
            self.count(Verdict::Pass),
            self.count(Verdict::Fail),
            self.count(Verdict::Warn) + self.count(Verdict::Partial),
            self.count(Verdict::Na),
            self.count(Verdict::Error),
            self.by_hand.len()
        )
    }

    /// The results as every other run has them.
    pub fn results(&self) -> Results {
        let mut results = Results {
            version: RESULTS_VERSION,
            tool: ReportingTool { name: "acp".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
            started: self.started.clone(),
            duration_ms: self.began.elapsed().as_secs_f64() * 1000.0,
            suite: Suite {
                name: "client".to_owned(),
                files: self.files,
                filtered: self.files.saturating_sub(self.run.tests.len()),
            },
            agents: vec![self.run.clone()],
            interrupted: false,
            warnings: Vec::new(),
            stale: Vec::new(),
        };
        results.conclude(ConformancePolicy { strict: false, allow_incomplete: true });
        results
    }

    /// The report in Markdown and in JSON.
    pub fn reports(&self) -> Result<[(&'static str, String); 2], String> {
        let results = self.results();
        let options = ReportOptions { redact: true, colour: false, ..ReportOptions::default() };
        let render =
            |format| acp_report::render(&results, format, options).map_err(|error| error.to_string());
        let mut text = render(ReportFormat::Markdown)?;
        if !self.by_hand.is_empty() {
            text.push_str("\n## By hand\n\nA person looked; this passes no requirement.\n\n");
            for seen in &self.by_hand {
                text.push_str(&format!("- {}: {} **{}**\n", seen.row, seen.question, seen.answer));
            }
        }
        Ok([("md", text), ("json", render(ReportFormat::Json)?)])
    }

    /// Keeps everything in the folder.
    pub fn keep(&self) -> Result<(), String> {
        let by_hand = serde_json::to_string_pretty(&self.by_hand).map_err(|error| error.to_string())?;
        let results = serde_json::to_string(&self.results()).map_err(|error| error.to_string())?;
        self.write(RESULTS, results.as_bytes())?;
        self.write(BY_HAND, by_hand.as_bytes())?;
        for (end, text) in self.reports()? {
            self.write(&format!("{REPORT}.{end}"), text.as_bytes())?;
        }
        Ok(())
    }

    /// Writes a file of the folder, for the person alone.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.folder.join(name);
        let write = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let mut options = std::fs::File::options();
            options.write(true).create(true).truncate(true).mode(0o600).open(&path)?.write_all(bytes)
        };
        write().map_err(|error: std::io::Error| format!("cannot write {}: {error}", path.display()))
    }
}

/// The results that are kept for a client; without a name, the latest.
pub fn kept_results(state: &Path, client: Option<&str>) -> Result<Results, String> {
    let none = || format!("no exam is kept in {}; run one: acp exam --settings zed", state.display());
    let path = match client {
        Some(name) => state.join(slug(name)).join(RESULTS),
        None => {
            let folders = std::fs::read_dir(state).map_err(|_| none())?.flatten();
            let files = folders.map(|entry| entry.path().join(RESULTS));
            let aged = files.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)));
            aged.max().ok_or_else(none)?.1
        }
    };
    read(&path).ok_or_else(|| format!("cannot read the results in {}", path.display()))
}

fn read(path: &Path) -> Option<Results> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// A folder's name for a client's name, whatever that contains.
fn slug(name: &str) -> String {
    let word: String = name
        .chars()
        .take(60)
        .map(|it| if it.is_ascii_alphanumeric() { it.to_ascii_lowercase() } else { '-' })
        .collect();
    if word.is_empty() { "client".to_owned() } else { word }
}
