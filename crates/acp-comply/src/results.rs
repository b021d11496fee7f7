//! The results model: plain data that every report is made from, versioned and documented by a JSON Schema.

mod expected;
mod header;

use crate::program::Severity;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use expected::{ExpectedError, ExpectedFailures, Stale};
pub use header::Header;

/// The version of the model; a reader refuses a higher one.
pub const RESULTS_VERSION: u32 = 1;

/// Everything one run found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// [`RESULTS_VERSION`].
    pub version: u32,
    /// What made them.
    pub tool: Tool,
    /// When the run began, as RFC 3339 text; the caller knows the time.
    pub started: String,
    /// How long the whole run took.
    pub duration_ms: f64,
    /// What was run.
    pub suite: Suite,
    /// One entry per agent, in the order asked for.
    pub agents: Vec<AgentRun>,
    /// The run was interrupted; what is here is what was known by then.
    #[serde(default)]
    pub interrupted: bool,
    /// Warnings about test files.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Entries of the expected-failures list that no longer hold.
    #[serde(default)]
    pub stale: Vec<Stale>,
}

/// The program that made the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Which tests were run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suite {
    /// The suite's name or folder.
    pub name: String,
    /// How many test files it has.
    pub files: usize,
    /// How many were left out by filters.
    #[serde(default)]
    pub filtered: usize,
}

/// One agent's part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentRun {
    /// The name in reports.
    pub name: String,
    /// How it was reached: a command line or an address.
    pub target: String,
    /// The dialect it was spoken to in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// What the probe learnt; `None` when the agent did not even start.
    pub header: Option<Header>,
    /// Why the agent could not be run at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// One outcome per test.
    pub tests: Vec<Outcome>,
    /// The judge's findings on requirements that the test at hand did not claim.
    #[serde(default)]
    pub findings: Vec<FindingRef>,
    /// For each requirement, in how many tests the judge saw it exercised.
    #[serde(default)]
    pub exercised: BTreeMap<String, u32>,
}

/// How one test ended for one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The test's id.
    pub id: String,
    /// The file it came from.
    pub file: String,
    /// The test's own title.
    pub title: String,
    /// The test's own description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What an unmet expectation means.
    pub severity: Severity,
    /// Row in the table report.
    pub area: String,
    /// Links to the specification.
    #[serde(default)]
    pub docs: Vec<String>,
    /// Requirements the test claims.
    #[serde(default)]
    pub requirements: Vec<String>,
    /// Ids of other kits' checks that mean the same.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// It held, but the behaviour it watches never happened.
    #[serde(default)]
    pub vacuous: bool,
    /// It could not be judged because the environment was in the way.
    #[serde(default)]
    pub blocked: bool,
    /// Why the verdict is not a plain pass, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Things worth knowing that did not change the verdict.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What each step came to.
    #[serde(default)]
    pub steps: Vec<StepRecord>,
    /// Expectation against the closest message heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Explanation>,
    /// Ids of requests that were never answered, as JSON text.
    #[serde(default)]
    pub unanswered: Vec<String>,
    /// How the agent ended, when it ended before the test did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitRecord>,
    /// The judge's findings on requirements that this test claims.
    #[serde(default)]
    pub findings: Vec<FindingRef>,
    /// The conversation, possibly with its middle left out.
    #[serde(default)]
    pub transcript: Vec<TranscriptLine>,
    /// How many lines of the conversation were left out.
    #[serde(default)]
    pub elided: usize,
    /// How long the test took.
    pub duration_ms: f64,
    /// Verdicts of all attempts when the test was repeated; different ones mean that it is flaky.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Verdict>,
    /// The failure was expected, for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The expectations that were met.
    #[serde(default)]
    pub met: usize,
    /// The test asserts something by its own steps, not only through the judge.
    #[serde(default)]
    pub asserts: bool,
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Everything matched.
    Pass,
    /// Something required did not hold.
    Fail,
    /// Advice was not followed.
    Warn,
    /// A part of an optional test held.
    Partial,
    /// It does not apply, or could not be judged.
    Na,
    /// The runner or the machine failed.
    Error,
}

