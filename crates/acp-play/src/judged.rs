//! What the judge has to say, as results carry it.

use std::collections::BTreeSet;

use acp_comply::{EvidenceRef, FindingRef};
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
        judge.findings().iter().filter(|finding| finding.blame == Side::Agent).map(|finding| FindingRef {
            rule: finding.rule.to_owned(),
            requirement: finding.requirement.to_owned(),
            clause: finding.clause.map(str::to_owned),
            grade: finding.grade,
            blame: finding.blame,
            message: finding.message.clone(),
            hint: (!finding.hint.is_empty()).then(|| finding.hint.to_owned()),
            evidence: finding
                .evidence
                .iter()
                .map(|evidence| EvidenceRef {
                    index: usize::try_from(evidence.index).unwrap_or(usize::MAX),
                    at_ms: evidence.at.as_secs_f64() * 1000.0,
                    dir: evidence.dir.into(),
                    excerpt: evidence.excerpt.clone(),
                    pointer: (!evidence.pointer.is_empty()).then(|| evidence.pointer.clone()),
                })
                .collect(),
            test: None,
        });
    let coverage = judge.coverage();
    let exercised = coverage.rows.iter().filter(|row| row.exercised()).map(|row| row.requirement.to_owned());
    Judged { findings: findings.collect(), exercised: exercised.collect() }
}
