//! A short summary for people at a terminal: what did not pass and why, then the counts.

use std::fmt::Write;

use acp_comply::{AgentRun, Outcome, RequirementState, Results, Standing, Verdict};
use anstyle::{AnsiColor, Style};

use crate::summary;

pub(crate) fn render(results: &Results, colour: bool) -> String {
    let mut out = String::new();
    for agent in &results.agents {
        write_agent(&mut out, results, agent, colour);
    }
    if results.interrupted {
        out.push_str("interrupted: this is what was known by then\n");
    }
    for stale in &results.stale {
        let _ = writeln!(out, "stale expected failure (line {}): {}: {}", stale.line, stale.entry, stale.why);
    }
    let _ = writeln!(out, "took {}", summary::millis(results.duration_ms));
    out
}

fn write_agent(out: &mut String, results: &Results, agent: &AgentRun, colour: bool) {
    let _ = writeln!(out, "{}  {}", paint(&agent.name, Style::new().bold(), colour), summary::title(agent));
    if let Some(fault) = &agent.fault {
        let _ = writeln!(out, "  could not be run: {fault}");
    }
    let width = agent.tests.iter().filter(|test| shown(test)).map(|test| test.id.len()).max().unwrap_or(0);
    for test in agent.tests.iter().filter(|test| shown(test)) {
        let word = paint(&format!("{:<7}", test.verdict.as_str()), style(test.verdict), colour);
        let _ = writeln!(
            out,
            "  {word} {:<width$}  {}",
            test.id,
            summary::one_line(test.reason.as_deref().unwrap_or_default())
        );
        if let Some(reason) = &test.expected {
            let _ = writeln!(out, "          {:<width$}  expected: {reason}", "");
        }
    }
    let told: Vec<&Outcome> = agent.tests.iter().filter(|test| shown(test)).collect();
    for row in summary::untold(agent, &told) {
        let verdict = if row.state == RequirementState::Broken { Verdict::Fail } else { Verdict::Warn };
        let word = paint(&format!("{:<7}", summary::row_word(row)), style(verdict), colour);
        let place = row.evidence.first().and_then(|evidence| evidence.test.as_deref());
        let place = place.map(|test| format!(" (seen in {test})")).unwrap_or_default();
        let words = summary::one_line(row.reason.as_deref().unwrap_or_default());
        let _ = writeln!(out, "  {word} {:<width$}  {words}{place}", row.id);
        if let Some(reason) = &row.expected {
            let _ = writeln!(out, "          {:<width$}  expected: {reason}", "");
        }
    }
    for (name, words) in summary::place(agent).into_iter().filter(|_| agent.version.is_some()) {
        let _ = writeln!(out, "  {}: {words}", name.to_lowercase());
    }
    let conformance = results.conformance(agent);
    let good = if conformance.standing() == Standing::Conformant { Verdict::Pass } else { Verdict::Fail };
    let words = paint(&conformance.to_string(), style(good).bold(), colour);
    let _ = writeln!(out, "  {}", summary::counts(&agent.tally()));
    let _ = writeln!(out, "  {words}");
}

fn shown(test: &Outcome) -> bool {
    !matches!(test.verdict, Verdict::Pass | Verdict::Na) || test.blocked
}

fn style(verdict: Verdict) -> Style {
    let colour = match verdict {
        Verdict::Pass => AnsiColor::Green,
        Verdict::Fail | Verdict::Error => AnsiColor::Red,
        Verdict::Warn | Verdict::Partial => AnsiColor::Yellow,
        Verdict::Na => AnsiColor::BrightBlack,
    };
    Style::new().fg_color(Some(colour.into()))
}

fn paint(text: &str, style: Style, colour: bool) -> String {
    if colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
}
