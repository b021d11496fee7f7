//! A run of tests against one client: many at once, in the order of their needs, then again by itself what rests on
//! something that did not come.

mod one;
mod rounds;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use acp_campaign::campaign::{Progress, ProgressListener};
use acp_campaign::{Driven, Watch};
use acp_comply::{AgentRun, Observation, Program, Side};
use serde_json::Value;
use tokio::sync::watch;

use crate::client::ClientUnderTest;
use crate::self_check::{self, header};
pub(crate) use one::examine;

/// How every test of a run is driven.
#[derive(Clone, Debug)]
pub struct ExamConditions {
    /// Multiplies every time.
    pub timeout_factor: f64,
    /// Keep the folders of tests here.
    pub keep: Option<PathBuf>,
}

/// What is to be run, and how.
#[derive(Clone)]
pub struct Exam {
    /// The tests, in the order of the report.
    pub programs: Vec<Arc<Program>>,
    /// All tests there are: those that show what the chosen ones need are run, too.
    pub all: Vec<Arc<Program>>,
    /// How each is driven.
    pub conditions: ExamConditions,
    /// How many run at once.
    pub jobs: usize,
    /// How often each is run.
    pub repeat: usize,
    /// Stop after the first required test that fails.
    pub fail_fast: bool,
    /// Shows frames as they pass.
    pub watch: Option<Watch>,
    /// Set to true from outside to stop.
    pub stop: watch::Receiver<bool>,
}

/// What is known of a client while tests run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// What it says of itself.
    pub introduction: Option<Value>,
    /// What it was seen to do.
    pub found: BTreeMap<String, Observation>,
    /// What it was not seen to do, with the reason.
    pub missing: BTreeMap<String, String>,
}

impl Exam {
    /// Runs every test against one client.
    pub async fn run(&self, client: &ClientUnderTest, listener: &ProgressListener) -> AgentRun {
        let mut run = AgentRun {
            side: Side::Client,
            version: client.driver.version().map(str::to_owned),
            ..AgentRun::new(client.name(), client.driver.describe())
        };
        listener(&Progress::Agent(client.name(), self.programs.len()));
        let checked = match self_check::check(client, &self.conditions).await {
            Ok(checked) => checked,
            Err(fault) => {
                run.fault = Some(fault);
                return run;
            }
        };
        run.header = checked.introduction.as_ref().map(header);
        if checked.fault.is_some() {
            run.fault = checked.fault;
            return run;
        }
        let mut conditions = self.conditions.clone();
        conditions.timeout_factor *= checked.factor;
        let known = Known { introduction: checked.introduction, ..Known::default() };
        let chosen: BTreeSet<&str> = self.programs.iter().map(|program| program.id.as_str()).collect();
        for driven in self.rounds(client, &conditions, known, listener).await {
            if chosen.contains(driven.outcome.id.as_str()) {
                take(&mut run, driven);
            }
        }
        run
    }

    /// The chosen tests and those that show what they need, each once.
    fn with_providers(&self) -> Vec<Arc<Program>> {
        let mut programs = self.programs.clone();
        let mut at = 0;
        while at < programs.len() {
            let needs = programs[at].needs.clone();
            for name in needs {
                let provides = |program: &Arc<Program>| program.provides().contains(&name);
                if !programs.iter().any(provides) {
                    programs.extend(self.all.iter().filter(|program| provides(program)).cloned());
                }
            }
            at += 1;
        }
        programs
    }
}

/// Adds a test to the client's part of the results; one finding outside the claims is kept per rule and requirement.
fn take(run: &mut AgentRun, driven: Driven) {
    for requirement in driven.exercised {
        *run.exercised.entry(requirement).or_default() += 1;
    }
    for finding in driven.others {
        let is_known = run.findings.iter().any(|known| {
            known.rule == finding.rule
                && known.requirement == finding.requirement
                && known.clause == finding.clause
        });
        if !is_known {
            run.findings.push(finding);
        }
    }
    run.tests.push(driven.outcome);
}
