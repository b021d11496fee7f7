//! A short summary for people at a terminal: what did not pass and why, then the counts.

use std::fmt::Write;

use acp_comply::{AgentRun, Outcome, Results, Verdict};
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
    let findings = agent.findings.iter().filter(|finding| finding.blame == "agent").count();
    if findings > 0 {
        let _ = writeln!(
            out,
            "  {findings} finding{} outside the tests' claims; --format markdown lists them",
            if findings == 1 { "" } else { "s" }
        );
    }
    for (name, words) in summary::place(agent).into_iter().filter(|_| agent.version.is_some()) {
        let _ = writeln!(out, "  {}: {words}", name.to_lowercase());
    }
    let held = summary::standing(results, agent);
    let _ = writeln!(out, "  {}: {held}", summary::counts(&agent.tally()));
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
