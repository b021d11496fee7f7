//! What a whole run shows, requirement by requirement.

use super::{ClaimResult, ClaimState, Sighting};
use crate::results::{AgentRun, FindingRef, TestOutcome};
use acp_rules::{Grade, registry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many places are kept that show what became of a requirement.
const KEPT: usize = 5;

/// What became of one requirement in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequirementResult {
    /// The requirement.
    pub id: String,
    /// What breaking it means.
    pub grade: Grade,
    /// What became of it.
    pub state: RequirementState,
    /// What the agent did, or why it was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It is a known failure, for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<RequirementEvidence>,
}

/// What became of a requirement, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequirementState {
    /// No test came as far as the situation.
    NotReached,
    /// The situation arose, but nothing that happened says anything either way.
    Inconclusive,
    /// It held whenever the situation arose.
    Held,
    /// Broken, which is worth a note.
    Noted,
    /// Broken, which is a warning.
    Warned,
    /// Broken, which is a failure.
    Broken,
}

impl RequirementState {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            RequirementState::NotReached => "not reached",
            RequirementState::Inconclusive => "inconclusive",
            RequirementState::Held => "held",
            RequirementState::Noted => "noted",
            RequirementState::Warned => "warned",
            RequirementState::Broken => "broken",
        }
    }

    fn of(state: ClaimState, grade: Grade) -> RequirementState {
        match (state, grade) {
            (ClaimState::NotReached, _) => RequirementState::NotReached,
            (ClaimState::Inconclusive, _) => RequirementState::Inconclusive,
            (ClaimState::Held, _) => RequirementState::Held,
            (ClaimState::Broken, Grade::Note) => RequirementState::Noted,
            (ClaimState::Broken, Grade::Warn) => RequirementState::Warned,
            (ClaimState::Broken, Grade::Fail) => RequirementState::Broken,
        }
    }
}

/// One place that shows what became of a requirement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequirementEvidence {
    /// The test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// What happened, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// The frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Sighting>,
}

/// Takes together what all conversations of an agent showed: the claims of its tests, the judge's findings whether or
/// not a test claims them, and what the judge saw exercised. `listed` are requirements whose failure is known.
pub fn roll_up(agent: &AgentRun, listed: &BTreeMap<String, String>) -> Vec<RequirementResult> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for test in &agent.tests {
        for claim in &test.claims {
            rows.entry(claim.id.row().to_owned()).or_default().claim(test, claim);
        }
    }
    for finding in agent.findings.iter().filter(|finding| finding.blame == agent.side) {
        rows.entry(finding.requirement.clone()).or_default().finding(finding);
    }
    for id in agent.exercised.keys() {
        rows.entry(id.clone()).or_default().see(RequirementState::Held, None, None);
    }
    let order = |id: &str| registry().all().iter().position(|row| row.id == id).unwrap_or(usize::MAX);
    let mut results: Vec<RequirementResult> = rows
        .into_iter()
        .filter(|(id, _)| registry().get(id).is_none_or(|row| row.binds == agent.side))
        .map(|(id, row)| row.result(id, listed))
        .collect();
    results.sort_by_key(|result| order(&result.id));
    results
}

/// What is known of one requirement so far.
#[derive(Default)]
struct Row {
    state: Option<RequirementState>,
    reason: Option<String>,
    evidence: Vec<RequirementEvidence>,
    /// Of the tests that claim it and broke it: the reason of the first that is expected to, and whether all are.
    expected: Option<String>,
    is_unexpected: bool,
}

impl Row {
    fn claim(&mut self, test: &TestOutcome, claim: &ClaimResult) {
        let state = RequirementState::of(claim.state, claim.grade);
        let is_broken = claim.state == ClaimState::Broken;
        if is_broken && claim.grade == Grade::Fail {
            match &test.expected {
                Some(reason) => self.expected = self.expected.take().or_else(|| Some(reason.clone())),
                None => self.is_unexpected = true,
            }
        }
        let evidence = is_broken.then(|| RequirementEvidence {
            test: Some(test.id.clone()),
            words: claim.reason.clone(),
            frames: claim.frames.clone(),
        });
        self.see(state, claim.reason.clone(), evidence);
    }

    fn finding(&mut self, finding: &FindingRef) {
        let evidence = RequirementEvidence {
            test: finding.test.clone(),
            words: Some(finding.message.clone()),
            frames: finding.evidence.iter().map(Sighting::from).collect(),
        };
        let state = RequirementState::of(ClaimState::Broken, finding.grade);
        self.see(state, Some(finding.message.clone()), Some(evidence));
    }

    /// The worst that was seen stays; of what is equally bad, the first.
    fn see(
        &mut self,
        state: RequirementState,
        reason: Option<String>,
        evidence: Option<RequirementEvidence>,
    ) {
        let is_worse = self.state.is_none_or(|known| state > known);
        if is_worse {
            self.state = Some(state);
            self.reason = reason.filter(|_| state != RequirementState::Held);
        }
        if let Some(evidence) = evidence
            && self.evidence.len() < KEPT
        {
            self.evidence.push(evidence);
        }
    }

    fn result(self, id: String, listed: &BTreeMap<String, String>) -> RequirementResult {
        let by_tests = self.expected.filter(|_| !self.is_unexpected);
        let expected = listed.get(&id).cloned().or(by_tests);
        let state = self.state.unwrap_or(RequirementState::NotReached);
        RequirementResult {
            grade: registry().get(&id).map_or(Grade::Fail, |row| row.grade(None)),
            expected: expected.filter(|_| state == RequirementState::Broken),
            state,
            reason: self.reason,
            evidence: self.evidence,
            id,
        }
    }
}
