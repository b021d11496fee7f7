//! What a played test complains about.

use std::collections::BTreeMap;

use acp_comply::verdict::ClaimState;
use acp_comply::{FindingRef, TestOutcome, Verdict};
use acp_rules::{ClaimId, Grade, Side};

use crate::PlayedTest;

/// How heavy a complaint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComplaintWeight {
    /// Worth saying.
    Warn,
    /// The agent is at fault.
    Fail,
}

impl ComplaintWeight {
    /// How heavy this grade is; a note is no complaint.
    pub fn of(grade: Grade) -> Option<Self> {
        match grade {
            Grade::Fail => Some(Self::Fail),
            Grade::Warn => Some(Self::Warn),
            Grade::Note => None,
        }
    }
}

/// What a test complains about, requirement by requirement, each with the heaviest reason.
#[derive(Clone, Debug, Default)]
pub struct Complaints {
    claims: BTreeMap<String, (ComplaintWeight, String)>,
    /// Claims that are broken in a way that is only worth a note.
    notes: BTreeMap<String, String>,
}

impl Complaints {
    /// All complaints of a test: its own about what it claims, and the judge's about everything.
    pub fn of(played: &PlayedTest) -> Self {
        Self::of_run(&played.outcome, &played.others)
    }

    /// The same of a test that was run.
    pub fn of_run(outcome: &TestOutcome, others: &[FindingRef]) -> Self {
        let mut complaints = Self::default();
        complaints.take_outcome(outcome);
        for finding in others.iter().filter(|finding| finding.blame == Side::Agent) {
            complaints.take_finding(finding);
        }
        complaints
    }

    fn take_outcome(&mut self, outcome: &TestOutcome) {
        for claim in outcome.claims.iter().filter(|claim| claim.state == ClaimState::Broken) {
            self.add_graded(claim.id.as_str(), claim.grade, claim.reason.as_deref().unwrap_or_default());
        }
        let reason = outcome.reason.as_deref().unwrap_or_default();
        match outcome.verdict {
            Verdict::Fail | Verdict::Partial | Verdict::Warn if outcome.claims.is_empty() => {
                self.add(&outcome.id, ComplaintWeight::Fail, reason);
            }
            Verdict::Error => self.add(&outcome.id, ComplaintWeight::Fail, reason),
            _ => {}
        }
    }

    fn take_finding(&mut self, finding: &FindingRef) {
        let claim = finding.claim().map_or_else(|| finding.requirement.clone(), |claim| claim.to_string());
        self.add_graded(&claim, finding.grade, &finding.message);
    }

    fn add_graded(&mut self, claim: &str, grade: Grade, reason: &str) {
        match ComplaintWeight::of(grade) {
            Some(weight) => self.add(claim, weight, reason),
            None => {
                self.notes.entry(claim.to_owned()).or_insert_with(|| reason.to_owned());
            }
        }
    }

    fn add(&mut self, claim: &str, weight: ComplaintWeight, reason: &str) {
        let known = self.claims.entry(claim.to_owned()).or_insert_with(|| (weight, reason.to_owned()));
        if known.0 < weight {
            *known = (weight, reason.to_owned());
        }
    }

    /// Claim, weight and reason of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, ComplaintWeight, &str)> {
        self.claims.iter().map(|(claim, (weight, reason))| (claim.as_str(), *weight, reason.as_str()))
    }

    /// What catches an agent that breaks this claim: a complaint about its requirement that is as heavy as breaking the
    /// claim is, or a note where breaking it is only worth a note.
    pub fn catch(&self, claim: &str) -> Option<&str> {
        let row = claim.split('/').next().unwrap_or(claim);
        let complaint =
            self.about(row).filter(|(said, _)| weight(claim).is_none_or(|enough| *said >= enough));
        let note = || {
            let (_, reason) = self.notes.iter().find(|(noted, _)| noted.split('/').next() == Some(row))?;
            weight(claim).is_none().then_some(reason.as_str())
        };
        complaint.map(|(_, reason)| reason).or_else(note)
    }

    /// What is said about this requirement or one of its clauses.
    pub fn about(&self, row: &str) -> Option<(ComplaintWeight, &str)> {
        let said = self.iter().filter(|(claim, ..)| claim.split('/').next() == Some(row));
        said.map(|(_, weight, reason)| (weight, reason)).max_by_key(|(weight, _)| *weight)
    }
}

/// How heavy it is to break this requirement, or this clause of it: what a catch must be at least. `None` when breaking
/// it is only worth a note.
pub fn weight(claim: &str) -> Option<ComplaintWeight> {
    claim.parse::<ClaimId>().ok().and_then(|claim| ComplaintWeight::of(claim.grade()))
}
