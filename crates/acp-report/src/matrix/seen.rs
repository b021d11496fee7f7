//! What one cell of the matrix says, and what it rests on.

use std::collections::BTreeSet;

use acp_comply::{AgentRun, FindingRef, TestOutcome, Verdict};
use serde_json::Value;

use super::{CapabilityState, CellEvidence, Declared, MatrixCell, MatrixRow};
use crate::summary;

/// How much of a frame an excerpt shows.
const EXCERPT: usize = 160;

/// One agent and one capability, from every run of the agent.
pub(super) fn cell(row: &MatrixRow, runs: &[&AgentRun]) -> MatrixCell {
    let declared = declared(row, runs);
    let reached = reached(row, runs);
    if reached.is_empty() {
        let words = format!("not reached: no run went over {}", row.transport.join(" or "));
        return MatrixCell { seen: CapabilityState::Unreached, declared, words, evidence: Vec::new() };
    }
    let tests: Vec<&TestOutcome> =
        reached.iter().flat_map(|run| &run.tests).filter(|test| is_about(row, test)).collect();
    let (good, bad) = sorted(row, &tests);
    let says = declared.as_ref().map(|declared| declared.yes);
    let (seen, words, shown) = without_success(row, &reached, says, &good, &bad)
        .or_else(|| with_success(row, &reached, says, &good))
        .unwrap_or_else(|| untried(&reached, says, &tests));
    let words = [Some(words), said(row, &shown, &tests)].into_iter().flatten().collect::<Vec<_>>().join("; ");
    MatrixCell {
        seen,
        declared,
        words,
        evidence: shown.into_iter().map(|test| evidence(row, test, seen)).collect(),
    }
}

/// What a cell says, in short and in words, and the tests that show it.
type Shown<'t> = (CapabilityState, String, Vec<&'t TestOutcome>);

fn is_one_of(globs: &[String], test: &TestOutcome) -> bool {
    globs.iter().any(|glob| fits(glob, &test.id))
}

fn is_about(row: &MatrixRow, test: &TestOutcome) -> bool {
    is_one_of(&row.tests, test) || is_one_of(&row.witnesses, test)
}

/// The runs over a transport of the row. What an agent does on a port speaks for the port; it speaks for the rest
/// only if there is nothing else.
fn reached<'r>(row: &MatrixRow, runs: &[&'r AgentRun]) -> Vec<&'r AgentRun> {
    let is_address = |run: &AgentRun| run.target.contains("://");
    let only_addresses =
        !runs.iter().any(|run| !is_address(run) && run.tests.iter().any(|test| is_about(row, test)));
    let is_reached = |run: &AgentRun| {
        let any = row.transport.is_empty() && (only_addresses || !is_address(run));
        any || row.transport.iter().any(|start| run.target.starts_with(start))
    };
    runs.iter().copied().filter(|run| is_reached(run)).collect()
}

/// The tests that show that the capability works, and those that show that it does not.
fn sorted<'t>(row: &MatrixRow, tests: &[&'t TestOutcome]) -> (Vec<&'t TestOutcome>, Vec<&'t TestOutcome>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for &test in tests {
        if let Some(list) = row.journal.as_deref().filter(|_| !test.model.is_empty()) {
            let told = test.verdict == Verdict::Pass || !in_journal(test, list).is_empty();
            (if told { &mut good } else { &mut bad }).push(test);
            continue;
        }
        match test.verdict {
            Verdict::Pass if !test.vacuous => good.push(test),
            Verdict::Fail | Verdict::Partial
                if is_one_of(&row.witnesses, test) && telling(row, test).is_some() =>
            {
                good.push(test);
            }
            Verdict::Fail | Verdict::Partial => bad.push(test),
            _ => {}
        }
    }
    (good, bad)
}

