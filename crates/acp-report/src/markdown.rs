//! The default report: a header per agent, a section per test, no table.

use std::fmt::Write;

use acp_comply::verdict::ClaimState;
use acp_comply::{
    AgentRun, FindingRef, RequirementResult, RequirementState, Results, Side, TestOutcome, Verdict,
};

use crate::summary;

pub(crate) fn render(results: &Results, verbose: bool) -> String {
    let mut out = format!("# ACP Compliance Report\n\n{}\n", summary::METHODOLOGY);
    if results.interrupted {
        let _ = write!(out, "\n{}\n", summary::INTERRUPTED);
    }
    for agent in &results.agents {
        write_agent(&mut out, results, agent, verbose);
    }
    write_lists(&mut out, results);
    out
}

fn write_agent(out: &mut String, results: &Results, agent: &AgentRun, verbose: bool) {
    let _ = write!(out, "\n## {}\n\n", agent.name);
    if let Some(fault) = &agent.fault {
        let _ = writeln!(out, "- Could not be run: {fault}");
    }
    if let Some(login) = summary::login(agent) {
        let _ = writeln!(out, "- Login: {login}");
    }
    let _ = writeln!(out, "- Agent: {}", summary::title(agent));
    let _ = writeln!(out, "- Target: `{}`", agent.target);
    let _ = writeln!(out, "- Caps: {}", summary::caps(agent));
    let _ = writeln!(out, "- Modes: {}", summary::modes(agent));
    if let Some(commands) = agent.header.as_ref().and_then(|header| header.commands.as_ref()) {
        let _ = writeln!(out, "- Commands: {}", commands.join(", "));
    }
    for (name, words) in summary::place(agent) {
        let _ = writeln!(out, "- {name}: {words}");
    }
    let _ = writeln!(out, "- Tests: {}", summary::counts(&agent.tally()));
    let _ = writeln!(out, "- Result: {}", results.conformance(agent));
    write_requirements(out, agent);
    if let Some(found) =
        agent.calibration.as_ref().filter(|found| !found.found.is_empty() || !found.missing.is_empty())
    {
        out.push('\n');
        out.push_str(crate::calibration::section(found).trim_end());
        out.push('\n');
    }
    for test in &agent.tests {
        write_test(out, test, verbose);
    }
    write_findings(out, &agent.findings);
}

/// The requirements that did not hold, or that must be reached and were not.
fn write_requirements(out: &mut String, agent: &AgentRun) {
    let mut rows: Vec<&RequirementResult> = agent
        .requirements
        .iter()
        .filter(|row| !matches!(row.state, RequirementState::Held | RequirementState::NotReached))
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.state));
    if rows.is_empty() {
        return;
    }
    out.push_str("\n### Requirements\n\n");
    for row in rows {
        let words = row.reason.as_deref().map(|words| format!(": {}", one_line(words))).unwrap_or_default();
        let tests: Vec<&str> = row.evidence.iter().filter_map(|place| place.test.as_deref()).collect();
        let tests = if tests.is_empty() { String::new() } else { format!(" (seen in {})", tests.join(", ")) };
        let known = row.expected.as_ref().map(|why| format!("; expected: {why}")).unwrap_or_default();
        let _ = writeln!(out, "- {} {}{words}{tests}{known}", row.id, row.state.as_str());
    }
}

fn write_test(out: &mut String, test: &TestOutcome, verbose: bool) {
    let _ = write!(out, "\n### {}: {}\n\n", test.id, test.verdict);
    let mark = if test.vacuous { ", vacuous" } else { "" };
    let _ = writeln!(
        out,
        "{} ({}{mark}, {})",
        test.title,
        summary::severity(test.severity),
        summary::millis(test.duration_ms)
    );
    if let Some(description) = &test.description {
        let _ = write!(out, "\n{description}\n");
    }
    if let Some(reason) = &test.reason {
        let word = match test.verdict {
            Verdict::Na if test.blocked => "Not judged",
            Verdict::Na => "Not applicable",
            Verdict::Pass => "Note",
            _ => "Why",
        };
        let _ = write!(out, "\n{word}: {}\n", one_line(reason));
    }
    if test.is_flaky() {
        let attempts: Vec<&str> = test.attempts.iter().map(|verdict| verdict.as_str()).collect();
        let _ = write!(out, "\nFlaky: {}\n", attempts.join(", "));
    }
    if let Some(expected) = &test.expected {
        let _ = write!(out, "\nExpected failure: {expected}\n");
    }
    if matches!(test.verdict, Verdict::Pass | Verdict::Na) {
        return;
    }
    write_details(out, test, verbose);
}

