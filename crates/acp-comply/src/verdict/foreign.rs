//! Tests without claims: the plain format's own rule, by severity.

use super::{TestEnding, TestEvidence, TestVerdict};
use crate::program::UnmetSeverity;
use crate::results::Verdict;

pub(super) fn verdict(evidence: &TestEvidence, is_judged: bool) -> TestVerdict {
    let severity = evidence.severity;
    let failed = if severity == UnmetSeverity::Advice { Verdict::Warn } else { Verdict::Fail };
    let mut found = TestVerdict {
        verdict: failed,
        reason: None,
        vacuous: false,
        blocked: false,
        claims: Vec::new(),
        needs_second_run: false,
        notes: Vec::new(),
    };
    match &evidence.ending {
        TestEnding::Completed => {
            found.verdict = Verdict::Pass;
            // A test that asserts nothing by its steps is left to the judge, which judges claims, and it has none.
            found.vacuous = evidence.steps.is_vacuous || is_judged && !evidence.steps.asserts;
            let words = "it held, but the behaviour that it watches never happened".to_owned();
            found.reason = found.vacuous.then_some(words);
        }
        TestEnding::Unmet(reason) => {
            let is_part = severity == UnmetSeverity::Optional && evidence.steps.met > 0;
            found.verdict = if is_part { Verdict::Partial } else { failed };
            found.reason = Some(reason.clone());
        }
        TestEnding::Gone(reason) | TestEnding::Forbidden(reason) => found.reason = Some(reason.clone()),
        TestEnding::NotReached(reason) | TestEnding::Inconclusive(reason) => {
            found.verdict = Verdict::Na;
            found.reason = Some(reason.clone());
        }
        TestEnding::NotApplicable { reason, blocked } => {
            found.verdict = Verdict::Na;
            found.blocked = *blocked;
            found.reason = Some(reason.clone());
        }
        TestEnding::Fault(reason) => {
            found.verdict = Verdict::Error;
            found.reason = Some(reason.clone());
        }
    }
    found
}
