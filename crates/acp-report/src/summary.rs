//! What several formats say about an agent: its capabilities, modes and counts in one line each.

use acp_comply::verdict::ClaimState;
use acp_comply::{
    AgentRun, RequirementResult, RequirementState, Results, TestOutcome, UnmetSeverity, Verdict,
    VerdictCounts,
};
use serde_json::Value;

pub(crate) const METHODOLOGY: &str = "Methodology: Initialized each agent, then ran every test in a fresh process and a fresh sandbox. \
Expectations use regex subset matching over server responses, notifications and Agent→Client requests; \
a judge checked every frame of every conversation against the protocol's requirements. \
MCP tests handed a local stdio MCP server to the agent.";

pub(crate) const INTERRUPTED: &str = "The run was interrupted: this is what was known by then.";

pub(crate) fn title(agent: &AgentRun) -> String {
    let info = agent.header.as_ref().and_then(|header| header.agent_info.as_ref());
    let text = |key: &str| info.and_then(|info| info.get(key)).and_then(Value::as_str);
    match (text("title").or_else(|| text("name")), text("version")) {
        (Some(name), Some(version)) => format!("{name} {version}"),
        (Some(name), None) => name.to_owned(),
        _ => "says neither name nor version".to_owned(),
    }
}

/// The seed form's Caps line: what our client offered, and what the agent declared.
pub(crate) fn caps(agent: &AgentRun) -> String {
    let Some(header) = &agent.header else { return "unknown".to_owned() };
    let offered = |pointer: &str| header.client_capabilities.pointer(pointer) == Some(&Value::Bool(true));
    let mut line = format!(
        "fs(read:{}, write:{}), terminal:{}",
        offered("/fs/readTextFile"),
        offered("/fs/writeTextFile"),
        offered("/terminal")
    );
    for (name, on) in declared(&header.agent_capabilities) {
        line.push_str(&format!("; {name}:{on}"));
    }
    line
}

/// The agent's declared capabilities as paths; an object that marks presence counts as true.
pub(crate) fn declared(capabilities: &Value) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    walk("", capabilities, &mut found);
    found
}

fn walk(prefix: &str, value: &Value, found: &mut Vec<(String, bool)>) {
    match value {
        Value::Bool(on) => found.push((prefix.to_owned(), *on)),
        Value::Object(members) if members.is_empty() && !prefix.is_empty() => {
            found.push((prefix.to_owned(), true));
        }
        Value::Object(members) => {
            for (key, member) in members.iter().filter(|(key, _)| *key != "_meta") {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                walk(&path, member, found);
            }
        }
        _ => {}
    }
}

/// Which version was run, in which isolation, and whose time it took; what is known of it.
pub(crate) fn place(agent: &AgentRun) -> Vec<(&'static str, String)> {
    let cost = agent.cost.and_then(|cost| Some((cost, cost.share()?))).map(|(cost, share)| {
        format!(
            "{} waiting for the agent, {} of the runner's own work ({share:.1} %), {} of delays and time-outs",
            millis(cost.agent_ms),
            millis(cost.runner_ms),
            millis(cost.waits_ms)
        )
    });
    let lines = [
        ("Version", agent.version.clone()),
        ("Isolation", agent.isolation.as_ref().map(acp_comply::results::Isolation::words)),
        ("Time", cost),
    ];
    lines.into_iter().filter_map(|(name, words)| Some((name, words?))).collect()
}

pub(crate) fn modes(agent: &AgentRun) -> String {
    match agent.header.as_ref().and_then(|header| header.modes.as_ref()) {
        Some(modes) if !modes.is_empty() => modes.join("/"),
        _ => "not advertised".to_owned(),
    }
}

pub(crate) fn counts(tally: &VerdictCounts) -> String {
    counts_and(tally, "the environment was in the way")
}

/// Why no session could be opened and what to do about it, for an agent that demands a login.
pub(crate) fn login(agent: &AgentRun) -> Option<String> {
    let header = agent.header.as_ref()?;
    let why = header.blocked.as_deref().map(one_line)?;
    let methods = match header.auth_methods.as_slice() {
        [] => return None,
        [method] => format!("log in with --auth {method}"),
        methods => format!("log in with --auth METHOD; the agent offers {}", methods.join(", ")),
    };
    Some(format!("no session could be opened ({why}): {methods}"))
}