/// The broken claims of a test, each with the frames that show it.
fn write_claims(out: &mut String, test: &TestOutcome) {
    for claim in test.claims.iter().filter(|claim| claim.state == ClaimState::Broken) {
        let words = claim.reason.as_deref().map(one_line).unwrap_or_default();
        let _ = write!(out, "\n- {} ({}): {words}", claim.id, claim.grade);
        for frame in &claim.frames {
            let _ =
                write!(out, "\n  - at {:.0} ms, {}: `{}`", frame.at_ms, frame.dir, one_line(&frame.excerpt));
        }
        out.push('\n');
    }
}

fn write_details(out: &mut String, test: &TestOutcome, verbose: bool) {
    write_claims(out, test);
    // Patterns are for those who write tests. A test without claims has nothing else to show.
    if let Some(difference) = test.difference.as_ref().filter(|_| verbose || test.claims.is_empty()) {
        let _ = write!(out, "\nExpected (line {}): `{}`\n", difference.line, difference.expected);
        match &difference.closest {
            Some(closest) => {
                let _ = write!(out, "\nClosest message heard: `{}`\n\n", one_line(closest));
            }
            None => out.push('\n'),
        }
        for line in &difference.differences {
            let _ = writeln!(out, "- {}", one_line(line));
        }
    }
    let by_claim = !test.claims.is_empty();
    for finding in test.findings.iter().filter(|_| !by_claim || verbose) {
        let _ = write!(out, "\n- {}", finding_line(finding));
        for evidence in &finding.evidence {
            let _ = write!(
                out,
                "\n  - at {:.0} ms, {}: `{}`",
                evidence.at_ms,
                evidence.dir,
                one_line(&evidence.excerpt)
            );
        }
        out.push('\n');
    }
    if let Some(exit) = &test.exit {
        let _ = write!(out, "\nThe agent {exit}.\n");
        if !exit.stderr.trim().is_empty() {
            let _ = write!(out, "\n```text\n{}\n```\n", exit.stderr.trim_end());
        }
    }
    for note in &test.notes {
        let _ = write!(out, "\nNote: {note}\n");
    }
    if !test.unanswered.is_empty() {
        let _ = write!(out, "\nRequests without an answer: {}\n", test.unanswered.join(", "));
    }
    if !test.requirements.is_empty() {
        let _ = write!(out, "\nRequirements: {}\n", test.requirements.join(", "));
    }
    for link in &test.docs {
        let _ = write!(out, "\n- <{link}>");
    }
    if !test.docs.is_empty() {
        out.push('\n');
    }
}

fn write_findings(out: &mut String, findings: &[FindingRef]) {
    let mut findings = findings.iter().filter(|finding| finding.blame == Side::Agent).peekable();
    if findings.peek().is_none() {
        return;
    }
    out.push_str("\n### Protocol violations in tests that do not look for them\n\n");
    for finding in findings {
        let place = finding.test.as_deref().map(|test| format!(" (in {test})")).unwrap_or_default();
        let _ = writeln!(out, "- {}{place}", finding_line(finding));
    }
}

fn finding_line(finding: &FindingRef) -> String {
    let hint = finding.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!(
        "{} {} [{}]: {}{hint}",
        finding.grade.as_str().to_uppercase(),
        finding.requirement,
        finding.rule,
        finding.message
    )
}

fn write_lists(out: &mut String, results: &Results) {
    for warning in &results.warnings {
        let _ = write!(out, "\nWarning: {warning}\n");
    }
    for stale in &results.stale {
        let _ =
            write!(out, "\nStale expected failure (line {}): {}: {}\n", stale.line, stale.entry, stale.why);
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('`', "'")
}
