//! What an agent could be made to do, as a table for people.

use acp_comply::results::Calibrated;
use std::fmt::Write;

/// The table of one agent: what it did and what brought that about, then what it did not do and why.
pub fn calibration(agent: &str, found: &Calibrated) -> String {
    let mut text = format!("{agent}: first answer after {:.0} ms", found.first_answer_ms);
    match found.exits_at_eof {
        Some(true) => text.push_str("; exits when its input ends"),
        Some(false) => text.push_str("; goes on when its input ends"),
        None => {}
    }
    text.push('\n');
    let width = found.found.keys().chain(found.missing.keys()).map(String::len).max().unwrap_or(0);
    for (name, seen) in &found.found {
        let how = seen.wording.as_deref().or(seen.how.as_deref()).unwrap_or_default();
        let _ = writeln!(text, "  yes  {name:<width$}  {how}");
    }
    for (name, reason) in &found.missing {
        let _ = writeln!(text, "  no   {name:<width$}  {reason}");
    }
    text
}

/// The same as a section of a Markdown report.
pub(crate) fn section(found: &Calibrated) -> String {
    let mut text =
        "### What this agent could be made to do\n\n| behaviour | seen | how, or why not |\n|---|---|---|\n"
            .to_owned();
    let cell = |words: &str| words.replace('|', "\\|").replace('\n', " ");
    for (name, seen) in &found.found {
        let how = seen.wording.as_deref().or(seen.how.as_deref()).unwrap_or_default();
        let _ = writeln!(text, "| {name} | yes | {} |", cell(how));
    }
    for (name, reason) in &found.missing {
        let _ = writeln!(text, "| {name} | no | {} |", cell(reason));
    }
    text.push('\n');
    text
}
