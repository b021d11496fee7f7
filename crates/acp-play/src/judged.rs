//! What the judge has to say, as results carry it.

use std::collections::BTreeSet;

use acp_comply::FindingRef;
use acp_rules::{Judge, Side};

/// What the judge of one connection has to say.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// What was wrong.
    pub findings: Vec<FindingRef>,
    /// Requirements that the conversation put to the test.
    pub exercised: BTreeSet<String>,
}

/// The findings and the coverage of a judge that was closed.
pub fn judged(judge: &Judge) -> Judged {
    let findings =
        judge.findings().iter().filter(|finding| finding.blame == Side::Agent).flat_map(FindingRef::of);
    let coverage = judge.coverage();
    let exercised = coverage.rows.iter().filter(|row| row.exercised()).map(|row| row.requirement.to_owned());
    Judged { findings: findings.collect(), exercised: exercised.collect() }
}
