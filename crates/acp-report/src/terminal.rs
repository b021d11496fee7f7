//! A short summary for people at a terminal: the verdict, what is broken and why, then the counts.
//!
//! Without `verbose` it is meant for one screen: one entry for each broken requirement, however many tests saw it, and
//! warnings by their ids alone. With `verbose` every test that did not pass is told by itself.

use std::fmt::Write;

use acp_comply::{
    AgentRun, ExitRecord, RequirementResult, RequirementState, Results, RunStanding, TestOutcome, Verdict,
};
use anstyle::{AnsiColor, Style};

use crate::{ReportOptions, summary};

/// How many failures of one agent are told at most.
const FAILURES: usize = 8;
/// How many ids of warnings are named.
const WARNINGS: usize = 12;
/// The columns of an entry's first line before its words.
const INDENT: usize = 8;

/// The lines below the summary: where the full report is, and the shell's next prompt.
const LINES_BELOW: usize = 2;

/// The summary with as many failures as fit on the screen, and at least one.
pub(crate) fn render(results: &Results, options: ReportOptions) -> String {
    let fits = |text: &String| {
        let lines = text.lines().count() + LINES_BELOW;
        options.verbose || options.height.is_none_or(|height| lines <= height)
    };
    let tries = (1..=FAILURES).rev().map(|failures| page(results, options, failures));
    let mut last = String::new();
    for text in tries {
        if fits(&text) {
            return text;
        }
        last = text;
    }
    last
}

fn page(results: &Results, options: ReportOptions, failures: usize) -> String {
    let mut out = Page { text: String::new(), colour: options.colour, width: options.width };
    for agent in &results.agents {
        if options.quiet {
            out.verdict(results, agent, &format!("{}  ", agent.name));
            out.fault(agent);
        } else {
            out.agent(results, agent, options.verbose, failures);
        }
    }
    if results.interrupted {
        out.line(0, "interrupted: this is what was known by then");
    }
    for stale in &results.stale {
        out.line(0, &format!("stale expected failure (line {}): {}: {}", stale.line, stale.entry, stale.why));
    }
    if !options.quiet {
        out.hint(results);
        out.line(0, &format!("took {}", summary::millis(results.duration_ms)));
    }
    out.text
}

/// One thing that went wrong.
struct Entry {
    verdict: Verdict,
    name: String,
    words: String,
    seen: Option<String>,
    expected: Option<String>,
}

struct Page {
    text: String,
    colour: bool,
    width: Option<usize>,
}

impl Page {
    fn agent(&mut self, results: &Results, agent: &AgentRun, verbose: bool, failures: usize) {
        let name = self.paint(&agent.name, Style::new().bold());
        let _ = writeln!(self.text, "{name}  {}", summary::title(agent));
        self.verdict(results, agent, "  ");
        self.fault(agent);
        if let Some(login) = summary::login(agent) {
            self.line(2, &login);
        }
        let entries = if verbose { by_test(agent) } else { by_requirement(agent) };
        let shown = if verbose { entries.len() } else { failures };
        if !entries.is_empty() {
            self.text.push('\n');
        }
        for entry in entries.iter().take(shown) {
            self.entry(entry);
        }
        if entries.len() > shown {
            let more = entries.len() - shown;
            self.line(INDENT, &format!("… and {more} more: --verbose and the full report show all"));
        }
        if !entries.is_empty() {
            self.text.push('\n');
        }
        if !verbose {
            self.warnings(agent);
        }
        for (name, words) in summary::place(agent).into_iter().filter(|_| agent.version.is_some()) {
            // Tests run side by side: their times together are longer than the run.
            let scope = if name == "Time" { " of all tests together" } else { "" };
            self.line(2, &format!("{}{scope}: {words}", name.to_lowercase()));
        }
        self.line(2, &summary::counts_and(&agent.tally(), "something else stopped them first"));
    }

    /// Why the agent could not be run.
    fn fault(&mut self, agent: &AgentRun) {
        if let Some(fault) = &agent.fault {
            self.line(2, &format!("could not be run: {fault}"));
        }
    }

