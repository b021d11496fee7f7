//! The JSON that badge services read (`schemaVersion` 1).

use acp_comply::{Conformance, Results};
use serde_json::json;

pub(crate) fn render(results: &Results) -> Result<String, serde_json::Error> {
    let worst = results
        .agents
        .iter()
        .map(|agent| results.conformance(agent))
        .max_by_key(|conformance| (conformance.standing(), badness(conformance)));
    let (message, colour) = match &worst {
        None => ("INCOMPLETE".to_owned(), "lightgrey"),
        Some(worst) => (worst.short(), colour(worst)),
    };
    let badge = json!({ "schemaVersion": 1, "label": "ACP v1", "message": message, "color": colour });
    let mut text = serde_json::to_string_pretty(&badge)?;
    text.push('\n');
    Ok(text)
}

fn colour(conformance: &Conformance) -> &'static str {
    match conformance {
        Conformance::Conformant => "brightgreen",
        Conformance::ConformantExcept { .. } => "green",
        Conformance::Incomplete { .. } => "yellow",
        Conformance::NotConformant { .. } => "red",
    }
}

fn badness(conformance: &Conformance) -> usize {
    match conformance {
        Conformance::Conformant => 0,
        Conformance::ConformantExcept { expected, optional } => expected + optional,
        Conformance::Incomplete { requirements, reasons } => requirements.len() + reasons.len(),
        Conformance::NotConformant { requirements, tests } => requirements.len() + tests.len(),
    }
}
