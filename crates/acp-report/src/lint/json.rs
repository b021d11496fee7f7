//! Findings for programs.

use serde_json::{Value, json};

use super::LintSections;
use super::read::{LintedTranscript, Shown};

/// One document for all files.
pub(crate) fn render(judged: &[LintedTranscript], sections: LintSections) -> String {
    let files: Vec<Value> = judged.iter().map(|file| one(file, sections)).collect();
    format!(
        "{:#}
",
        json!({"format": "acp-lint/1", "schemaVersion": acp_rules::SCHEMA_VERSION, "files": files})
    )
}

fn one(file: &LintedTranscript, sections: LintSections) -> Value {
    let problems: Vec<Value> = file
        .problems
        .iter()
        .map(|p| json!({"line": p.line, "message": p.message, "unreadable": p.fatal}))
        .collect();
    let more: Vec<Value> = file
        .not_kept
        .iter()
        .map(|(rule, side, count)| json!({"rule": rule, "blame": side, "count": count}))
        .collect();
    let mut value = json!({
        "file": file.name,
        "frames": file.frames,
        "protocolVersion": file.version,
        "errors": file.all_errors(),
        "warnings": file.warnings,
        "notes": file.notes,
        "problems": problems,
        "findings": file.findings.iter().map(finding).collect::<Vec<_>>(),
        "notKept": more,
    });
    if sections.stats {
        value["stats"] = file.stats.to_json();
    }
    if sections.coverage {
        value["coverage"] = json!(file.coverage.rows);
    }
    value
}

fn finding(shown: &Shown) -> Value {
    let mut value = json!(shown.finding);
    if let Some(evidence) = value["evidence"].as_array_mut() {
        for (one, place) in evidence.iter_mut().zip(&shown.places) {
            one["line"] = place.line.into();
        }
    }
    value
}
