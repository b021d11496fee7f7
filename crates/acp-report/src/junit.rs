//! JUnit XML, as continuous integration services read it: one suite per agent.

use std::time::Duration;

use acp_comply::verdict::ClaimState;
use acp_comply::{AgentRun, Results, RunStanding, TestOutcome, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::summary;

pub(crate) fn render(results: &Results) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("ACP compliance");
    report.set_time(Duration::from_secs_f64((results.duration_ms / 1000.0).max(0.0)));
    for agent in &results.agents {
        report.add_test_suite(suite(results, agent));
    }
    let mut text = report.to_string()?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

fn suite(results: &Results, agent: &AgentRun) -> TestSuite {
    let mut suite = TestSuite::new(agent.name.as_str());
    for test in &agent.tests {
        suite.add_test_case(case(test));
    }
    suite.add_test_case(conformance(results, agent));
    suite
}

/// What the agent comes to, as a test of its own: it may fail though every test holds, by what no test looks for.
fn conformance(results: &Results, agent: &AgentRun) -> TestCase {
    let conformance = results.conformance(agent);
    let kind = match conformance.standing() {
        RunStanding::NotConformant => Some(NonSuccessKind::Failure),
        RunStanding::Incomplete => Some(NonSuccessKind::Error),
        RunStanding::Conformant | RunStanding::Stale => None,
    };
    let status = match kind {
        Some(kind) => {
            let mut status = TestCaseStatus::non_success(kind);
            let fault = agent.fault.as_ref().map(|fault| format!(": {fault}")).unwrap_or_default();
            status.set_message(format!("{conformance}{fault}")).set_type(conformance.word());
            status
        }
        None => TestCaseStatus::success(),
    };
    let mut case = TestCase::new(format!("conformance: {conformance}"), status);
    case.set_classname("Conformance");
    case
}

fn case(test: &TestOutcome) -> TestCase {
    let reason = test.reason.clone().unwrap_or_default();
    let skipped = |why: &str| {
        let mut status = TestCaseStatus::skipped();
        status.set_message(why.to_owned());
        status
    };
    let status = match test.verdict {
        Verdict::Pass => TestCaseStatus::success(),
        Verdict::Na => skipped(&reason),
        _ if test.expected.is_some() => {
            skipped(&format!("expected failure: {}", test.expected.as_deref().unwrap_or_default()))
        }
        Verdict::Warn | Verdict::Partial => skipped(&format!("{}: {reason}", test.verdict)),
        Verdict::Fail if summary::is_forgiven(test) => skipped(&format!("optional, failed: {reason}")),
        Verdict::Fail | Verdict::Error => {
            let kind =
                if test.verdict == Verdict::Error { NonSuccessKind::Error } else { NonSuccessKind::Failure };
            let mut status = TestCaseStatus::non_success(kind);
            status
                .set_message(reason.as_str())
                .set_type(test.verdict.as_str())
                .set_description(details(test));
            status
        }
    };
    let mut case = TestCase::new(format!("{}: {}", test.id, test.title), status);
    case.set_classname(test.area.as_str());
    case.set_time(Duration::from_secs_f64((test.duration_ms / 1000.0).max(0.0)));
    case
}

fn details(test: &TestOutcome) -> String {
    let mut lines = vec![test.reason.clone().unwrap_or_default()];
    if let Some(difference) = test.difference.as_ref().filter(|_| test.claims.is_empty()) {
        lines.push(format!("expected: {}", difference.expected));
        lines.push(format!(
            "closest: {}",
            difference.closest.as_deref().unwrap_or("nothing of that kind was heard")
        ));
        lines.extend(difference.differences.iter().cloned());
    }
    for claim in test.claims.iter().filter(|claim| claim.state == ClaimState::Broken) {
        lines.push(format!(
            "{} ({}): {}",
            claim.id,
            claim.grade,
            claim.reason.as_deref().unwrap_or_default()
        ));
        lines.extend(
            claim.frames.iter().map(|frame| format!("{:.0} ms {} {}", frame.at_ms, frame.dir, frame.excerpt)),
        );
    }
    for finding in test.findings.iter().filter(|_| test.claims.is_empty()) {
        lines.push(format!("{} [{}]: {}", finding.requirement, finding.rule, finding.message));
    }
    lines.extend(test.docs.iter().cloned());
    lines.join("\n")
}
