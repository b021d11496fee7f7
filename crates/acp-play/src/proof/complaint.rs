//! What a played test complains about.

use std::collections::BTreeMap;

use acp_comply::verdict::ClaimState;
use acp_comply::{FindingRef, Outcome, Verdict};
use acp_rules::{ClaimId, Grade, Side};

use crate::Played;

/// How heavy a complaint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Worth saying.
    Warn,
    /// The agent is at fault.
    Fail,
}

impl Weight {
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
    claims: BTreeMap<String, (Weight, String)>,
}

impl Complaints {
    /// All complaints of a test: its own about what it claims, and the judge's about everything.
    pub fn of(played: &Played) -> Self {
        let mut complaints = Self::default();
        complaints.take_outcome(&played.outcome);
        for finding in played.others.iter().filter(|finding| finding.blame == Side::Agent) {
            complaints.take_finding(finding);
        }
        complaints
    }

    /// The complaints of a test's own about what it claims.
    pub fn of_claims(outcome: &Outcome) -> Self {
        let mut complaints = Self::default();
        complaints.take_outcome(outcome);
        complaints
    }

    fn take_outcome(&mut self, outcome: &Outcome) {
        for claim in outcome.claims.iter().filter(|claim| claim.state == ClaimState::Broken) {
            if let Some(weight) = Weight::of(claim.grade) {
                self.add(claim.id.as_str(), weight, claim.reason.as_deref().unwrap_or_default());
            }
        }
        let reason = outcome.reason.as_deref().unwrap_or_default();
        match outcome.verdict {
            Verdict::Fail | Verdict::Partial | Verdict::Warn if outcome.claims.is_empty() => {
                self.add(&outcome.id, Weight::Fail, reason);
            }
            Verdict::Error => self.add(&outcome.id, Weight::Fail, reason),
            _ => {}
        }
    }

    fn take_finding(&mut self, finding: &FindingRef) {
        if let Some(weight) = Weight::of(finding.grade) {
            let claim =
                finding.claim().map_or_else(|| finding.requirement.clone(), |claim| claim.to_string());
            self.add(&claim, weight, &finding.message);
        }
    }

    fn add(&mut self, claim: &str, weight: Weight, reason: &str) {
        let known = self.claims.entry(claim.to_owned()).or_insert_with(|| (weight, reason.to_owned()));
        if known.0 < weight {
            *known = (weight, reason.to_owned());
        }
    }

    /// Claim, weight and reason of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Weight, &str)> {
        self.claims.iter().map(|(claim, (weight, reason))| (claim.as_str(), *weight, reason.as_str()))
    }

    /// What is said about this requirement or one of its clauses.
    pub fn about(&self, row: &str) -> Option<(Weight, &str)> {
        let said = self.iter().filter(|(claim, ..)| claim.split('/').next() == Some(row));
        said.map(|(_, weight, reason)| (weight, reason)).max_by_key(|(weight, _)| *weight)
    }
}

/// How heavy it is to break this requirement, or this clause of it: what a catch must be at least. `None` when breaking
/// it is only worth a note.
pub fn weight(claim: &str) -> Option<Weight> {
    claim.parse::<ClaimId>().ok().and_then(|claim| Weight::of(claim.grade()))
}
