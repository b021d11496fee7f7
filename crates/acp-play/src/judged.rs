//! What the judge has to say, as results carry it.

use std::collections::BTreeSet;

use acp_comply::FindingRef;
use acp_rules::{Judge, Side};

/// What the judge of one connection has to say.
#[derive(Clone, Debug, Default)]
pub struct JudgedConnection {
    /// What was wrong.
    pub findings: Vec<FindingRef>,
    /// Requirements that the conversation put to the test.
    pub exercised: BTreeSet<String>,
}

/// The findings on the agent, and the coverage, of a judge that was closed. Our own side is a test's script, which breaks
/// rules where the test wants that. A finding that breaks several requirements is there once for each.
pub fn judged(judge: &Judge) -> JudgedConnection {
    let findings =
        judge.findings().iter().filter(|finding| finding.blame == Side::Agent).flat_map(FindingRef::of);
    let coverage = judge.coverage();
    let exercised = coverage.rows.iter().filter(|row| row.exercised()).map(|row| row.requirement.to_owned());
    JudgedConnection { findings: findings.collect(), exercised: exercised.collect() }
}
