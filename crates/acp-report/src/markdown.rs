//! The default report: a header per agent, a section per test, no table.

use std::fmt::Write;

use acp_comply::{AgentRun, FindingRef, Outcome, Results, Verdict};

use crate::summary;

pub(crate) fn render(results: &Results) -> String {
    let mut out = format!("# ACP Compliance Report\n\n{}\n", summary::METHODOLOGY);
    if results.interrupted {
        let _ = write!(out, "\n{}\n", summary::INTERRUPTED);
    }
    for agent in &results.agents {
        write_agent(&mut out, results, agent);
    }
    write_lists(&mut out, results);
    out
}

fn write_agent(out: &mut String, results: &Results, agent: &AgentRun) {
    let _ = write!(out, "\n## {}\n\n", agent.name);
    if let Some(fault) = &agent.fault {
        let _ = writeln!(out, "- Could not be run: {fault}");
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
    let cut = summary::interrupted(results, agent).map(|words| format!("; {words}")).unwrap_or_default();
    let _ = writeln!(out, "- Result: {}{cut}", summary::counts(&agent.tally()));
    for test in &agent.tests {
        write_test(out, test);
    }
    write_findings(out, &agent.findings);
}

fn write_test(out: &mut String, test: &Outcome) {
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
    write_details(out, test);
}

fn write_details(out: &mut String, test: &Outcome) {
    if let Some(difference) = &test.difference {
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
    for finding in &test.findings {
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
    let mut findings = findings.iter().filter(|finding| finding.blame == "agent").peekable();
    if findings.peek().is_none() {
        return;
    }
    out.push_str("\n### Findings outside the tests' claims\n\n");
    for finding in findings {
        let place = finding.test.as_deref().map(|test| format!(" (in {test})")).unwrap_or_default();
        let _ = writeln!(out, "- {}{place}", finding_line(finding));
    }
}

fn finding_line(finding: &FindingRef) -> String {
    let hint = finding.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!(
        "{} {} [{}]: {}{hint}",
        finding.severity.to_uppercase(),
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
