//! Test Anything Protocol, version 14.

use std::fmt::Write;

use acp_comply::{Results, RunStanding, TestOutcome, Verdict};

use crate::summary;

pub(crate) fn render(results: &Results) -> String {
    let total: usize = results.agents.iter().map(|agent| agent.tests.len() + 1).sum();
    let mut out = format!("TAP version 14\n1..{total}\n");
    let mut number = 0;
    for agent in &results.agents {
        for test in &agent.tests {
            number += 1;
            write_test(&mut out, number, &agent.name, test);
        }
        number += 1;
        let conformance = results.conformance(agent);
        let word = if conformance.standing() == RunStanding::Conformant { "ok" } else { "not ok" };
        let words = escape(&conformance.to_string());
        let _ = writeln!(out, "{word} {number} - {} conformance: {words}", agent.name);
        if let Some(fault) = &agent.fault {
            let _ = writeln!(out, "  ---\n  reason: {}\n  ...", quoted(fault));
        }
    }
    if results.interrupted {
        out.push_str("Bail out! interrupted\n");
    }
    out
}

fn write_test(out: &mut String, number: usize, agent: &str, test: &TestOutcome) {
    let bad = matches!(test.verdict, Verdict::Fail | Verdict::Error | Verdict::Warn | Verdict::Partial);
    let directive = match test.verdict {
        Verdict::Na => format!(" # SKIP {}", one_line(test.reason.as_deref().unwrap_or("not applicable"))),
        _ if bad && test.expected.is_some() => {
            format!(" # TODO {}", one_line(test.expected.as_deref().unwrap_or_default()))
        }
        Verdict::Warn if !test.claims.is_empty() => " # TODO warning".to_owned(),
        Verdict::Warn | Verdict::Partial => format!(" # TODO {}", test.severity.as_str()),
        Verdict::Fail if summary::is_forgiven(test) => " # TODO optional".to_owned(),
        _ => String::new(),
    };
    let word = if bad { "not ok" } else { "ok" };
    let _ = writeln!(out, "{word} {number} - {agent} {}: {}{directive}", test.id, escape(&test.title));
    if bad {
        out.push_str("  ---\n");
        let _ = writeln!(out, "  verdict: {}", test.verdict);
        let _ = writeln!(out, "  severity: {}", test.severity.as_str());
        let _ = writeln!(out, "  reason: {}", quoted(test.reason.as_deref().unwrap_or_default()));
        out.push_str("  ...\n");
    }
}

fn escape(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('#', "\\#")
}

fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
