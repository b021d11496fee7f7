//! Drives one test: the interpreter of `acp-comply` against a real connection.
//!
//! A silent agent is waited for once: what the probe found goes into the interpreter's setup, which ends a test where
//! its own introduction would stand.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_comply::results::Cost;
use acp_comply::{
    FindingRef, Observation, Program, Run, RunAction, RunEvent, Setup, Table, TestOutcome, Wordings,
};
use acp_model::Hints;
use serde_json::Value;

use crate::calibrate::Calibration;
use crate::cell::Cell;
use crate::evidence::file_name;
use crate::forms;
use crate::mind::{Mind, ModelSetupError};
use crate::stub::{self, HttpStub};
use crate::target::{Target, Way};
use crate::test_run::{Place, TestRun};
use crate::wire::{AtEof, Parting};

/// How long an installed agent must be silent after a new session before its test goes on.
const SETTLE: Duration = Duration::from_millis(500);

/// How much longer silence is waited for when a test is run again by itself.
const LONGER_QUIET: u32 = 4;

/// How every test of a run is driven.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// The program that supervises agents, and holds the process guard of what they run through us (`acp` itself); without it
    /// descendants are killed by process group only.
    pub supervisor: Option<PathBuf>,
    /// Line limit and queue bounds.
    pub wire: acp_link::LinkSettings,
    /// Multiplies every timeout.
    pub timeout_factor: f64,
    /// Give an expectation up before its time-out when everything is answered and the agent has been silent for so
    /// long.
    pub patience: Option<Duration>,
    /// How long an agent may take to end after its test, before it is told to, and again before it is killed.
    pub grace: Duration,
    /// The method to authenticate with.
    pub auth_method: Option<String>,
    /// The stub MCP server's program; without it, tests that hand it to the agent do not apply.
    pub mcp_stub: Option<PathBuf>,
    /// Keep sandboxes and transcripts here.
    pub keep: Option<PathBuf>,
    /// The wordings of the wishes that prompts name, the preferred one first.
    pub wordings: Wordings,
    /// A test is run again by itself because something did not come: silence is waited for longer.
    pub is_second_run: bool,
}

/// What the probe of an agent learnt, for the tests that follow.
#[derive(Debug, Clone, Default)]
pub struct Probed {
    /// The agent's answer to the introduction.
    pub introduction: Option<Value>,
    /// The agent's answer to the session request.
    pub session: Option<Value>,
    /// Why no session can be opened, when the agent lacks the method.
    pub without_sessions: Option<String>,
    /// What it does when its input ends.
    pub at_eof: Option<AtEof>,
    /// From its start to its first line.
    pub first_answer: Duration,
    /// What it can be brought to do.
    pub calibration: Calibration,
}

impl Probed {
    /// The same with what calibration found.
    #[must_use]
    pub(crate) fn with(mut self, calibration: Calibration) -> Probed {
        self.calibration = calibration;
        self
    }

    /// Takes what conversations showed although calibration had missed it, and says what that is.
    pub(crate) fn regain(&mut self, shown: &BTreeSet<String>) -> BTreeSet<String> {
        let missed: BTreeSet<String> =
            shown.iter().filter(|name| self.calibration.missing.contains_key(*name)).cloned().collect();
        for name in &missed {
            self.calibration.missing.remove(name);
            let how = Some("seen in a test, though not in calibration".to_owned());
            self.calibration.found.insert(name.clone(), Observation { how, ..Observation::default() });
        }
        missed
    }
}

/// What a test came to.
#[derive(Debug)]
pub struct Driven {
    /// The verdict and its evidence.
    pub outcome: TestOutcome,
    /// Findings on requirements that the test does not claim.
    pub others: Vec<FindingRef>,
    /// Requirements that the conversation put to the test.
    pub exercised: BTreeSet<String>,
    /// The agent's answer to the introduction.
    pub introduction: Option<Value>,
    /// The agent's answer to the session request.
    pub session: Option<Value>,
    /// What the agent said, for a probe.
    pub messages: Vec<Value>,
    /// The error with which the agent answered a request of the runner's own.
    pub refusal: Option<Value>,
    /// The agent was there and did not answer the introduction.
    pub unheard: bool,
    /// A response came only after the agent's input had ended.
    pub answered_at_end: bool,
    /// The agent could not be reached at all.
    pub unreachable: Option<String>,
    /// From the test's start to the agent's first line.
    pub first_answer: Option<Duration>,
    /// What the agent did when its input ended, where that was seen.
    pub at_eof: Option<AtEof>,
    /// Whose time it took.
    pub cost: Cost,
}

/// What is shown while a test runs: direction and raw line.
pub type Watch = Arc<dyn Fn(&str, &str, &[u8]) + Send + Sync>;

