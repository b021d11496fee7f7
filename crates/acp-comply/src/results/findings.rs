//! Findings of the judge as plain data.

use super::{EvidenceRef, FindingRef};
use acp_rules::{Finding, Grade, registry};

impl FindingRef {
    /// A finding, once for each requirement that it is about.
    pub fn of(finding: &Finding) -> Vec<FindingRef> {
        let evidence: Vec<EvidenceRef> = finding
            .evidence
            .iter()
            .map(|evidence| EvidenceRef {
                index: usize::try_from(evidence.index).unwrap_or(usize::MAX),
                at_ms: evidence.at.as_secs_f64() * 1000.0,
                dir: evidence.dir,
                excerpt: evidence.excerpt.clone(),
                pointer: (!evidence.pointer.is_empty()).then(|| evidence.pointer.clone()),
            })
            .collect();
        let about = |requirement: &str, clause: Option<&str>, grade: Grade| FindingRef {
            rule: finding.rule.to_owned(),
            requirement: requirement.to_owned(),
            clause: clause.map(str::to_owned),
            grade,
            blame: finding.blame,
            message: finding.message.clone(),
            hint: (!finding.hint.is_empty()).then(|| finding.hint.to_owned()),
            evidence: evidence.clone(),
            test: None,
            absent: finding.absent,
        };
        let mut found = vec![about(finding.requirement, finding.clause, finding.grade)];
        for row in finding.also.iter().filter_map(|id| registry().get(id)) {
            found.push(about(&row.id, None, row.grade(None).min(finding.grade)));
        }
        found
    }
}
