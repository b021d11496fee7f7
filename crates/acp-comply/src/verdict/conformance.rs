//! What an agent, and a run, come to.

use super::{RequirementResult, RequirementState};
use crate::program::UnmetSeverity;
use crate::results::{AgentRun, Results, TestOutcome, Verdict};
use acp_rules::{Condition, Facts, Grade, Requirement, registry};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;

/// How many ids are named in one line.
const NAMED: usize = 8;

/// What the caller of a run forgives or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConformancePolicy {
    /// Let the judge's findings fail a run in which no test has claims. They always count when one has.
    pub strict: bool,
    /// Forgive what was not reached or could not be judged.
    pub allow_incomplete: bool,
}

/// What an agent comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Conformance {
    /// Every requirement that must be reached was reached and held.
    Conformant,
    /// The same, but for failures that are on the list of expected ones, or of optional tests without claims.
    ConformantExcept {
        /// How many are expected.
        expected: usize,
        /// How many optional tests without claims failed.
        #[serde(default, skip_serializing_if = "is_zero")]
        optional: usize,
    },
    /// Requirements were broken, or required tests without claims failed.
    NotConformant {
        /// The broken requirements.
        requirements: Vec<String>,
        /// The required tests without claims that failed.
        tests: Vec<String>,
    },
    /// Nothing was broken, but not everything was reached.
    Incomplete {
        /// Requirements that must be reached and were not.
        requirements: Vec<String>,
        /// What else is missing, in words.
        reasons: Vec<String>,
    },
}

/// How a run stands as a whole, the best first; the caller maps it to an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunStanding {
    /// Every agent conforms.
    Conformant,
    /// The list of expected failures is stale.
    Stale,
    /// Something could not be run or was not reached.
    Incomplete,
    /// Something is broken.
    NotConformant,
}

impl Conformance {
    /// What one agent comes to. `planned` is how many tests it should have had.
    pub fn of(
        agent: &AgentRun,
        rows: &[RequirementResult],
        planned: Option<usize>,
        policy: ConformancePolicy,
    ) -> Conformance {
        let has_claims = agent.tests.iter().any(|test| !test.claims.is_empty());
        let counts = |row: &&RequirementResult| row.state == RequirementState::Broken;
        let broken: Vec<String> = rows
            .iter()
            .filter(counts)
            .filter(|row| row.expected.is_none() && (has_claims || policy.strict))
            .map(|row| row.id.clone())
            .collect();
        let failed: Vec<String> =
            agent.tests.iter().filter(|test| fails_by_severity(test)).map(|test| test.id.clone()).collect();
        if !broken.is_empty() || !failed.is_empty() {
            return Conformance::NotConformant { requirements: broken, tests: failed };
        }
        let reasons = missing(agent, planned, policy);
        // Another form of the protocol cannot carry everything: what it lacks is told test by test.
        let is_forgiven = policy.allow_incomplete || agent.dialect.is_some();
        let unreached = if is_forgiven { Vec::new() } else { unreached(agent, rows) };
        if !reasons.is_empty() || !unreached.is_empty() {
            return Conformance::Incomplete { requirements: unreached, reasons };
        }
        let expected = match agent.tests.iter().filter(|test| is_expected_failure(test)).count() {
            0 => rows.iter().filter(|row| row.expected.is_some()).count(),
            tests => tests,
        };
        let optional = agent.tests.iter().filter(|test| is_optional_failure(test)).count();
        match (expected, optional) {
            (0, 0) => Conformance::Conformant,
            (expected, optional) => Conformance::ConformantExcept { expected, optional },
        }
    }

    /// How a run with this agent stands.
    pub fn standing(&self) -> RunStanding {
        match self {
            Conformance::Conformant | Conformance::ConformantExcept { .. } => RunStanding::Conformant,
            Conformance::Incomplete { .. } => RunStanding::Incomplete,
            Conformance::NotConformant { .. } => RunStanding::NotConformant,
        }
    }

    /// The verdict without its details: `CONFORMANT`, `NOT CONFORMANT` or `INCOMPLETE`.
    pub fn word(&self) -> &'static str {
        match self {
            Conformance::Conformant | Conformance::ConformantExcept { .. } => "CONFORMANT",
            Conformance::NotConformant { .. } => "NOT CONFORMANT",
            Conformance::Incomplete { .. } => "INCOMPLETE",
        }
    }
}

impl Conformance {
    /// The verdict with its counts but without the names, for a badge.
    pub fn short(&self) -> String {
        let text = self.to_string();
        match text.split_once(" (") {
            Some((short, _)) => short.to_owned(),
            None => text,
        }
    }
}

impl fmt::Display for Conformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        let details = match self {
            Conformance::Conformant => return Ok(()),
            Conformance::ConformantExcept { expected, optional } => {
                let expected = (*expected > 0).then(|| counted(*expected, "expected failure"));
                let optional =
                    (*optional > 0).then(|| format!("{} that failed", counted(*optional, "optional test")));
                let parts: Vec<String> = expected.into_iter().chain(optional).collect();
                return write!(f, " except {}", parts.join(" and "));
            }
            Conformance::NotConformant { requirements, tests } => {
                let rows = (!requirements.is_empty()).then(|| {
                    format!("{} broken ({})", counted(requirements.len(), "requirement"), named(requirements))
                });
                let tests =
                    (!tests.is_empty()).then(|| format!("{} failed", counted(tests.len(), "required test")));
                rows.into_iter().chain(tests).collect::<Vec<_>>()
            }
            Conformance::Incomplete { requirements, reasons } => {
                let rows = (!requirements.is_empty()).then(|| {
                    format!(
                        "{} not reached ({})",
                        counted(requirements.len(), "requirement"),
                        named(requirements)
                    )
                });
                rows.into_iter().chain(reasons.iter().cloned()).collect()
            }
        };
        if details.is_empty() { Ok(()) } else { write!(f, ": {}", details.join("; ")) }
    }
}