    fn verdict(&mut self, results: &Results, agent: &AgentRun, before: &str) {
        let conformance = results.conformance(agent);
        let good =
            if conformance.standing() == RunStanding::Conformant { Verdict::Pass } else { Verdict::Fail };
        let start = self.text.len();
        self.line(before.chars().count(), &conformance.to_string());
        let told = self.text.split_off(start);
        let words = told.trim();
        let _ = writeln!(self.text, "{before}{}", self.paint(words, style(good).bold()));
    }

    fn entry(&mut self, entry: &Entry) {
        let word = format!("{:<5}", entry.verdict.as_str());
        let start = self.text.len();
        self.line(INDENT, &format!("{}  {}", entry.name, summary::one_line(&entry.words)));
        let told = self.text.split_off(start);
        let _ = write!(self.text, "  {} {}", self.paint(&word, style(entry.verdict)), told.trim_start());
        if let Some(seen) = &entry.seen {
            self.line(INDENT, seen);
        }
        if let Some(reason) = &entry.expected {
            self.line(INDENT, &format!("expected: {reason}"));
        }
    }

    fn warnings(&mut self, agent: &AgentRun) {
        let rows = agent.requirements.iter().filter(|row| row.state == RequirementState::Warned);
        let tests = agent.tests.iter().filter(|test| {
            test.claims.is_empty() && matches!(test.verdict, Verdict::Warn | Verdict::Partial)
        });
        let ids: Vec<&str> =
            rows.map(|row| row.id.as_str()).chain(tests.map(|test| test.id.as_str())).collect();
        if ids.is_empty() {
            return;
        }
        let more = if ids.len() > WARNINGS { ", …" } else { "" };
        let named = ids.iter().take(WARNINGS).copied().collect::<Vec<_>>().join(", ");
        let plural = if ids.len() == 1 { "" } else { "s" };
        self.line(2, &format!("{} warning{plural}: {named}{more}", ids.len()));
    }

    /// How to find out more about the first failure.
    fn hint(&mut self, results: &Results) {
        let failure = results
            .agents
            .iter()
            .flat_map(|agent| &agent.requirements)
            .find(|row| row.state == RequirementState::Broken && row.expected.is_none());
        if let Some(row) = failure {
            let test = row.evidence.iter().find_map(|evidence| evidence.test.as_deref());
            let again =
                test.map(|test| format!("; --test {test} --verbose shows it again")).unwrap_or_default();
            self.line(0, &format!("acp explain {} says what the protocol asks{again}", row.id));
        }
    }

    /// A line, continued under its indent where it would be wider than the screen.
    fn line(&mut self, indent: usize, words: &str) {
        let mut column = 0;
        for word in words.split(' ') {
            let wide = word.chars().count();
            if column > 0 && self.width.is_some_and(|width| column + 1 + wide > width) {
                self.text.push('\n');
                column = 0;
            }
            if column == 0 {
                self.text.extend(std::iter::repeat_n(' ', indent));
                column = indent;
            } else {
                self.text.push(' ');
                column += 1;
            }
            self.text.push_str(word);
            column += wide;
        }
        self.text.push('\n');
    }

