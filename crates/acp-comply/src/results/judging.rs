//! What outcomes come to: the judge's part, the second run, the counts.

use super::{AgentRun, FindingRef, RESULTS_VERSION, Results, ResultsError, TestOutcome, Verdict, earlier};
use crate::verdict::{self, ClaimState, JudgeReport, TestVerdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// Counts of verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerdictCounts {
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

impl TestOutcome {
    /// Takes in what the judge says about this test's conversation: findings on requirements that the test claims count
    /// for its verdict, the others come back. `exercised` are the requirements whose behaviour the judge saw.
    pub fn judge(&mut self, findings: Vec<FindingRef>, exercised: &BTreeSet<String>) -> Vec<FindingRef> {
        let Some(evidence) = self.evidence.take() else { return findings };
        let (claimed, mut others): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| verdict::is_claimed(finding, &evidence.claims));
        for finding in &mut others {
            finding.test.get_or_insert_with(|| self.id.clone());
        }
        self.decide(verdict::verdict(&evidence, Some(JudgeReport { findings: &claimed, exercised })));
        if let Some(reason) = verdict::own_fault(&evidence, &self.claims, &others)
            && self.verdict == Verdict::Fail
        {
            self.verdict = Verdict::Na;
            self.reason = Some(reason);
            self.needs_second_run = false;
        }
        self.findings.extend(claimed);
        self.evidence = Some(evidence);
        others
    }

    pub(crate) fn decide(&mut self, found: TestVerdict) {
        self.verdict = found.verdict;
        self.reason = found.reason;
        self.vacuous = found.vacuous;
        self.blocked = found.blocked;
        self.claims = found.claims;
        self.needs_second_run = found.needs_second_run;
        for note in found.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// What the test came to after it was run a second time by itself, because its verdict rested on something that did
    /// not come. What did not come either time is broken; otherwise the second run counts, with a note of the first.
    #[must_use]
    pub fn confirmed_by(self, second: TestOutcome) -> TestOutcome {
        let attempts = vec![self.verdict, second.verdict];
        let mut kept = second;
        if kept.verdict.badness() < self.verdict.badness() {
            let first = self.reason.unwrap_or_default();
            kept.notes.push(format!("in a first run beside other tests: {first}"));
        }
        kept.attempts = attempts;
        kept.needs_second_run = false;
        kept
    }

    /// Turns a vacuous pass of a test without claims into NA, for runs that want every pass exercised.
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

    /// An outcome of a test that could not be run.
    pub fn fault(program: &crate::Program, reason: impl Into<String>) -> TestOutcome {
        let mut outcome = crate::run::blank(program);
        outcome.verdict = Verdict::Error;
        outcome.not_reached(reason.into());
        outcome
    }

    /// An outcome of a test that the environment kept from running.
    pub fn not_applicable(program: &crate::Program, reason: impl Into<String>, blocked: bool) -> TestOutcome {
        let mut outcome = crate::run::blank(program);
        outcome.verdict = Verdict::Na;
        outcome.blocked = blocked;
        outcome.not_reached(reason.into());
        outcome
    }

    fn not_reached(&mut self, reason: String) {
        for claim in &mut self.claims {
            claim.state = ClaimState::NotReached;
            claim.reason = Some(reason.clone());
        }
        self.reason = Some(reason);
    }
}

impl AgentRun {
    /// The counts of this agent's tests.
    pub fn tally(&self) -> VerdictCounts {
        let mut tally = VerdictCounts::default();
        for test in &self.tests {
            tally.add(test);
        }
        tally
    }
}

impl VerdictCounts {
    fn add(&mut self, test: &TestOutcome) {
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
    pub fn tally(&self) -> VerdictCounts {
        let mut tally = VerdictCounts::default();
        for test in self.agents.iter().flat_map(|agent| &agent.tests) {
            tally.add(test);
        }
        tally
    }

    /// Reads results from JSON, bringing earlier versions to the present form and refusing one that this code does not know.
    pub fn from_json(text: &str) -> Result<Results, ResultsError> {
        let mut value: Value = serde_json::from_str(text).map_err(ResultsError::Json)?;
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version <= u64::from(RESULTS_VERSION) => {
                if version < 2 {
                    earlier::from_version_1(&mut value);
                }
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
