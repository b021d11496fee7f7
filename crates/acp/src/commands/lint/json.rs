//! Findings for programs.

use std::io::Write;

use serde_json::{Value, json};

use super::read::{Judged, Shown};

/// Writes one document for all files.
pub(super) fn write(
    out: &mut impl Write,
    judged: &[Judged],
    stats: bool,
    coverage: bool,
) -> anyhow::Result<()> {
    let files: Vec<Value> = judged.iter().map(|file| one(file, stats, coverage)).collect();
    let document =
        json!({"format": "acp-lint/1", "schemaVersion": acp_rules::SCHEMA_VERSION, "files": files});
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)?;
    Ok(())
}

fn one(file: &Judged, stats: bool, coverage: bool) -> Value {
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
    if stats {
        value["stats"] = file.stats.to_json();
    }
    if coverage {
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
