//! Tests without claims: the plain format's own rule, by severity.

use super::{Ending, TestEvidence, TestVerdict};
use crate::program::Severity;
use crate::results::Verdict;

pub(super) fn verdict(evidence: &TestEvidence, is_judged: bool) -> TestVerdict {
    let severity = evidence.severity;
    let failed = if severity == Severity::Advice { Verdict::Warn } else { Verdict::Fail };
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
        Ending::Completed => {
            found.verdict = Verdict::Pass;
            // A test that asserts nothing by its steps is left to the judge, which judges claims, and it has none.
            found.vacuous = evidence.steps.is_vacuous || is_judged && !evidence.steps.asserts;
            let words = "it held, but the behaviour that it watches never happened".to_owned();
            found.reason = found.vacuous.then_some(words);
        }
        Ending::Unmet(reason) => {
            let is_part = severity == Severity::Optional && evidence.steps.met > 0;
            found.verdict = if is_part { Verdict::Partial } else { failed };
            found.reason = Some(reason.clone());
        }
        Ending::Gone(reason) | Ending::Forbidden(reason) => found.reason = Some(reason.clone()),
        Ending::NotReached(reason) | Ending::Inconclusive(reason) => {
            found.verdict = Verdict::Na;
            found.reason = Some(reason.clone());
        }
        Ending::NotApplicable { reason, blocked } => {
            found.verdict = Verdict::Na;
            found.blocked = *blocked;
            found.reason = Some(reason.clone());
        }
        Ending::Fault(reason) => {
            found.verdict = Verdict::Error;
            found.reason = Some(reason.clone());
        }
    }
    found
}
