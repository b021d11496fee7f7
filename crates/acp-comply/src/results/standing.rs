//! What outcomes come to: the judge's part, the counts, how a run stands.

use super::{AgentRun, FindingRef, Outcome, RESULTS_VERSION, Results, ResultsError, Verdict};
use crate::program::Severity;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

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
        let value: Value = serde_json::from_str(text).map_err(ResultsError::Json)?;
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version <= u64::from(RESULTS_VERSION) => {
                serde_json::from_value(value).map_err(ResultsError::Json)
            }
            Some(version) => Err(ResultsError::Version(version)),
            None => Err(ResultsError::NotResults),
        }
    }

    /// Writes results as JSON.
    pub fn to_json(&self) -> Result<String, ResultsError> {
        let mut text = serde_json::to_string_pretty(self).map_err(ResultsError::Json)?;
        text.push('\n');
        Ok(text)
    }
}