/// A required test without claims that failed, unexpectedly.
pub(crate) fn fails_by_severity(test: &TestOutcome) -> bool {
    test.claims.is_empty()
        && test.severity == UnmetSeverity::Required
        && test.verdict == Verdict::Fail
        && test.expected.is_none()
}

fn is_expected_failure(test: &TestOutcome) -> bool {
    test.verdict == Verdict::Fail && test.expected.is_some()
}

/// An optional test without claims that failed, unexpectedly.
fn is_optional_failure(test: &TestOutcome) -> bool {
    test.claims.is_empty()
        && test.severity == UnmetSeverity::Optional
        && test.verdict == Verdict::Fail
        && test.expected.is_none()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What keeps a run from being complete, apart from requirements that were not reached.
fn missing(agent: &AgentRun, planned: Option<usize>, policy: ConformancePolicy) -> Vec<String> {
    let mut reasons = Vec::new();
    if agent.fault.is_some() {
        return vec!["the agent could not be run".to_owned()];
    }
    let count = |is_it: &dyn Fn(&TestOutcome) -> bool| agent.tests.iter().filter(|test| is_it(test)).count();
    let errors = count(&|test| test.verdict == Verdict::Error);
    if errors > 0 {
        reasons.push(format!("{} could not be run", counted(errors, "test")));
    }
    let strange = count(&|test| test.not_understood);
    if strange > 0 {
        let were = if strange == 1 { "was" } else { "were" };
        reasons.push(format!("{} {were} not understood", counted(strange, "test")));
    }
    let blocked = count(&|test| {
        test.blocked
            && !test.not_understood
            && test.claims.is_empty()
            && test.severity == UnmetSeverity::Required
    });
    if blocked > 0 && !policy.allow_incomplete {
        reasons.push(format!("{} could not be judged", counted(blocked, "required test")));
    }
    let run = agent.tests.len();
    if let Some(planned) = planned.filter(|planned| run < *planned) {
        reasons.push(format!("interrupted: {run} of {planned} tests were run"));
    }
    reasons
}

/// Requirements that must be reached and were not: they fail when broken, can be seen without the model, apply to this
/// agent, and a test of this run claims them.
fn unreached(agent: &AgentRun, rows: &[RequirementResult]) -> Vec<String> {
    let open = |row: &&RequirementResult| {
        matches!(row.state, RequirementState::NotReached | RequirementState::Inconclusive)
    };
    rows.iter()
        .filter(open)
        .filter(|row| registry().get(&row.id).is_some_and(|known| must_be_reached(known, agent)))
        .map(|row| row.id.clone())
        .collect()
}

fn must_be_reached(row: &Requirement, agent: &AgentRun) -> bool {
    row.grade(None) == Grade::Fail && row.is_seen_without_model() && applies(row.condition(), agent)
}

/// Whether a requirement applies to this agent, as far as the probe can tell. What the agent need not do need not be seen.
fn applies(condition: Option<&Condition>, agent: &AgentRun) -> bool {
    let Some(condition) = condition else { return true };
    let Some(header) = &agent.header else { return false };
    let asked = json!({ "clientCapabilities": header.client_capabilities });
    let facts =
        Facts { asked: Some(&asked), agent: Some(&header.introduction), session: header.session.as_ref() };
    // What the agent need not do need not be seen.
    condition.holds(facts) == Some(true)
}

fn counted(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

fn named(ids: &[String]) -> String {
    let shown = ids.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if ids.len() > NAMED { format!("{shown}, …") } else { shown }
}

impl Results {
    /// Works out what every agent comes to. Call it once, when the tests and the expected failures are in.
    pub fn conclude(&mut self, policy: ConformancePolicy) {
        let planned = self.interrupted.then(|| self.suite.files.saturating_sub(self.suite.filtered));
        for agent in &mut self.agents {
            let rows = super::roll_up(agent, &agent.expected);
            agent.conformance = Some(Conformance::of(agent, &rows, planned, policy));
            agent.requirements = rows;
        }
    }

    /// What an agent of this run comes to: as it was concluded, or worked out now for results of an earlier version.
    pub fn conformance(&self, agent: &AgentRun) -> Conformance {
        agent.conformance.clone().unwrap_or_else(|| {
            let planned = self.interrupted.then(|| self.suite.files.saturating_sub(self.suite.filtered));
            Conformance::of(agent, &agent.requirements, planned, ConformancePolicy::default())
        })
    }

    /// How the run stands; what is broken goes before what is incomplete, and that before a stale list.
    pub fn standing(&self) -> RunStanding {
        let worst = self.agents.iter().map(|agent| self.conformance(agent).standing()).max();
        let stale = if self.stale.is_empty() { RunStanding::Conformant } else { RunStanding::Stale };
        let cut = if self.interrupted { RunStanding::Incomplete } else { RunStanding::Conformant };
        worst.unwrap_or(RunStanding::Conformant).max(stale).max(cut)
    }
}