    fn paint(&self, text: &str, style: Style) -> String {
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// Each broken requirement once, then the tests without claims that failed and what could not be run.
fn by_requirement(agent: &AgentRun) -> Vec<Entry> {
    // That no session could be opened is told once, above.
    let login = agent.header.as_ref().and_then(|header| header.blocked.as_ref());
    let login = login.filter(|_| summary::login(agent).is_some());
    let broken = agent.requirements.iter().filter(|row| row.state == RequirementState::Broken);
    let mut entries: Vec<Entry> = broken.map(|row| requirement(agent, row)).collect();
    let is_told = |test: &&TestOutcome| {
        // A test without claims, or of results that carry no requirements.
        let tells = |row: &RequirementResult| {
            row.state == RequirementState::Broken && test.claims.iter().any(|claim| claim.id.row() == row.id)
        };
        let alone = test.verdict == Verdict::Fail && !agent.requirements.iter().any(tells);
        let waits = test.blocked && (login.is_none() || test.reason.as_ref() != login);
        alone || test.verdict == Verdict::Error || waits
    };
    entries.extend(agent.tests.iter().filter(is_told).map(test));
    // What is expected goes last: it is known already.
    entries.sort_by_key(|entry| entry.expected.is_some());
    entries
}

/// Each test that did not pass, then the requirements that none of them tells of.
fn by_test(agent: &AgentRun) -> Vec<Entry> {
    let told: Vec<&TestOutcome> = agent
        .tests
        .iter()
        .filter(|test| !matches!(test.verdict, Verdict::Pass | Verdict::Na) || test.blocked)
        .collect();
    let rows = summary::untold(agent, &told).into_iter().map(|row| requirement(agent, row));
    let rows: Vec<Entry> = rows.collect();
    told.into_iter().map(test).chain(rows).collect()
}

fn test(test: &TestOutcome) -> Entry {
    Entry {
        verdict: test.verdict,
        name: test.id.clone(),
        words: test.reason.clone().unwrap_or_default(),
        seen: None,
        expected: test.expected.clone(),
    }
}

fn requirement(agent: &AgentRun, row: &RequirementResult) -> Entry {
    let is_broken = row.state == RequirementState::Broken;
    let first = row.evidence.iter().find_map(|evidence| evidence.test.clone());
    let also = agent.tests.iter().filter(|test| {
        let breaks = |claim: &acp_comply::verdict::ClaimResult| {
            claim.id.row() == row.id && claim.state == acp_comply::verdict::ClaimState::Broken
        };
        Some(&test.id) != first.as_ref() && test.claims.iter().any(breaks)
    });
    let seen = first.as_ref().map(|first| match also.count() {
        0 => format!("seen in {first}"),
        1 => format!("seen in {first} and 1 more test"),
        more => format!("seen in {first} and {more} more tests"),
    });
    // A test's own reason also says what the protocol asks.
    let whole = agent.tests.iter().filter(|test| test.verdict == Verdict::Fail).find_map(|test| {
        let reason = test.reason.as_ref()?;
        (Some(&test.id) == first.as_ref() && reason.contains(&format!("({}", row.id))).then(|| reason.clone())
    });
    let mut words = whole.or_else(|| row.reason.clone()).unwrap_or_default();
    // A line that is no frame shows by itself what is wrong.
    let is_noise = |line: &&str| !line.trim().is_empty() && !line.starts_with(['{', '[']);
    let mut lines =
        row.evidence.iter().flat_map(|evidence| &evidence.frames).map(|frame| frame.excerpt.as_str());
    if let Some(line) = lines.find(is_noise).filter(|line| !words.contains(line)) {
        let _ = write!(words, ": {line:?}");
    }
    let shown = agent.tests.iter().find(|test| Some(&test.id) == first.as_ref());
    let crash = shown.and_then(|test| crash(test.exit.as_ref()?, &words)).unwrap_or_default();
    Entry {
        verdict: if is_broken { Verdict::Fail } else { Verdict::Warn },
        name: row.id.clone(),
        words: crash + &words,
        seen,
        expected: row.expected.clone(),
    }
}

/// What an agent that ended by an error said last, where that is what a finding is about.
fn crash(exit: &ExitRecord, words: &str) -> Option<String> {
    let is_error = exit.signal.is_some() || exit.code.is_some_and(|code| code != 0);
    let last = exit.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    let is_meant = is_error && words.contains(&exit.to_string());
    is_meant.then(|| format!("the agent crashed: {last}; "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_told_by_the_last_line_of_its_error_output() {
        let stderr = "Traceback (most recent call last):\n  …\nKeyError: 'id'\n\n".to_owned();
        let exit = ExitRecord { code: Some(1), signal: None, stderr };
        let words = "the agent exited with code 1 before it answered session/prompt";
        assert_eq!(crash(&exit, words).as_deref(), Some("the agent crashed: KeyError: 'id'; "));
        assert_eq!(crash(&exit, "the file x is not there"), None);
        assert_eq!(crash(&ExitRecord { code: Some(0), ..exit }, "exited with code 0"), None);
    }
}