/// Runs one test against one target and leaves nothing of it behind.
pub async fn drive(
    program: &Arc<Program>,
    target: &Target,
    conditions: &Conditions,
    probe: Option<&Probed>,
    watch: Option<&Watch>,
) -> Driven {
    let began = Instant::now();
    let name = format!("{}.{}", file_name(&target.name), program.id);
    let cell = match Cell::make(&name, conditions.keep.as_deref()) {
        Ok(cell) => cell,
        Err(error) => return Driven::fault(program, format!("cannot make a sandbox: {error}")),
    };
    if let Err(error) = cell.fill(&program.sandbox) {
        return Driven::fault(program, format!("cannot write the sandbox's files: {error}"));
    }
    let mut setup = setup(program, &cell, target, conditions, probe);
    if let Some(dialect) = &program.dialect {
        let Some(table) = Table::of_dialect(dialect) else {
            return Driven::fault(
                program,
                format!("the test is written in {dialect:?}, which is no known dialect"),
            );
        };
        setup.table = table;
    }
    let inapplicable = || inapplicable(program, target, conditions, &setup);
    if let Some(driven) = hindered(program, &setup).or_else(inapplicable) {
        return driven;
    }
    let http = match HttpStub::start(program, &cell, conditions).await {
        Ok(http) => http,
        Err(error) => return Driven::fault(program, error.to_string()),
    };
    if let Some(http) = &http {
        setup.variables.set("mcpHttp", http.url.as_str());
    }
    let mind = match mind(program, target, &cell).await {
        Ok(mind) => mind,
        Err(error) => return Driven::fault(program, error.to_string()),
    };
    let model = mind.as_ref().map(Mind::url);
    if let Some(url) = &model {
        setup.variables.set("modelUrl", url.as_str());
    }
    let supervisor = conditions.supervisor.as_deref();
    let start = match target.prepare(&cell, supervisor, &conditions.wire, model.as_deref()).await {
        Ok(start) => start,
        Err(error) => {
            let reason = error.to_string();
            return Driven { unreachable: Some(reason.clone()), ..Driven::fault(program, reason) };
        }
    };
    let before = cell.outside();
    let parting = Parting::new(conditions.grace, probe.and_then(|probed| probed.at_eof));
    let place = Place { cell: &cell, target, conditions, start: &start, parting };
    let mut test = TestRun::new(program, setup, &place, mind, watch.cloned());
    if let Err(error) = test.open().await {
        let mut driven = Driven::fault(program, error.to_string());
        driven.unreachable = Some(error.to_string());
        return driven;
    }
    let outcome = test.run().await;
    let mut driven = test.conclude(outcome, &before).await;
    let all = began.elapsed().as_secs_f64() * 1000.0;
    driven.cost.runner_ms = (all - driven.cost.agent_ms - driven.cost.waits_ms).max(0.0);
    driven
}

/// A test does not apply whose words the target's form of the protocol lacks, or whose MCP server we lack.
fn inapplicable(
    program: &Arc<Program>,
    target: &Target,
    conditions: &Conditions,
    setup: &Setup,
) -> Option<Driven> {
    let reason = forms::lacks(target.dialect, program).or_else(|| stub::lacks(conditions, program))?;
    let mut run = Run::new(Arc::clone(program), setup.clone());
    run.handle(Duration::ZERO, RunEvent::NotApplicable(reason));
    ended(program, run)
}

/// A test that is known not to apply needs no agent.
fn hindered(program: &Arc<Program>, setup: &Setup) -> Option<Driven> {
    let mut run = Run::new(Arc::clone(program), setup.clone());
    if run.is_hindered() { ended(program, run) } else { None }
}

/// What came of a test that was over before it began.
fn ended(program: &Arc<Program>, mut run: Run) -> Option<Driven> {
    let outcome = std::iter::from_fn(|| run.poll()).find_map(|action| match action {
        RunAction::Done(outcome) => Some(*outcome),
        _ => None,
    })?;
    Some(Driven { outcome, ..Driven::fault(program, String::new()) })
}

async fn mind(program: &Program, target: &Target, cell: &Cell) -> Result<Option<Mind>, ModelSetupError> {
    if !target.has_model() {
        return Ok(None);
    }
    let hints = match &target.way {
        Way::Real(real) => Hints::from(&real.profile),
        _ => Hints::default(),
    };
    Mind::start(program, cell, hints).await.map(Some)
}

fn setup(
    program: &Program,
    cell: &Cell,
    target: &Target,
    conditions: &Conditions,
    probe: Option<&Probed>,
) -> Setup {
    let mut setup = Setup::new(cell.sandbox.to_string_lossy());
    setup.variables.set("home", cell.home.to_string_lossy().as_ref());
    setup.variables.set("mcpLog", cell.mcp_log.to_string_lossy().as_ref());
    if let Some(stub) = &conditions.mcp_stub {
        setup.variables.set("mcpStub", stub.to_string_lossy().as_ref());
    }
    setup.timeout_factor = conditions.timeout_factor;
    setup.patience = conditions.patience;
    setup.auth_method.clone_from(&conditions.auth_method);
    setup.wordings.clone_from(&conditions.wordings);
    setup.restartable = target.is_ours();
    setup.reconnectable = target.takes_connections();
    if let Some(probed) = probe {
        setup.introduction.clone_from(&probed.introduction);
        setup.session.clone_from(&probed.session);
        setup.without_sessions.clone_from(&probed.without_sessions);
        let calibration = &probed.calibration;
        setup.found.clone_from(&calibration.found);
        setup.missing.clone_from(&calibration.missing);
        // Tests without claims keep their own time-outs to the letter.
        if program.is_claimed() {
            setup.timeout_factor *= calibration.timeout_factor();
            let quiet = calibration.quiet() * if conditions.is_second_run { LONGER_QUIET } else { 1 };
            setup.quiet = quiet;
        }
    }
    if let Way::Real(real) = &target.way {
        setup.after_session.clone_from(&real.profile.setup);
        setup.settle = Some(SETTLE);
        if setup.auth_method.is_none() {
            setup.auth_method.clone_from(&real.profile.auth);
        }
    }
    setup
}

impl Driven {
    /// A test that could not be run, through no fault of the agent's.
    pub fn fault(program: &Arc<Program>, reason: String) -> Driven {
        Driven {
            outcome: TestOutcome::fault(program, reason),
            others: Vec::new(),
            exercised: BTreeSet::new(),
            introduction: None,
            session: None,
            messages: Vec::new(),
            refusal: None,
            unheard: false,
            answered_at_end: false,
            unreachable: None,
            first_answer: None,
            at_eof: None,
            cost: Cost::default(),
        }
    }
}