/// The cell of a capability that failed: its listener did not start, or a test of it does not hold.
fn without_success<'t>(
    row: &MatrixRow,
    reached: &[&'t AgentRun],
    says: Option<bool>,
    good: &[&'t TestOutcome],
    bad: &[&'t TestOutcome],
) -> Option<Shown<'t>> {
    let is_transport = !row.transport.is_empty();
    if is_transport && good.is_empty() {
        // Started to listen, and it did not: that is an answer. An address that does not answer is none.
        let mut isolated = reached.iter().filter(|run| run.isolation.is_some());
        if let Some(fault) = isolated.find_map(|run| run.fault.as_deref()) {
            let words = format!("not supported: {}", summary::one_line(fault));
            return Some((CapabilityState::Unsupported, words, Vec::new()));
        }
    }
    let first = bad.first().filter(|_| !is_transport || good.is_empty())?;
    let held = format!("{} of {} tests hold", good.len(), good.len() + bad.len());
    let (seen, words) = match (good.is_empty(), says == Some(true)) {
        (true, true) => (CapabilityState::Wrong, format!("declared, but it does not work: {held}")),
        // what should have reached the model did not
        (true, false) if row.journal.is_some() => {
            (CapabilityState::Unsupported, format!("not supported: {held}"))
        }
        _ => (CapabilityState::Wrong, format!("wrong: {held}")),
    };
    Some((seen, words, vec![first]))
}

/// The cell of a capability that works, unless the judge found a requirement of it broken.
fn with_success<'t>(
    row: &MatrixRow,
    reached: &[&'t AgentRun],
    says: Option<bool>,
    good: &[&'t TestOutcome],
) -> Option<Shown<'t>> {
    if let Some((test, found)) = breach(row, reached, good) {
        return Some((CapabilityState::Wrong, format!("works, but {found}"), vec![test]));
    }
    let first = good.first()?;
    let undeclared = if says == Some(false) { ", though not declared" } else { "" };
    let words = if row.transport.is_empty() {
        format!("works{undeclared}: shown by {}", tests_in_words(good.len()))
    } else {
        format!("works{undeclared}: conversations over {}", row.transport.join(" or "))
    };
    Some((CapabilityState::Right, words, vec![first]))
}

/// The cell of a capability that no test tried.
fn untried<'t>(reached: &[&'t AgentRun], says: Option<bool>, tests: &[&'t TestOutcome]) -> Shown<'t> {
    if says == Some(false) {
        return (
            CapabilityState::Unsupported,
            "not declared, and not tried for that reason".to_owned(),
            Vec::new(),
        );
    }
    if let Some(test) = tests.iter().find(|test| test.verdict == Verdict::Na && !test.blocked) {
        let why = test.reason.as_deref().unwrap_or("it does not apply");
        return (
            CapabilityState::Unsupported,
            format!("not supported: {}", summary::one_line(why)),
            vec![*test],
        );
    }
    let rest = tests.first().copied();
    let why = reached
        .iter()
        .find_map(|run| run.fault.as_deref())
        .or_else(|| rest.and_then(|test| test.reason.as_deref()))
        .unwrap_or("no test of it was run");
    (
        CapabilityState::Unreached,
        format!("not reached: {}", summary::one_line(why)),
        rest.into_iter().collect(),
    )
}

/// The first requirement of the row that the judge found broken in a test that holds.
fn breach<'t>(
    row: &MatrixRow,
    runs: &[&AgentRun],
    good: &[&'t TestOutcome],
) -> Option<(&'t TestOutcome, String)> {
    good.iter().find_map(|test| {
        let outside = runs.iter().flat_map(|run| &run.findings);
        let outside = outside.filter(|finding| finding.test.as_deref() == Some(test.id.as_str()));
        let is_of_row = |finding: &&FindingRef| row.requirements.contains(&finding.requirement);
        let mut found = test.findings.iter().chain(outside).filter(is_of_row);
        let found = found.find(|finding| finding.fails_agent())?;
        Some((*test, format!("{}: {}", found.requirement, summary::one_line(&found.message))))
    })
}

/// What a cell adds to its sentence: values of the telling frame, what the tests noted, what reached the model.
fn said(row: &MatrixRow, shown: &[&TestOutcome], tests: &[&TestOutcome]) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    if let (Some(path), Some(test)) = (&row.show, shown.first()) {
        let frame = telling(row, test).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let found = frame.map(|frame| values(&frame, path)).unwrap_or_default();
        parts.extend((!found.is_empty()).then(|| found.join(", ")));
    }
    if row.notes {
        let noted = tests.iter().flat_map(|test| &test.notes).filter(|note| note.contains(": "));
        parts.extend(noted.cloned());
    }
    if let Some(list) = &row.journal {
        let told: BTreeSet<String> = tests.iter().flat_map(|test| in_journal(test, list)).collect();
        let words = if told.is_empty() {
            "nothing of it reached the model".to_owned()
        } else {
            format!("reached the model: {}", told.into_iter().collect::<Vec<_>>().join(", "))
        };
        parts.extend(tests.iter().any(|test| !test.model.is_empty()).then_some(words));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The values at a path, `*` being every element of a list.
fn values(value: &Value, path: &str) -> Vec<String> {
    let Some((key, rest)) = path.split_once('.').or((!path.is_empty()).then_some((path, ""))) else {
        return vec![value.as_str().map_or_else(|| value.to_string(), str::to_owned)];
    };
    match (key, value) {
        ("*", Value::Array(items)) => items.iter().flat_map(|item| values(item, rest)).collect(),
        _ => value.get(key).map(|below| values(below, rest)).unwrap_or_default(),
    }
}

/// What stands in a list of the model's journal, in any request of the test.
fn in_journal(test: &TestOutcome, list: &str) -> BTreeSet<String> {
    let lists = test.model.iter().filter_map(|entry| entry.get(list)?.as_array());
    let calls = test.model.iter().filter_map(|entry| entry.pointer("/decision/calls")?.as_array());
    // A tool that the model called for an MCP server was one of its tools, whatever its name.
    let called = calls
        .flatten()
        .filter(|call| list == "mcpTools" && call["intent"] == "mcp")
        .map(|call| &call["tool"]);
    lists.flatten().chain(called).filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// What the agent says about the capability in its answer to the introduction.
fn declared(row: &MatrixRow, runs: &[&AgentRun]) -> Option<Declared> {
    let introduction = runs.iter().find_map(|run| run.header.as_ref()).map(|header| &header.introduction)?;
    let first = row.declared.first()?;
    let find = |path: &str| path.split('.').try_fold(introduction, |value, key| value.get(key));
    let found = row.declared.iter().find_map(|path| find(path).map(|value| (path, value)));
    Some(match found {
        Some((path, value)) => Declared {
            path: path.clone(),
            value: Some(value.to_string()),
            yes: matches!(value, Value::Bool(true) | Value::Object(_)),
        },
        None => Declared { path: first.clone(), value: None, yes: false },
    })
}

fn tests_in_words(count: usize) -> String {
    if count == 1 { "one test".to_owned() } else { format!("{count} tests") }
}

/// The frame of the agent that shows the capability.
fn telling<'t>(row: &MatrixRow, test: &'t TestOutcome) -> Option<&'t str> {
    row.look.iter().find_map(|look| {
        let (wants_result, look) =
            look.strip_prefix("result:").map_or((false, look.as_str()), |rest| (true, rest));
        heard(test).find(|text| text.contains(look) && (!wants_result || text.contains("\"result\"")))
    })
}

fn heard(test: &TestOutcome) -> impl DoubleEndedIterator<Item = &str> {
    test.transcript
        .iter()
        .filter(|line| line.dir == acp_proto::Direction::AgentToClient)
        .map(|line| line.text.as_str())
}

fn evidence(row: &MatrixRow, test: &TestOutcome, seen: CapabilityState) -> CellEvidence {
    let closest = test.difference.as_ref().and_then(|difference| difference.closest.as_deref());
    let excerpt = match seen {
        CapabilityState::Right => telling(row, test),
        _ => closest.or_else(|| heard(test).next_back()),
    };
    CellEvidence {
        test: test.id.clone(),
        verdict: test.verdict,
        reason: test.reason.as_deref().map(summary::one_line),
        excerpt: excerpt.map(|text| shorten(&summary::one_line(text))),
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= EXCERPT {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(EXCERPT).collect();
    short.push('…');
    short
}

/// Whether a glob with `*` fits the whole text.
fn fits(glob: &str, text: &str) -> bool {
    match glob.split_once('*') {
        None => glob == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| fits(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_fit_the_whole_id() {
        assert!(fits("*", "anything") && fits("a.*", "a.b") && fits("a.*.c", "a.b.c") && fits("a", "a"));
        assert!(!fits("a", "ab") && !fits("a.*", "b.a.c") && !fits("*.c", "a.cd"));
    }

    #[test]
    fn values_are_found_below_lists() {
        let frame =
            serde_json::json!({"params": {"options": [{"kind": "allow_once"}, {"kind": "reject_once"}, {}]}});
        assert_eq!(values(&frame, "params.options.*.kind"), ["allow_once", "reject_once"]);
        assert!(values(&frame, "params.nothing.*").is_empty());
    }
}
