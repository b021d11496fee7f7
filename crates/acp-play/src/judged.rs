//! What the judge has to say, as results carry it.

use std::collections::BTreeSet;

use acp_comply::{EvidenceRef, FindingRef};
use acp_rules::{Finding, Judge, Side};

/// What the judge of one connection has to say.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// What was wrong.
    pub findings: Vec<FindingRef>,
    /// Requirements that the conversation put to the test.
    pub exercised: BTreeSet<String>,
}

/// The findings on the agent, and the coverage, of a judge that was closed. Our own side is a test's script, which breaks
/// rules where the test wants that. A finding that breaks several requirements is there once for each.
pub fn judged(judge: &Judge) -> Judged {
    let about_agent = judge.findings().iter().filter(|finding| finding.blame == Side::Agent);
    let findings = about_agent.flat_map(|finding| {
        finding.broken().map(|(requirement, clause, grade)| FindingRef {
            rule: finding.rule.to_owned(),
            requirement: requirement.to_owned(),
            clause: clause.map(str::to_owned),
            grade,
            blame: finding.blame,
            message: finding.message.clone(),
            hint: (!finding.hint.is_empty()).then(|| finding.hint.to_owned()),
            evidence: evidence(finding),
            test: None,
        })
    });
    let coverage = judge.coverage();
    let exercised = coverage.rows.iter().filter(|row| row.exercised()).map(|row| row.requirement.to_owned());
    Judged { findings: findings.collect(), exercised: exercised.collect() }
}

fn evidence(finding: &Finding) -> Vec<EvidenceRef> {
    let places = finding.evidence.iter().map(|evidence| EvidenceRef {
        index: usize::try_from(evidence.index).unwrap_or(usize::MAX),
        at_ms: evidence.at.as_secs_f64() * 1000.0,
        dir: evidence.dir.into(),
        excerpt: evidence.excerpt.clone(),
        pointer: (!evidence.pointer.is_empty()).then(|| evidence.pointer.clone()),
    });
    places.collect()
}
