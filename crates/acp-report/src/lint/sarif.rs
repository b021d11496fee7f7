//! Findings as SARIF 2.1.0.

use acp_rules::{Grade, RuleInfo, registry, rules};
use serde_json::{Value, json};

use super::read::{LintedTranscript, Shown};
use crate::sarif::{text, uri};

/// One run for all files.
pub(crate) fn render(judged: &[LintedTranscript]) -> String {
    let results: Vec<Value> =
        judged.iter().flat_map(|file| file.findings.iter().map(move |shown| result(file, shown))).collect();
    let notes: Vec<Value> = judged
        .iter()
        .flat_map(LintedTranscript::problem_lines)
        .map(|line| json!({"level": "error", "message": {"text": text(&line)}}))
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "acp lint",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules().iter().map(rule).collect::<Vec<_>>(),
            }},
            "invocations": [{
                "executionSuccessful": !judged.iter().any(LintedTranscript::unreadable),
                "toolExecutionNotifications": notes,
            }],
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

fn rule(info: &RuleInfo) -> Value {
    let ids: Vec<&str> = info.agent.iter().chain(info.client).copied().collect();
    json!({
        "id": info.name,
        "shortDescription": {"text": info.looks_for},
        "help": {"text": info.hint},
        "properties": {"requirements": ids},
    })
}

fn result(file: &LintedTranscript, shown: &Shown) -> Value {
    let finding = &shown.finding;
    let place = |line: usize| json!({"physicalLocation": {"artifactLocation": {"uri": uri(&file.name)}, "region": {"startLine": line.max(1)}}});
    let lines: Vec<usize> = shown.places.iter().map(|place| place.line).collect();
    let asked = registry().get(finding.requirement).map_or("", |row| row.text.as_str());
    let mut value = json!({
        "ruleId": finding.rule,
        "level": match finding.grade {
            Grade::Fail => "error",
            Grade::Warn => "warning",
            Grade::Note => "note",
        },
        "message": {"text": text(&format!("{} ({}: {asked})", finding.message, finding.requirement))},
        "locations": [place(lines.first().copied().unwrap_or(1))],
        "properties": {"requirement": finding.requirement, "clause": finding.clause, "blame": finding.blame, "hint": finding.hint},
    });
    if lines.len() > 1 {
        value["relatedLocations"] = lines[1..].iter().map(|line| place(*line)).collect();
    }
    value
}
