//! The list of failures that are known, each with its reason.

use super::{AgentRun, Results, TestOutcome, Verdict};
use crate::program::UnmetSeverity;
use crate::verdict::{ClaimState, RequirementResult, RequirementState};
use acp_rules::{Grade, registry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A list of known failures.
///
/// Text form, one per line: `test-id  reason`, or `agent:test-id  reason`; `#` begins a comment. In place of a test a
/// requirement may stand: it is then expected to be broken, whatever shows it. An entry whose reason begins with
/// `sometimes` is never stale.
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
pub struct StaleExpectation {
    /// Line in the list.
    pub line: usize,
    /// The entry.
    pub entry: String,
    /// Why it is stale.
    pub why: String,
}

/// A list that cannot be read: every line that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the list of expected failures: {}", .0.iter().map(|(line, why)| format!("line {line}: {why}"))
    .collect::<Vec<_>>().join("; "))]
pub struct ExpectedError(pub Vec<(usize, &'static str)>);

impl ExpectedFailures {
    /// Reads a list.
    pub fn parse(text: &str) -> Result<ExpectedFailures, ExpectedError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut wrong = Vec::new();
        for (index, raw) in text.lines().enumerate() {
            let line = index + 1;
            let content = raw.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let Some((name, reason)) = content.split_once(char::is_whitespace) else {
                wrong.push((line, "give a reason after the id of the test or requirement"));
                continue;
            };
            let (agent, test) = match name.rsplit_once(':') {
                Some((agent, test)) => (Some(agent.to_owned()), test.to_owned()),
                None => (None, name.to_owned()),
            };
            if entries.iter().any(|entry| entry.agent == agent && entry.test == test) {
                wrong.push((line, "this id is in the list already"));
                continue;
            }
            entries.push(Entry { agent, test, reason: reason.trim().to_owned(), line });
        }
        if wrong.is_empty() { Ok(ExpectedFailures { entries }) } else { Err(ExpectedError(wrong)) }
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
            if seen > 0 && failed == 0 && !entry.is_occasional() {
                let why = "the test passes now; remove the entry".to_owned();
                results.stale.push(StaleExpectation { line: entry.line, entry: entry.name(), why });
            }
        }
    }

    /// Marks the tests whose broken requirements are all in the list, and notes the requirements of the list that were reached and
    /// are no longer broken. Call it when the run is concluded.
    /// A filtered run makes no entry stale.
    pub fn settle(&self, results: &mut Results) {
        for agent in &mut results.agents {
            let known = &agent.expected;
            agent.tests.iter_mut().for_each(|test| mark_by_requirements(test, known));
        }
        if results.suite.filtered > 0 || results.interrupted {
            return;
        }
        for entry in self.entries.iter().filter(|entry| registry().get(&entry.test).is_some()) {
            let is_meant = |agent: &&AgentRun| entry.agent.as_ref().is_none_or(|name| *name == agent.name);
            let states: Vec<RequirementState> = results
                .agents
                .iter()
                .filter(is_meant)
                .flat_map(|agent| &agent.requirements)
                .filter(|row| row.id == entry.test)
                .map(|row| row.state)
                .collect();
            let is_reached = states
                .iter()
                .any(|state| !matches!(state, RequirementState::NotReached | RequirementState::Inconclusive));
            if is_reached && !states.contains(&RequirementState::Broken) && !entry.is_occasional() {
                let why = "the requirement holds now; remove the entry".to_owned();
                results.stale.push(StaleExpectation { line: entry.line, entry: entry.name(), why });
            }
        }
    }

    /// Writes the list that expects what a concluded run found: each broken requirement with what the agent did, and each
    /// required test without requirements that failed.
    pub fn of_run(results: &Results) -> String {
        let mut text = String::new();
        for agent in &results.agents {
            let version = agent.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
            let _ = writeln!(text, "# Known failures of {}{version}", agent.name);
            let rows = agent.requirements.iter().filter(|row| row.state == RequirementState::Broken);
            let rows = rows.map(|row| (row.id.as_str(), row.reason.as_deref(), seen_in(row)));
            let tests = agent
                .tests
                .iter()
                .filter(|test| test.claims.is_empty() && test.severity == UnmetSeverity::Required)
                .filter(|test| test.verdict == Verdict::Fail);
            let tests = tests.map(|test| (test.id.as_str(), test.reason.as_deref(), String::new()));
            let entries: Vec<_> = rows.chain(tests).collect();
            let width = entries.iter().map(|(id, ..)| agent.name.len() + 1 + id.len()).max().unwrap_or(0);
            for (id, reason, seen) in entries {
                let name = format!("{}:{id}", agent.name);
                let reason =
                    reason.unwrap_or("it is broken").split_whitespace().collect::<Vec<_>>().join(" ");
                let _ = writeln!(text, "{name:<width$}  {reason}{seen}");
            }
        }
        text
    }

    /// Entries that are neither one of these tests nor a requirement.
    pub fn unknown(&self, tests: &[&str]) -> Vec<StaleExpectation> {
        let is_known = |id: &str| tests.contains(&id) || registry().get(id).is_some();
        let ids = || registry().all().iter().map(|row| row.id.as_str()).chain(tests.iter().copied());
        let gone = self.entries.iter().filter(|entry| !is_known(&entry.test));
        gone.map(|entry| StaleExpectation {
            line: entry.line,
            entry: entry.test.clone(),
            why: format!(
                "there is no test and no requirement of this name{}",
                crate::did_you_mean(&entry.test, ids())
            ),
        })
        .collect()
    }
}

impl Entry {
    /// What an agent does in some runs only is no news when it does not.
    fn is_occasional(&self) -> bool {
        self.reason.starts_with("sometimes")
    }

    fn name(&self) -> String {
        match &self.agent {
            Some(agent) => format!("{agent}:{}", self.test),
            None => self.test.clone(),
        }
    }
}

/// A test whose broken requirements are all expected fails as expected.
fn mark_by_requirements(test: &mut TestOutcome, known: &BTreeMap<String, String>) {
    if test.expected.is_some() || test.verdict != Verdict::Fail {
        return;
    }
    let mut broken = test
        .claims
        .iter()
        .filter(|claim| claim.state == ClaimState::Broken && claim.grade == Grade::Fail)
        .map(|claim| known.get(claim.id.row()));
    if let Some(Some(reason)) = broken.next()
        && broken.all(|reason| reason.is_some())
    {
        test.expected = Some(reason.clone());
    }
}

/// The first test that shows a broken requirement.
fn seen_in(row: &RequirementResult) -> String {
    let test = row.evidence.iter().find_map(|evidence| evidence.test.as_deref());
    test.map(|test| format!(" (seen in {test})")).unwrap_or_default()
}
