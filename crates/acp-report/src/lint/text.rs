//! Findings for people.

use std::fmt::{Result, Write};
use std::time::Duration;

use acp_rules::{Grade, RequirementStanding, Spread, Stats};

use super::read::{LintedTranscript, Shown};
use super::{LintSections, shape};

/// Writes every file's findings and a summary.
pub(crate) fn write(out: &mut String, judged: &[LintedTranscript], sections: LintSections) -> Result {
    for file in judged {
        for problem in file.problem_lines() {
            writeln!(out, "{problem}")?;
        }
        for shown in &file.findings {
            finding(out, file, shown)?;
        }
        for (rule, side, more) in &file.not_kept {
            writeln!(out, "… and {more} more of {rule} by the {side}\n")?;
        }
        if sections.stats {
            numbers(out, &file.stats, file.timed)?;
        }
        if sections.coverage {
            covered(out, file)?;
        }
        if file.frames > 0 || !file.unreadable() {
            summary(out, file)?;
        }
    }
    Ok(())
}

fn finding(out: &mut String, file: &LintedTranscript, shown: &Shown) -> Result {
    let finding = &shown.finding;
    let word = match finding.grade {
        Grade::Fail => "error",
        Grade::Warn => "warning",
        Grade::Note => "note",
    };
    let clause = finding.clause.map(|name| format!("/{name}")).unwrap_or_default();
    writeln!(out, "{word}[{}{clause}] {}", finding.requirement, finding.message)?;
    for (number, (evidence, place)) in finding.evidence.iter().zip(&shown.places).enumerate() {
        let arrow = if number == 0 { "-->" } else { "and" };
        let when = if file.timed { format!("  at {}", seconds(evidence.at)) } else { String::new() };
        let line = format!(
            "  {arrow} {}:{}  {}{when}  {}",
            file.name,
            place.line,
            evidence.dir,
            acp_text::line(&evidence.pointer)
        );
        writeln!(out, "{}", line.trim_end())?;
        if place.excerpt.text.is_empty() {
            continue;
        }
        writeln!(out, "      {}", place.excerpt.text)?;
        if !place.excerpt.marked.is_empty() {
            let indent = " ".repeat(place.excerpt.marked.start);
            writeln!(out, "      {indent}{}", "^".repeat(place.excerpt.marked.len()))?;
        }
    }
    writeln!(out, "    rule: {}, by the {}", finding.rule, finding.blame)?;
    let pointer = finding.evidence.first().map(|evidence| evidence.pointer.as_str()).unwrap_or_default();
    match shape::example(&finding.message, pointer).filter(|_| finding.rule == "schema") {
        Some(shape) => writeln!(out, "    hint: it should look like {shape}\n"),
        None => writeln!(out, "    hint: {}\n", finding.hint),
    }
}

fn seconds(at: Duration) -> String {
    format!("{:.3} s", at.as_secs_f64())
}

fn summary(out: &mut String, file: &LintedTranscript) -> Result {
    let version = file.version.map_or("no version agreed".to_owned(), |version| format!("version {version}"));
    let notes = if file.notes == 0 { String::new() } else { format!(", {}", counted(file.notes, "note")) };
    let held = file.coverage.count(RequirementStanding::Held);
    let broken = file.coverage.count(RequirementStanding::Broken);
    writeln!(
        out,
        "{}: {}, {version}: {} ({} by the agent, {} by the client), {}{notes}; {} held, {broken} broken",
        file.name,
        counted(file.frames, "frame"),
        counted(file.all_errors(), "error"),
        file.errors[0],
        file.errors[1],
        counted(file.warnings, "warning"),
        counted(held as u64, "requirement"),
    )
}

/// A number of things in words: "1 error", "2 errors".
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn numbers(out: &mut String, stats: &Stats, timed: bool) -> Result {
    for (dir, volume) in &stats.volume {
        let (frames, bytes, largest) = (volume.frames, volume.bytes, volume.largest);
        writeln!(out, "{dir}  {frames} frames, {bytes} bytes, largest {largest}")?;
    }
    for (kind, count) in &stats.updates {
        writeln!(out, "update {:30} {count:>8}", acp_text::line(kind))?;
    }
    if !timed {
        return writeln!(out, "the transcript has no times: no latencies\n");
    }
    let mut rows: Vec<(String, &Spread)> =
        vec![("prompt to first chunk".to_owned(), &stats.first_chunk), ("turn".to_owned(), &stats.turns)];
    let latencies = stats.latency.iter();
    rows.extend(
        latencies.map(|((method, asker), one)| (format!("{} (by the {asker})", acp_text::line(method)), one)),
    );
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    writeln!(out, "{:width$} {:>7} {:>10} {:>10} {:>10}", "seconds", "count", "p50", "p95", "max")?;
    for (name, spread) in rows {
        let at = |part| spread.quantile(part).as_secs_f64();
        let (count, half, most, all) = (spread.count(), at(0.5), at(0.95), at(1.0));
        writeln!(out, "{name:width$} {count:>7} {half:>10.4} {most:>10.4} {all:>10.4}")?;
    }
    writeln!(out)
}

fn covered(out: &mut String, file: &LintedTranscript) -> Result {
    for (standing, title) in [
        (RequirementStanding::Broken, "broken"),
        (RequirementStanding::Held, "held"),
        (RequirementStanding::NeverReached, "never reached"),
    ] {
        let ids: Vec<&str> = file
            .coverage
            .rows
            .iter()
            .filter(|row| row.standing == standing)
            .map(|row| row.requirement)
            .collect();
        writeln!(out, "{title} ({}): {}", ids.len(), ids.join(" "))?;
    }
    writeln!(out, "not to be seen in frames: {}\n", file.coverage.count(RequirementStanding::NotJudged))
}