/// The counts, with `blocked` as the reason why tests were not judged.
pub(crate) fn counts_and(tally: &VerdictCounts, blocked: &str) -> String {
    let mut parts = Vec::new();
    let mut part = |count: usize, word: &str| {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    };
    part(tally.pass, "PASS");
    part(tally.fail, "FAIL");
    part(tally.warn, "WARN");
    part(tally.partial, "PARTIAL");
    part(tally.na, "NA");
    part(tally.error, "ERROR");
    let mut line = if parts.is_empty() { "no test was run".to_owned() } else { parts.join(", ") };
    if tally.vacuous > 0 {
        line.push_str(&format!(" ({} of the passes vacuous)", tally.vacuous));
    }
    if tally.blocked > 0 {
        line.push_str(&format!(" ({} not judged: {blocked})", tally.blocked));
    }
    line
}

/// The requirements that did not hold, the failures first; those that a test in `told` already speaks of are left out.
pub(crate) fn untold<'a>(agent: &'a AgentRun, told: &[&TestOutcome]) -> Vec<&'a RequirementResult> {
    let is_told = |row: &RequirementResult| {
        told.iter()
            .flat_map(|test| &test.claims)
            .any(|claim| claim.state == ClaimState::Broken && claim.id.row() == row.id)
    };
    let bad = |row: &&RequirementResult| {
        matches!(row.state, RequirementState::Broken | RequirementState::Warned) && !is_told(row)
    };
    let mut rows: Vec<&RequirementResult> = agent.requirements.iter().filter(bad).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.state));
    rows
}

/// A failure that does not fail the run: a test without claims that is not required, or one that is expected.
pub(crate) fn is_forgiven(test: &TestOutcome) -> bool {
    test.expected.is_some() || (test.claims.is_empty() && test.severity != UnmetSeverity::Required)
}

/// What an interrupted run left out of this agent's tests, in words.
pub(crate) fn interrupted(results: &Results, agent: &AgentRun) -> Option<String> {
    let planned = results.suite.files.saturating_sub(results.suite.filtered);
    let run = agent.tests.len();
    (results.interrupted && run < planned).then(|| format!("interrupted: {run} of {planned} tests were run"))
}

/// The text on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// The last part of a documentation link, for short lists of links.
pub(crate) fn link_name(url: &str) -> String {
    let tail = url.rsplit('/').next().unwrap_or(url);
    let (page, anchor) = tail.split_once('#').unwrap_or((tail, ""));
    let words = if anchor.is_empty() { page } else { anchor };
    let mut name = String::new();
    for (n, word) in words.split('-').filter(|word| !word.is_empty()).enumerate() {
        if n > 0 {
            name.push(' ');
        }
        let mut letters = word.chars();
        if let Some(first) = letters.next() {
            name.extend(first.to_uppercase());
            name.push_str(letters.as_str());
        }
    }
    if name.is_empty() { url.to_owned() } else { name }
}

/// The verdict that stands for several tests: the worst that was judged.
pub(crate) fn worst<'a>(tests: impl IntoIterator<Item = &'a TestOutcome>) -> Option<Verdict> {
    const ORDER: [Verdict; 6] =
        [Verdict::Error, Verdict::Fail, Verdict::Partial, Verdict::Warn, Verdict::Pass, Verdict::Na];
    let found: Vec<Verdict> = tests.into_iter().map(|test| test.verdict).collect();
    ORDER.into_iter().find(|verdict| found.contains(verdict))
}

/// The word for a severity in prose.
pub(crate) fn severity(severity: UnmetSeverity) -> &'static str {
    severity.as_str()
}

/// Milliseconds, short.
pub(crate) fn millis(ms: f64) -> String {
    if ms >= 1000.0 { format!("{:.1} s", ms / 1000.0) } else { format!("{ms:.0} ms") }
}
