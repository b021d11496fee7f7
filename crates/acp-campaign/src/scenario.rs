//! Scenarios: named sets of tests that a running agent is put through.
//!
//! Which there are, in which order, and what each shows stands in `suites/scenarios/scenarios.json`. A scenario's
//! tests are the files of its folder: in canonical form under `scenarios`, in a dialect's own words under
//! `scenarios-DIALECT`.

use acp_comply::{AgentRun, TestOutcome, TestSource, Verdict};
use serde::Deserialize;

use crate::suite::{self, SuiteError};

/// One scenario.
#[derive(Debug, Clone, Deserialize)]
pub struct Scenario {
    /// The name on the command line, the folder and the area of its tests.
    pub name: String,
    /// What it must show.
    pub shows: String,
    /// What the mock agent must be started with for it to apply.
    pub mock: Vec<String>,
}

/// What a scenario came to.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// The worst verdict of its tests; `NA` only when none of them could be judged.
    pub verdict: Verdict,
    /// Why, or what is worth knowing.
    pub reason: String,
}

/// The scenarios could not be chosen.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// No scenario has this name.
    #[error("there is no scenario {name:?}; there are {known}")]
    Unknown {
        /// As given.
        name: String,
        /// What there is.
        known: String,
    },
    /// The built-in list is broken.
    #[error("cannot read the list of scenarios: {0}")]
    List(String),
    /// The tests could not be gathered.
    #[error(transparent)]
    Suite(#[from] SuiteError),
}

/// All scenarios, in the order in which they run.
pub fn all() -> Result<Vec<Scenario>, ScenarioError> {
    let text = suite::embedded_text("scenarios/scenarios.json")
        .ok_or_else(|| ScenarioError::List("it is not part of this program".to_owned()))?;
    serde_json::from_str(text).map_err(|error| ScenarioError::List(error.to_string()))
}

/// The scenarios of these names, in the order given, each once; all when there are none.
pub fn choose(names: &[String]) -> Result<Vec<Scenario>, ScenarioError> {
    let known = all()?;
    if names.is_empty() {
        return Ok(known);
    }
    let find = |name: &String| {
        known.iter().find(|scenario| scenario.name == *name).cloned().ok_or_else(|| ScenarioError::Unknown {
            name: name.clone(),
            known: known.iter().map(|scenario| scenario.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    };
    let mut once = names.to_vec();
    let mut seen = std::collections::BTreeSet::new();
    once.retain(|name| seen.insert(name.clone()));
    once.iter().map(find).collect()
}

/// The test files of these scenarios. `dialect` names the form that the frames are written in, when the canonical one
/// is not wanted; `None` comes back when no scenario is written in it.
pub fn sources(
    scenarios: &[Scenario],
    dialect: Option<&str>,
) -> Result<Option<Vec<TestSource>>, ScenarioError> {
    let suite = dialect.map_or_else(|| "scenarios".to_owned(), |dialect| format!("scenarios-{dialect}"));
    if !suite::names().contains(&suite) {
        return Ok(None);
    }
    let files = suite::embedded(&suite)?;
    let mut found = Vec::new();
    for scenario in scenarios {
        let folder = format!("suites/{suite}/{}/", scenario.name);
        found.extend(files.iter().filter(|file| file.name.starts_with(&folder)).cloned());
    }
    Ok(Some(found))
}

/// What each scenario came to, in the order of the scenarios.
pub fn summarise(scenarios: &[Scenario], run: &AgentRun) -> Vec<Summary> {
    scenarios.iter().map(|scenario| summary(scenario, run)).collect()
}

fn summary(scenario: &Scenario, run: &AgentRun) -> Summary {
    const ORDER: [Verdict; 6] =
        [Verdict::Fail, Verdict::Error, Verdict::Partial, Verdict::Warn, Verdict::Pass, Verdict::Na];
    let tests: Vec<&TestOutcome> = run.tests.iter().filter(|test| test.area == scenario.name).collect();
    let verdict = ORDER.into_iter().find(|verdict| tests.iter().any(|test| test.verdict == *verdict));
    let Some(verdict) = verdict else {
        let reason = run.fault.clone().unwrap_or_else(|| "no test of this scenario was run".to_owned());
        return Summary { name: scenario.name.clone(), verdict: Verdict::Na, reason };
    };
    let mut reasons: Vec<String> = Vec::new();
    for test in &tests {
        let part = test.id.rsplit('.').next().unwrap_or(&test.id);
        let mut say = |words: &str, verdict: Verdict| {
            let words = if tests.len() == 1 || verdict == Verdict::Pass {
                words.to_owned()
            } else {
                format!("{part} {verdict}: {words}")
            };
            if !reasons.contains(&words) {
                reasons.push(words);
            }
        };
        match (&test.reason, test.verdict) {
            (Some(reason), verdict) => say(reason, verdict),
            (None, verdict) => test.notes.iter().for_each(|note| say(note, verdict)),
        }
    }
    Summary { name: scenario.name.clone(), verdict, reason: reasons.join("; ").replace(['\n', '\r'], " ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_tests_in_v1_and_in_delta_and_every_folder_is_a_scenario() {
        let scenarios = all().unwrap();
        for dialect in [None, Some("delta")] {
            let files = sources(&scenarios, dialect).unwrap().unwrap();
            for scenario in &scenarios {
                let own = |file: &&TestSource| file.name.contains(&format!("/{}/", scenario.name));
                assert!(files.iter().any(|file| own(&file)), "{} in {dialect:?}", scenario.name);
            }
            let suite = dialect.map_or("scenarios".to_owned(), |dialect| format!("scenarios-{dialect}"));
            assert_eq!(files.len(), suite::embedded(&suite).unwrap().len(), "a folder that is no scenario");
        }
        assert!(sources(&scenarios, Some("klingon")).unwrap().is_none());
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = choose(&["happy-pth".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("happy-pth") && error.contains("happy-path"), "{error}");
    }
}
