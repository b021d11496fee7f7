//! What changed between two runs.

use std::collections::BTreeMap;
use std::fmt::Write;

use acp_comply::{Results, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::summary;

/// The difference of two results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// Verdicts that changed.
    pub changed: Vec<VerdictChange>,
    /// Tests that only the newer run has, as `agent test`.
    pub added: Vec<String>,
    /// Tests that only the older run has, as `agent test`.
    pub removed: Vec<String>,
    /// Declared capabilities that changed, as `agent: path old → new`.
    pub capabilities: Vec<String>,
}

/// A verdict that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerdictChange {
    /// The agent.
    pub agent: String,
    /// The test.
    pub test: String,
    /// What it was.
    pub old: Verdict,
    /// What it is.
    pub new: Verdict,
    /// Why, in the newer run.
    pub reason: Option<String>,
}

impl VerdictChange {
    /// Whether the newer verdict is the worse one.
    pub fn is_worse(&self) -> bool {
        self.new.badness() > self.old.badness()
    }
}

impl Diff {
    /// Compares two runs, agent by agent and test by test.
    pub fn between(old: &Results, new: &Results) -> Diff {
        let (before, after) = (index(old), index(new));
        let mut diff = Diff {
            changed: Vec::new(),
            added: Vec::new(),
            removed: Vec::new(),
            capabilities: capabilities(old, new),
        };
        for ((agent, test), (verdict, reason)) in &after {
            match before.get(&(agent.clone(), test.clone())) {
                None => diff.added.push(format!("{agent} {test}")),
                Some((old, _)) if old != verdict => diff.changed.push(VerdictChange {
                    agent: agent.clone(),
                    test: test.clone(),
                    old: *old,
                    new: *verdict,
                    reason: reason.clone(),
                }),
                Some(_) => {}
            }
        }
        let gone = before.keys().filter(|key| !after.contains_key(*key));
        diff.removed.extend(gone.map(|(agent, test)| format!("{agent} {test}")));
        diff
    }

    /// Whether a verdict got worse.
    pub fn has_regressions(&self) -> bool {
        self.changed.iter().any(VerdictChange::is_worse)
    }

    /// The difference for people.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let width =
            self.changed.iter().map(|change| change.agent.len() + change.test.len() + 1).max().unwrap_or(0);
        for change in &self.changed {
            let mark = if change.is_worse() { "worse " } else { "better" };
            let name = acp_text::line(&format!("{} {}", change.agent, change.test));
            let reason = change.reason.as_deref().map(acp_text::line);
            let reason = reason.map(|reason| format!("  {reason}")).unwrap_or_default();
            let _ = writeln!(out, "{mark}  {name:<width$}  {} → {}{reason}", change.old, change.new);
        }
        for (title, list) in
            [("new test", &self.added), ("gone test", &self.removed), ("capability", &self.capabilities)]
        {
            for entry in list {
                let _ = writeln!(out, "{title}  {}", acp_text::line(entry));
            }
        }
        if out.is_empty() {
            out.push_str("no difference\n");
        }
        out
    }
}

type Index = BTreeMap<(String, String), (Verdict, Option<String>)>;

fn index(results: &Results) -> Index {
    let mut found = Index::new();
    for agent in &results.agents {
        for test in &agent.tests {
            found.insert((agent.name.clone(), test.id.clone()), (test.verdict, test.reason.clone()));
        }
    }
    found
}

fn capabilities(old: &Results, new: &Results) -> Vec<String> {
    let declared = |results: &Results| -> BTreeMap<(String, String), bool> {
        let mut found = BTreeMap::new();
        for agent in &results.agents {
            let capabilities =
                agent.header.as_ref().map_or(&Value::Null, |header| &header.agent_capabilities);
            for (path, on) in summary::declared(capabilities) {
                found.insert((agent.name.clone(), path), on);
            }
        }
        found
    };
    let (before, after) = (declared(old), declared(new));
    let mut keys: Vec<&(String, String)> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let word = |state: Option<&bool>| state.map_or("absent", |on| if *on { "true" } else { "false" });
    keys.into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| format!("{}: {} {} → {}", key.0, key.1, word(before.get(key)), word(after.get(key))))
        .collect()
}
