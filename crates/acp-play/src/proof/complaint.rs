//! What a played test complains about.

use std::collections::BTreeMap;

use acp_comply::{FindingRef, Outcome, Verdict};

use crate::Played;

/// How heavy a complaint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Worth saying.
    Warn,
    /// The agent is at fault.
    Fail,
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
        for finding in played.others.iter().filter(|finding| finding.blame == "agent") {
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
        for finding in &outcome.findings {
            self.take_finding(finding);
        }
        let weight = match outcome.verdict {
            Verdict::Fail | Verdict::Partial | Verdict::Error => Weight::Fail,
            Verdict::Warn => Weight::Warn,
            Verdict::Pass | Verdict::Na => return,
        };
        let reason = outcome.reason.clone().unwrap_or_default();
        if outcome
            .findings
            .iter()
            .any(|finding| reason == format!("{}: {}", finding.requirement, finding.message))
        {
            return;
        }
        for requirement in &outcome.requirements {
            self.add(requirement, weight, &reason);
        }
        if outcome.requirements.is_empty() {
            self.add(&outcome.id, weight, &reason);
        }
    }

    fn take_finding(&mut self, finding: &FindingRef) {
        let weight = if finding.severity == "must" { Weight::Fail } else { Weight::Warn };
        self.add(&finding.requirement, weight, &finding.message);
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
    use acp_rules::Grade;
    match acp_rules::ClaimId::parse(claim).map(|claim| claim.grade()) {
        Ok(Grade::Fail) => Some(Weight::Fail),
        Ok(Grade::Warn) => Some(Weight::Warn),
        Ok(Grade::Note) | Err(_) => None,
    }
}
