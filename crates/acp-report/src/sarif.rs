//! SARIF 2.1.0, for code hosts and editors: one result per broken requirement, and per failed test that claims none.

use std::collections::BTreeMap;

use acp_comply::{AgentRun, RequirementResult, RequirementState, Results, TestOutcome, Verdict};
use serde_json::{Value, json};

use crate::summary;

pub(crate) fn render(results: &Results) -> Result<String, serde_json::Error> {
    let found: Vec<Found> = results.agents.iter().flat_map(found_in).collect();
    let mut rules: BTreeMap<&str, Value> = BTreeMap::new();
    for one in &found {
        rules.entry(one.rule).or_insert_with(|| rule(one));
    }
    let faults: Vec<Value> = results.agents.iter().filter_map(fault).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "acp comply",
                "version": results.tool.version,
                "rules": rules.into_values().collect::<Vec<_>>(),
            }},
            "invocations": [{
                "executionSuccessful": faults.is_empty() && !results.interrupted,
                "toolExecutionNotifications": faults,
            }],
            "results": found.iter().map(result).collect::<Vec<_>>(),
        }],
    });
    let mut text = serde_json::to_string_pretty(&log)?;
    text.push('\n');
    Ok(text)
}

/// Something that the agent did wrong.
struct Found<'a> {
    agent: &'a str,
    /// The requirement, or the test that claims none.
    rule: &'a str,
    level: &'static str,
    reason: &'a str,
    /// Why it is expected, if it is.
    expected: Option<&'a str>,
    /// The test that shows it, unless only the judge saw it.
    test: Option<&'a TestOutcome>,
}

fn found_in(agent: &AgentRun) -> Vec<Found<'_>> {
    let requirements = agent.requirements.iter().filter_map(|one| requirement(agent, one));
    let plain =
        agent.tests.iter().filter(|test| test.claims.is_empty()).filter_map(|test| plain(agent, test));
    requirements.chain(plain).collect()
}

fn requirement<'a>(agent: &'a AgentRun, one: &'a RequirementResult) -> Option<Found<'a>> {
    let level = match one.state {
        RequirementState::Broken => "error",
        RequirementState::Warned => "warning",
        RequirementState::Noted => "note",
        RequirementState::NotReached | RequirementState::Inconclusive | RequirementState::Held => {
            return None;
        }
    };
    let shown_by = one.evidence.iter().find_map(|evidence| evidence.test.as_deref());
    Some(Found {
        agent: &agent.name,
        rule: &one.id,
        level,
        reason: one.reason.as_deref().unwrap_or("broken"),
        expected: one.expected.as_deref(),
        test: agent.tests.iter().find(|test| Some(test.id.as_str()) == shown_by),
    })
}

fn plain<'a>(agent: &'a AgentRun, test: &'a TestOutcome) -> Option<Found<'a>> {
    let level = match test.verdict {
        Verdict::Fail if summary::is_forgiven(test) && test.expected.is_none() => "warning",
        Verdict::Fail | Verdict::Error => "error",
        Verdict::Warn | Verdict::Partial => "warning",
        Verdict::Pass | Verdict::Na => return None,
    };
    Some(Found {
        agent: &agent.name,
        rule: &test.id,
        level,
        reason: test.reason.as_deref().unwrap_or(&test.title),
        expected: test.expected.as_deref(),
        test: Some(test),
    })
}

fn rule(one: &Found) -> Value {
    let mut rule = json!({"id": one.rule});
    if let Some(test) = one.test {
        rule["shortDescription"] = json!({"text": test.title});
        if let Some(link) = test.docs.first() {
            rule["helpUri"] = json!(link);
        }
    }
    rule
}

fn result(one: &Found) -> Value {
    let line =
        one.test.and_then(|test| test.difference.as_ref()).map_or(1, |difference| difference.line.max(1));
    let file = one.test.map_or("acp", |test| test.file.as_str());
    let mut result = json!({
        "ruleId": one.rule,
        "level": one.level,
        "message": {"text": text(&format!("{}: {}", one.agent, one.reason))},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri(file)}, "region": {"startLine": line}}}],
        "partialFingerprints": {"acp/v1": format!("{}:{}", one.agent, one.rule)},
    });
    if let Some(test) = one.test {
        result["properties"] = json!({"test": test.id, "area": test.area});
    }
    if let Some(reason) = one.expected {
        result["suppressions"] = json!([{"kind": "external", "justification": reason}]);
    }
    result
}

fn fault(agent: &AgentRun) -> Option<Value> {
    let fault = agent.fault.as_ref()?;
    Some(json!({"level": "error", "message": {"text": text(&format!("{}: {fault}", agent.name))}}))
}

/// A message's text as it is: viewers take `[words](place)` for a link unless the brackets are escaped.
pub fn text(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for letter in words.chars() {
        if matches!(letter, '[' | ']' | '\\') {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// A path as a URI reference.
pub fn uri(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}