impl Verdict {
    /// All, in the order of reports.
    pub const ALL: [Verdict; 6] =
        [Verdict::Pass, Verdict::Fail, Verdict::Warn, Verdict::Partial, Verdict::Na, Verdict::Error];

    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
            Verdict::Warn => "WARN",
            Verdict::Partial => "PARTIAL",
            Verdict::Na => "NA",
            Verdict::Error => "ERROR",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    /// Line in the test file.
    pub line: usize,
    /// The step's kind.
    pub kind: String,
    /// When it began.
    pub at_ms: f64,
    /// How long it took.
    pub took_ms: f64,
    /// How it went.
    pub state: StepState,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// Done, and what it asked for held.
    Done,
    /// What it asked for did not hold.
    Unmet,
    /// Not run.
    Skipped,
}

/// Expectation against what came closest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Line in the test file.
    pub line: usize,
    /// What was expected.
    pub expected: Value,
    /// The closest message heard, as text; `None` when nothing of its kind was heard.
    pub closest: Option<String>,
    /// When that was heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closest_at_ms: Option<f64>,
    /// The differences, one per line.
    pub differences: Vec<String>,
}

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The last lines of its error output.
    #[serde(default)]
    pub stderr: String,
}

impl fmt::Display for ExitRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}"),
            (None, Some(signal)) => write!(f, "was ended by signal {signal}"),
            (None, None) => f.write_str("closed the connection"),
        }
    }
}

/// One line of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TranscriptLine {
    /// Milliseconds since the test began.
    pub at_ms: f64,
    /// `c2a` or `a2c`.
    pub dir: String,
    /// The line, shortened when it is very long.
    pub text: String,
}

/// A finding of the judge as plain data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingRef {
    /// The rule that found it.
    pub rule: String,
    /// The requirement it is about.
    pub requirement: String,
    /// `must`, `should` or the like.
    pub severity: String,
    /// Whose fault: `agent` or `client`.
    pub blame: String,
    /// What was wrong.
    pub message: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where it was seen.
    #[serde(default)]
    pub evidence: Vec<EvidenceRef>,
    /// The test in which it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
}

/// A place in a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceRef {
    /// Index of the frame.
    pub index: usize,
    /// When.
    pub at_ms: f64,
    /// `c2a` or `a2c`.
    pub dir: String,
    /// A part of the frame.
    pub excerpt: String,
    /// Where in the frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

/// How a run stands as a whole; the caller maps it to an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Every required test holds.
    Holds,
    /// The expected-failures list is stale.
    Stale,
    /// A required test failed.
    Failed,
    /// Something could not run: an agent, a blocked required test, a fault.
    Incomplete,
}

/// Counts of verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Passed, vacuous ones included.
    pub pass: usize,
    /// Failed.
    pub fail: usize,
    /// Advice not followed.
    pub warn: usize,
    /// Partly held.
    pub partial: usize,
    /// Not applicable or not judged.
    pub na: usize,
    /// Faults of the runner.
    pub error: usize,
    /// Of the passes, the vacuous ones.
    pub vacuous: usize,
    /// Of the not applicable, those that the environment kept from being judged.
    pub blocked: usize,
}

impl Outcome {
    /// Takes in what the judge says about this test's conversation. Findings on requirements that the test claims
    /// fail it; the others come back. `exercised` are the requirements whose behaviour the judge saw.
    pub fn judge(&mut self, findings: Vec<FindingRef>, exercised: &BTreeSet<String>) -> Vec<FindingRef> {
        let (claimed, mut others): (Vec<_>, Vec<_>) = findings.into_iter().partition(|finding| {
            finding.blame == "agent" && self.requirements.contains(&finding.requirement)
        });
        for finding in &mut others {
            finding.test.get_or_insert_with(|| self.id.clone());
        }
        let decided = matches!(self.verdict, Verdict::Na | Verdict::Error);
        if let (Some(first), false) = (claimed.first(), decided) {
            let sentence = format!("{}: {}", first.requirement, first.message);
            if matches!(self.verdict, Verdict::Pass | Verdict::Partial) {
                self.reason = Some(sentence);
            } else {
                self.notes.push(sentence);
            }
            self.vacuous = false;
            self.verdict = if self.severity == Severity::Advice { Verdict::Warn } else { Verdict::Fail };
        } else if self.verdict == Verdict::Pass && !self.asserts {
            self.vacuous = !self.requirements.iter().any(|requirement| exercised.contains(requirement));
            self.reason =
                self.vacuous.then(|| "the behaviour that the test watches never happened".to_owned());
        }
        self.findings.extend(claimed);
        others
    }

