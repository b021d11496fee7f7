//! The list of failures that are known, each with its reason.

use super::{Results, Verdict};
use acp_rules::registry;
use serde::{Deserialize, Serialize};

/// A list of known failures.
///
/// Text form, one per line: `test-id  reason`, or `agent:test-id  reason`; `#` begins a comment. In place of a test a
/// requirement may stand: it is then expected to be broken, whatever shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpectedFailures {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    agent: Option<String>,
    test: String,
    reason: String,
    line: usize,
}

/// An entry that no longer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stale {
    /// Line in the list.
    pub line: usize,
    /// The entry.
    pub entry: String,
    /// Why it is stale.
    pub why: String,
}

/// A list that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the list of expected failures, line {line}: {reason}")]
pub struct ExpectedError {
    /// Line in the list.
    pub line: usize,
    /// What is wrong.
    pub reason: &'static str,
}

impl ExpectedFailures {
    /// Reads a list.
    pub fn parse(text: &str) -> Result<ExpectedFailures, ExpectedError> {
        let mut entries: Vec<Entry> = Vec::new();
        for (index, raw) in text.lines().enumerate() {
            let line = index + 1;
            let content = raw.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let Some((name, reason)) = content.split_once(char::is_whitespace) else {
                return Err(ExpectedError { line, reason: "give a reason after the test's id" });
            };
            let (agent, test) = match name.rsplit_once(':') {
                Some((agent, test)) => (Some(agent.to_owned()), test.to_owned()),
                None => (None, name.to_owned()),
            };
            if entries.iter().any(|entry| entry.agent == agent && entry.test == test) {
                return Err(ExpectedError { line, reason: "this test is in the list already" });
            }
            entries.push(Entry { agent, test, reason: reason.trim().to_owned(), line });
        }
        Ok(ExpectedFailures { entries })
    }

    /// Marks the expected failures and notes the entries that no longer hold. Only tests that were run count: a
    /// filtered run makes no entry stale.
    pub fn apply(&self, results: &mut Results) {
        for entry in &self.entries {
            let (mut seen, mut failed) = (0, 0);
            for agent in &mut results.agents {
                if entry.agent.as_ref().is_some_and(|name| *name != agent.name) {
                    continue;
                }
                if registry().get(&entry.test).is_some() {
                    agent.expected.insert(entry.test.clone(), entry.reason.clone());
                    continue;
                }
                for test in agent.tests.iter_mut().filter(|test| test.id == entry.test) {
                    let judged = matches!(
                        test.verdict,
                        Verdict::Pass | Verdict::Fail | Verdict::Partial | Verdict::Warn
                    );
                    seen += usize::from(judged);
                    if matches!(test.verdict, Verdict::Fail | Verdict::Partial | Verdict::Warn) {
                        test.expected = Some(entry.reason.clone());
                        failed += 1;
                    }
                }
            }
            if seen > 0 && failed == 0 {
                let name = entry
                    .agent
                    .as_ref()
                    .map_or_else(|| entry.test.clone(), |agent| format!("{agent}:{}", entry.test));
                let why = "the test passes now; remove the entry".to_owned();
                results.stale.push(Stale { line: entry.line, entry: name, why });
            }
        }
    }

    /// Entries for tests that do not exist in the suite.
    pub fn unknown(&self, known: impl Fn(&str) -> bool) -> Vec<Stale> {
        let is_known = |id: &str| known(id) || registry().get(id).is_some();
        let gone = self.entries.iter().filter(|entry| !is_known(&entry.test));
        gone.map(|entry| Stale {
            line: entry.line,
            entry: entry.test.clone(),
            why: "there is no such test".to_owned(),
        })
        .collect()
    }
}
