//! The results model: plain data that every report is made from, versioned and documented by a JSON Schema.

mod calibration;
mod earlier;
mod expected;
mod findings;
mod header;
mod judging;
mod place;

use crate::program::UnmetSeverity;
use crate::verdict::{ClaimResult, Conformance, RequirementResult, TestEvidence};
use acp_rpc::Direction;
use acp_rules::{ClaimId, Grade, Side};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

pub use calibration::Calibrated;
pub use expected::{ExpectedError, ExpectedFailures, StaleExpectation};
pub use header::Header;
pub use judging::VerdictCounts;
pub use place::{Cost, Isolation, Outside};

/// The version of the model; a reader takes earlier ones too and refuses a higher one.
pub const RESULTS_VERSION: u32 = 2;

/// Everything one run found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// [`RESULTS_VERSION`].
    pub version: u32,
    /// What made them.
    pub tool: ReportingTool,
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
    pub stale: Vec<StaleExpectation>,
}

/// The program that made the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportingTool {
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
    /// What was tested; a client stands in the place of an agent.
    #[serde(default = "agent_side", skip_serializing_if = "is_agent")]
    pub side: Side,
    /// The dialect it was spoken to in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// The version that was installed, when the agent is one of the profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What the agent was kept apart from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Whose time the tests took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What the probe learnt; `None` when the agent did not even start.
    pub header: Option<Header>,
    /// Why the agent could not be run at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// One outcome per test.
    pub tests: Vec<TestOutcome>,
    /// The judge's findings on requirements that the test at hand did not claim.
    #[serde(default)]
    pub findings: Vec<FindingRef>,
    /// For each requirement, in how many tests the judge saw it exercised.
    #[serde(default)]
    pub exercised: BTreeMap<String, u32>,
    /// Requirements whose failure is known, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expected: BTreeMap<String, String>,
    /// What became of each requirement over all tests.
    #[serde(default)]
    pub requirements: Vec<RequirementResult>,
    /// What the agent comes to; `None` before the run is concluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conformance: Option<Conformance>,
    /// What the agent could be made to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibrated>,
}

impl AgentRun {
    /// An agent of which nothing is known yet.
    pub fn new(name: impl Into<String>, target: impl Into<String>) -> AgentRun {
        AgentRun {
            name: name.into(),
            target: target.into(),
            side: Side::Agent,
            dialect: None,
            version: None,
            isolation: None,
            cost: None,
            header: None,
            fault: None,
            tests: Vec::new(),
            findings: Vec::new(),
            exercised: BTreeMap::new(),
            expected: BTreeMap::new(),
            requirements: Vec::new(),
            conformance: None,
            calibration: None,
        }
    }
}

fn agent_side() -> Side {
    Side::Agent
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_agent(side: &Side) -> bool {
    *side == Side::Agent
}

/// How one test ended for one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestOutcome {
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
    pub severity: UnmetSeverity,
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
    /// What the agent asked of the scripted model, and what it was answered, when its model is ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model: Vec<Value>,
    /// The expectations that were met.
    #[serde(default)]
    pub met: usize,
    /// The test asserts something by its own steps, not only through the judge.
    #[serde(default)]
    pub asserts: bool,
    /// What became of each claim; empty for a test that is judged by its severity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimResult>,
    /// The verdict rests on something that did not come: it counts after a second run of the test by itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub needs_second_run: bool,
    /// A part of the file was not understood, so the test was not run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub not_understood: bool,
    /// What the agent was seen to do, by the names that calibration uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provided: Vec<String>,
    /// Everything that the conversation showed, for the judging that follows; not part of the results.
    #[serde(skip)]
    pub evidence: Option<Box<TestEvidence>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_false(flag: &bool) -> bool {
    !flag
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

    /// How bad it is, for telling the worse of two: a pass is 0.
    pub fn badness(self) -> u8 {
        match self {
            Verdict::Pass => 0,
            Verdict::Na => 1,
            Verdict::Warn => 2,
            Verdict::Partial => 3,
            Verdict::Fail => 4,
            Verdict::Error => 5,
        }
    }

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
    /// Which way it went.
    pub dir: Direction,
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
    /// The clause of the requirement, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clause: Option<String>,
    /// What it means.
    pub grade: Grade,
    /// Whose fault.
    pub blame: Side,
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
    /// It is about something that had not come when the conversation was over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
}

impl FindingRef {
    /// What it breaks: the requirement, or the clause of it.
    pub fn claim(&self) -> Option<ClaimId> {
        match &self.clause {
            Some(clause) => format!("{}/{clause}", self.requirement).parse().ok(),
            None => self.requirement.parse().ok(),
        }
    }

    /// Whether the agent broke something that fails a run.
    pub fn fails_agent(&self) -> bool {
        self.grade == Grade::Fail && self.blame == Side::Agent
    }
}

/// A place in a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceRef {
    /// Index of the frame.
    pub index: usize,
    /// When.
    pub at_ms: f64,
    /// Which way it went.
    pub dir: Direction,
    /// A part of the frame.
    pub excerpt: String,
    /// Where in the frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

/// Results that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// Not the JSON that results are.
    #[error("cannot read the results: {0}")]
    Json(serde_json::Error),
    /// Some other JSON.
    #[error("cannot read the results: the file has no \"version\"; was it written with --format json?")]
    NotResults,
    /// From a later version of the tool.
    #[error(
        "cannot read the results: they have version {0}, this tool reads up to {RESULTS_VERSION}; update the tool"
    )]
    Version(u64),
}