    /// Turns a vacuous pass into NA, for runs that want every pass exercised.
    pub fn require_exercised(&mut self) {
        if self.verdict == Verdict::Pass && self.vacuous {
            self.verdict = Verdict::Na;
            self.blocked = true;
            self.vacuous = false;
        }
    }

    /// Whether the repeated test came out differently.
    pub fn is_flaky(&self) -> bool {
        self.attempts.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// Whether this outcome fails a run.
    pub fn fails_run(&self) -> bool {
        self.severity == Severity::Required && self.verdict == Verdict::Fail && self.expected.is_none()
    }

    /// An outcome of a test that could not be run.
    pub fn fault(program: &crate::Program, reason: impl Into<String>) -> Outcome {
        let mut outcome = crate::run::blank(program);
        outcome.verdict = Verdict::Error;
        outcome.reason = Some(reason.into());
        outcome
    }

    /// An outcome of a test that the environment kept from running.
    pub fn not_applicable(program: &crate::Program, reason: impl Into<String>, blocked: bool) -> Outcome {
        let mut outcome = crate::run::blank(program);
        outcome.verdict = Verdict::Na;
        outcome.blocked = blocked;
        outcome.reason = Some(reason.into());
        outcome
    }
}

impl AgentRun {
    /// The counts of this agent's tests.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for test in &self.tests {
            tally.add(test);
        }
        tally
    }
}

impl Tally {
    fn add(&mut self, test: &Outcome) {
        match test.verdict {
            Verdict::Pass => self.pass += 1,
            Verdict::Fail => self.fail += 1,
            Verdict::Warn => self.warn += 1,
            Verdict::Partial => self.partial += 1,
            Verdict::Na => self.na += 1,
            Verdict::Error => self.error += 1,
        }
        self.vacuous += usize::from(test.vacuous);
        self.blocked += usize::from(test.blocked);
    }

    /// All tests.
    pub fn total(&self) -> usize {
        self.pass + self.fail + self.warn + self.partial + self.na + self.error
    }
}

impl Results {
    /// The counts over all agents.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for test in self.agents.iter().flat_map(|agent| &agent.tests) {
            tally.add(test);
        }
        tally
    }

    /// How the run stands. `strict` lets the judge's MUST findings outside of the tests' claims fail it,
    /// `allow_incomplete` forgives required tests that could not be judged.
    pub fn standing(&self, strict: bool, allow_incomplete: bool) -> Standing {
        let tests = || self.agents.iter().flat_map(|agent| &agent.tests);
        let fault = self.interrupted
            || self.agents.iter().any(|agent| agent.fault.is_some())
            || tests().any(|test| test.verdict == Verdict::Error);
        let unjudged = tests().any(|test| test.blocked && test.severity == Severity::Required);
        let must =
            |finding: &FindingRef| finding.blame == "agent" && finding.severity.eq_ignore_ascii_case("must");
        let loose = strict && self.agents.iter().flat_map(|agent| &agent.findings).any(must);
        if tests().any(Outcome::fails_run) || loose {
            Standing::Failed
        } else if fault || (unjudged && !allow_incomplete) {
            Standing::Incomplete
        } else if !self.stale.is_empty() {
            Standing::Stale
        } else {
            Standing::Holds
        }
    }

    /// Reads results from JSON, refusing a version that this code does not know.
    pub fn from_json(text: &str) -> Result<Results, ResultsError> {
        let value: Value = serde_json::from_str(text)?;
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version <= u64::from(RESULTS_VERSION) => Ok(serde_json::from_value(value)?),
            Some(version) => Err(ResultsError::Version(version)),
            None => Err(ResultsError::NotResults),
        }
    }

    /// Writes results as JSON.
    pub fn to_json(&self) -> Result<String, ResultsError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }
}

/// Results that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// Not the JSON that results are.
    #[error("cannot read the results: {0}")]
    Json(#[from] serde_json::Error),
    /// Some other JSON.
    #[error("cannot read the results: the file has no \"version\"; was it written with --format json?")]
    NotResults,
    /// From a later version of the tool.
    #[error(
        "cannot read the results: they have version {0}, this tool reads up to {RESULTS_VERSION}; update the tool"
    )]
    Version(u64),
}
