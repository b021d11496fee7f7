//! The JSON that badge services read (`schemaVersion` 1).

use acp_comply::{Outcome, Results, Severity, Verdict};
use serde_json::json;

pub(crate) fn render(results: &Results) -> Result<String, serde_json::Error> {
    let required = || {
        results
            .agents
            .iter()
            .flat_map(|agent| &agent.tests)
            .filter(|test| test.severity == Severity::Required)
    };
    let judged = required().filter(|test| test.verdict != Verdict::Na).count();
    let held = required().filter(|test| test.verdict == Verdict::Pass).count();
    let interrupted = results.interrupted;
    let faulty = results.agents.iter().any(|agent| agent.fault.is_some());
    let broken = faulty || judged == 0;
    let failed = required().any(Outcome::fails_run);
    let unjudged = interrupted || required().any(|test| test.blocked || test.verdict == Verdict::Error);
    let (message, colour) = match (broken, failed, unjudged) {
        (true, ..) if interrupted && !faulty => ("incomplete".to_owned(), "yellow"),
        (true, ..) => ("not run".to_owned(), "lightgrey"),
        (_, true, _) if interrupted => (format!("{held}/{judged} required, incomplete"), "red"),
        (_, true, _) => (format!("{held}/{judged} required"), "red"),
        (_, _, true) => (format!("{held}/{judged} required, incomplete"), "yellow"),
        _ => (format!("{held}/{judged} required"), "brightgreen"),
    };
    let badge = json!({ "schemaVersion": 1, "label": "ACP v1", "message": message, "color": colour });
    let mut text = serde_json::to_string_pretty(&badge)?;
    text.push('\n');
    Ok(text)
}
