//! The table report: one row per compliance area, one column per agent, numbered notes, a summary per agent.

use std::fmt::Write;

use acp_comply::{AgentRun, Results, Side, TestOutcome, UnmetSeverity, Verdict};

use crate::summary;

/// How many tests that do not pass the notes of an agent tell about.
const MOST_OBSERVED: usize = 5;

pub(crate) fn render(results: &Results) -> String {
    let areas = areas(results);
    let mut notes = Vec::new();
    let rows: Vec<Vec<String>> = areas
        .iter()
        .map(|area| {
            let mut row = vec![summary::one_line(area).replace('|', "\\|")];
            row.extend(results.agents.iter().map(|agent| cell(agent, area, &mut notes)));
            row
        })
        .collect();
    let mut heading = vec!["Compliance Area".to_owned()];
    heading.extend(results.agents.iter().map(|agent| summary::one_line(&agent.name).replace('|', "\\|")));

    let mut out = format!("# ACP Compliance Report\n\n{}\n\n", summary::METHODOLOGY);
    if results.interrupted {
        let _ = write!(out, "{}\n\n", summary::INTERRUPTED);
    }
    write_grid(&mut out, &heading, &rows);
    if !notes.is_empty() {
        out.push('\n');
    }
    for (n, note) in notes.iter().enumerate() {
        let _ = writeln!(out, "[{}] {note}", n + 1);
    }
    for agent in &results.agents {
        write_summary(&mut out, results, agent);
    }
    out
}

/// The areas that every report names first, then others in the order in which the tests name them, required ones first.
fn areas(results: &Results) -> Vec<String> {
    let tests = || results.agents.iter().flat_map(|agent| &agent.tests);
    let known = acp_comply::areas().iter().map(|known| &known.area);
    let mut areas: Vec<String> =
        known.filter(|area| tests().any(|test| test.area == **area)).cloned().collect();
    let required = tests().filter(|test| test.severity == UnmetSeverity::Required);
    for test in required.chain(tests()) {
        if !areas.contains(&test.area) {
            areas.push(test.area.clone());
        }
    }
    areas
}

fn cell(agent: &AgentRun, area: &str, notes: &mut Vec<String>) -> String {
    let tests: Vec<&TestOutcome> = agent.tests.iter().filter(|test| test.area == area).collect();
    let Some(verdict) = summary::worst(tests.iter().copied()) else { return "NA".to_owned() };
    let mut text = verdict.as_str().to_owned();
    if matches!(verdict, Verdict::Pass | Verdict::Na) {
        return text;
    }
    for test in tests.iter().filter(|test| test.verdict == verdict) {
        let reason = test.reason.as_deref().unwrap_or("no reason was recorded");
        let mark = match test.severity {
            UnmetSeverity::Required => String::new(),
            other => format!(" ({})", other.as_str()),
        };
        let known = test.expected.as_ref().map(|why| format!(" (expected: {why})")).unwrap_or_default();
        notes.push(summary::one_line(&format!("{}: {}: {reason}{mark}{known}", agent.name, test.title)));
        let _ = write!(text, " [{}]", notes.len());
    }
    text
}

fn write_grid(out: &mut String, heading: &[String], rows: &[Vec<String>]) {
    let widths: Vec<usize> = (0..heading.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([heading[column].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let line = |out: &mut String, cells: &[String]| {
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(out, "| {cell:<width$} ");
        }
        out.push_str("|\n");
    };
    line(out, heading);
    for width in &widths {
        let _ = write!(out, "|{}", "-".repeat(width + 2));
    }
    out.push_str("|\n");
    for row in rows {
        line(out, row);
    }
}

fn write_summary(out: &mut String, results: &Results, agent: &AgentRun) {
    let _ = write!(out, "\n## {} Summary\n", agent.name);
    if let Some(fault) = &agent.fault {
        let _ = writeln!(out, "- Could not be run: {fault}");
    }
    let _ = writeln!(out, "- Caps: {}", summary::caps(agent));
    let _ = writeln!(out, "- Modes: {}", summary::modes(agent));
    let _ = writeln!(out, "- Notes: {}", notes(results, agent));
    let _ = writeln!(out, "- Links: {}", links(agent));
}

fn notes(results: &Results, agent: &AgentRun) -> String {
    let mut parts = observed(agent);
    parts.extend(summary::interrupted(results, agent));
    let mut rules: Vec<String> = Vec::new();
    for finding in agent.findings.iter().filter(|finding| finding.blame == Side::Agent) {
        let rule = format!("{} {}", finding.requirement, finding.rule);
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    if !rules.is_empty() {
        parts.push(format!("further findings: {}", rules.join(", ")));
    }
    if parts.is_empty() {
        let words = if agent.tests.is_empty() { "no test was run" } else { "nothing of note was observed" };
        parts.push(words.to_owned());
    }
    parts.join("; ")
}

/// What was observed, area by area: what works in a few words, and why the rest does not.
fn observed(agent: &AgentRun) -> Vec<String> {
    let bad = |test: &&TestOutcome| !matches!(test.verdict, Verdict::Pass | Verdict::Na);
    let mut parts = Vec::new();
    for known in acp_comply::areas() {
        let mut tests = agent.tests.iter().filter(|test| test.area == known.area);
        if tests.clone().all(|test| !bad(&test))
            && tests.any(|test| test.verdict == Verdict::Pass && !test.vacuous)
        {
            parts.push(known.observed.clone());
        }
    }
    let mut others = agent.tests.iter().filter(bad);
    for test in others.by_ref().take(MOST_OBSERVED) {
        let reason = test.reason.as_deref().unwrap_or("no reason was recorded");
        parts.push(summary::one_line(&format!("{}: {reason}", test.area)));
    }
    match others.count() {
        0 => {}
        more => parts.push(format!("{more} more in the numbered notes")),
    }
    parts
}

/// The documentation of what did not pass, or of the required tests when all did.
fn links(agent: &AgentRun) -> String {
    let bad: Vec<&TestOutcome> =
        agent.tests.iter().filter(|test| !matches!(test.verdict, Verdict::Pass | Verdict::Na)).collect();
    let chosen: Vec<&TestOutcome> = if bad.is_empty() {
        agent.tests.iter().filter(|test| test.severity == UnmetSeverity::Required).collect()
    } else {
        bad
    };
    let mut names: Vec<String> = Vec::new();
    for link in chosen.iter().filter_map(|test| test.docs.first()) {
        let name = summary::link_name(link);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(8);
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
