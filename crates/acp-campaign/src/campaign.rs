//! A run: every target, every test, many at once.

use std::sync::Arc;
use std::time::Duration;

use acp_comply::results::{Isolation, Outside};
use acp_comply::verdict::TestEnding;
use acp_comply::{AgentRun, Defaults, FindingRef, Header, Program, Table, TestOutcome};
use acp_link::token;
use acp_proto::error_code;
use futures_util::future::LocalBoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use crate::calibrate::Calibration;
use crate::canary::Canary;
use crate::drive::{Conditions, Driven, Probed, Watch, drive};
use crate::network;
use crate::pace::Pace;
use crate::round::Round;
use crate::target::{Target, Way};

/// The probe of an agent, written as a test: introduce, open a session, listen for a moment.
const PROBE: &str = r#"{
  "title": "Probe",
  "description": "Learns what the report's header says about the agent.",
  "severity": "advice",
  "docs": [],
  "sandbox": { "files": [] },
  "steps": [{ "newSession": {} }, { "delayMs": 60 }]
}"#;

/// What to check in an agent that says nothing.
pub const SILENT: &str = "does it flush standard output after each line (in Python: print(…, flush=True)), \
    and is a flag such as --acp missing?";
/// What is wrong with an agent that holds its answers back.
const HELD_BACK: &str = "it answered only when its input ended: flush standard output after each line (in Python: \
    print(…, flush=True))";

/// An agent that answers within this time of its start is light: its tests mostly wait.
const LIGHT: Duration = Duration::from_millis(100);

/// What is to be run and how.
#[derive(Clone)]
pub struct Campaign {
    /// The tests, in the order of the report.
    pub programs: Vec<Arc<Program>>,
    /// How each is driven.
    pub conditions: Conditions,
    /// Tests that find out what an agent can be brought to do, before the others run.
    pub calibration: Vec<Arc<Program>>,
    /// How many tests run at once.
    pub jobs: usize,
    /// How many run at once when the agent costs the machine little.
    pub light_jobs: usize,
    /// How often each test is run.
    pub repeat: usize,
    /// Stop after the first required test that fails.
    pub fail_fast: bool,
    /// Shows frames as they pass.
    pub watch: Option<Watch>,
    /// Set to true from outside to stop: running tests are dropped with their agents, no further one starts.
    pub stop: watch::Receiver<bool>,
}

/// What happens during a run.
#[derive(Debug)]
pub enum Progress<'a> {
    /// An agent's turn begins; so many tests.
    Agent(&'a str, usize),
    /// What the agent can be brought to do is found out; so many probes.
    Calibrating(&'a str, usize),
    /// Something about the agent that its user should know before the tests end.
    Noticed(&'a str, &'a str),
    /// A test begins.
    Began(&'a str, &'a Program),
    /// A test ended. If its outcome needs a second run, `Settled` follows after that.
    Ended(&'a str, &'a TestOutcome),
    /// A test was run again by itself, because something had not come in time.
    Settled(&'a str, &'a TestOutcome),
}

/// Called for everything that happens during a run, from any thread.
pub type ProgressListener = Arc<dyn Fn(&Progress<'_>) + Send + Sync>;

impl Campaign {
    /// Runs every test against one target.
    pub fn run<'a>(
        &'a self,
        target: &'a Target,
        listener: &'a ProgressListener,
    ) -> LocalBoxFuture<'a, AgentRun> {
        Box::pin(async move {
            let mut run = AgentRun {
                version: target.version.clone(),
                ..AgentRun::new(&target.name, target.describe())
            };
            let outside = network::is_loopback_only().filter(|only| *only).and_then(|_| network::outside());
            let (probe, notice) = self.probe(target, &mut run).await;
            listener(&Progress::Agent(&target.name, self.programs.len()));
            if let Some(words) = &notice {
                listener(&Progress::Noticed(&target.name, words));
            }
            if run.fault.is_some() {
                // One paragraph says it all; the same for every test would say no more.
                run.isolation = isolation(target, outside);
                return run;
            }
            let canary = self.canary();
            let is_light = probe.introduction.is_some() && probe.first_answer <= LIGHT;
            let jobs = if is_light { self.light_jobs } else { self.jobs };
            let pace = Pace::new(jobs, canary.clone());
            let calibration = self.calibrate(target, &probe, &pace, listener).await;
            let mut round =
                Round { campaign: self, target, probe: probe.with(calibration), pace, canary, listener };
            let mut driven = round.first().await;
            round.out_of_reach_again(&mut driven).await;
            round.absences_again(&mut driven).await;
            for mut driven in driven.into_iter().map(|(_, driven)| driven) {
                driven.outcome.notes.extend(notice.clone());
                take(&mut run, driven);
            }
            run.calibration = Some(round.probe.calibration.record(round.probe.at_eof));
            run.isolation = isolation(target, outside);
            run
        })
    }

    /// A witness of how busy the machine is, while tests run.
    fn canary(&self) -> Option<Canary> {
        self.conditions.supervisor.as_deref().and_then(Canary::start)
    }

    /// The dialect that all tests are written in, when it is one and not the canonical form.
    fn dialect(&self) -> Option<&str> {
        let first = self.programs.first()?.dialect.as_deref()?;
        self.programs.iter().all(|program| program.dialect.as_deref() == Some(first)).then_some(first)
    }

    /// Learns the agent's header, and what its user should know when it gave none. An agent that cannot be reached is the
    /// run's fault; one that answers badly is not.
    async fn probe(&self, target: &Target, run: &mut AgentRun) -> (Probed, Option<String>) {
        let table = self.dialect().and_then(Table::of_dialect).unwrap_or_else(Table::v1);
        run.dialect = self.dialect().map(str::to_owned);
        if run.dialect.is_none() && !target.dialect.is_canonical() {
            run.dialect = Some(target.dialect.as_str().to_owned());
        }
        let driven = match self.drive_probe(target).await {
            Ok(Some(driven)) => driven,
            Ok(None) => return (Probed::default(), None),
            Err(fault) => {
                run.fault = Some(with_hint(fault, target));
                return (Probed::default(), None);
            }
        };
        let Some(introduction) = driven.introduction else {
            if let Some(refusal) = driven.refusal.as_ref().and_then(token_refusal) {
                run.fault = Some(refusal);
                return (Probed::default(), None);
            }
            let reason = driven.outcome.reason.unwrap_or_default();
            if driven.unheard {
                let silence = match driven.outcome.notes.first() {
                    _ if driven.answered_at_end => HELD_BACK.to_owned(),
                    Some(said) => format!("{said}; is a flag such as --acp missing?"),
                    None => format!("it said nothing; {SILENT}"),
                };
                run.fault = Some(with_hint(format!("{reason}; {silence}"), target));
                return (Probed::default(), None);
            }
            let ending = driven.outcome.evidence.map(|evidence| evidence.ending);
            if matches!(ending, Some(TestEnding::Gone(_))) {
                let said = driven.outcome.exit.map(|exit| exit.stderr.trim().to_owned()).unwrap_or_default();
                let said = if said.is_empty() { said } else { format!("; its error output:\n{said}") };
                run.fault = Some(with_hint(format!("{reason}{said}"), target));
                return (Probed::default(), None);
            }
            return (Probed::default(), target.hint().map(|hint| format!("{reason}; {hint}")));
        };
        let offered = &Defaults::default().client_capabilities;
        let mut header =
            Header::new(&table, offered, &introduction, driven.session.as_ref(), driven.messages.iter());
        header.blocked = driven.outcome.reason.clone().filter(|_| driven.session.is_none());
        run.header = Some(header);
        let probed = Probed {
            introduction: Some(introduction),
            without_sessions: driven.refusal.as_ref().and_then(lacks_sessions),
            session: driven.session,
            at_eof: driven.at_eof,
            first_answer: driven.first_answer.unwrap_or_default(),
            calibration: Calibration::default(),
        };
        (probed, None)
    }

    /// What the probe learnt, and why the agent cannot be run.
    pub(crate) async fn probe_alone(&self, target: &Target) -> (Probed, Option<String>) {
        let mut run = AgentRun::new(target.name.clone(), target.describe());
        let (probe, notice) = self.probe(target, &mut run).await;
        (probe, run.fault.or(notice))
    }

    /// The agent's answers to the introduction and to the session request, as far as it gave them.
    pub(crate) async fn introduce(&self, target: &Target) -> Probed {
        let driven = self.drive_probe(target).await.ok().flatten();
        driven.map_or_else(Probed::default, |driven| Probed {
            introduction: driven.introduction,
            session: driven.session,
            at_eof: driven.at_eof,
            first_answer: driven.first_answer.unwrap_or_default(),
            ..Probed::default()
        })
    }

    /// Runs the probe; nothing comes of it when the run is stopped before it is over.
    async fn drive_probe(&self, target: &Target) -> Result<Option<Driven>, String> {
        let reading = Program::read("probe.jsont", PROBE, &Defaults::default());
        let mut program = reading.program.ok_or("the built-in probe cannot be read")?;
        program.dialect = self.dialect().map(str::to_owned);
        let program = Arc::new(program);
        let mut stop = self.stop.clone();
        let driven = tokio::select! {
            biased;
            Ok(_) = stop.wait_for(|stop| *stop) => return Ok(None),
            driven = drive(&program, target, &self.conditions, None, None) => driven,
        };
        match driven.unreachable {
            Some(fault) => Err(fault),
            None => Ok(Some(driven)),
        }
    }
}

/// Why no test can open a session, when the agent does not have the method.
fn lacks_sessions(error: &Value) -> Option<String> {
    let is_missing = error["code"].as_i64() == Some(error_code::METHOD_NOT_FOUND);
    is_missing.then(|| {
        format!("the agent answers {} with {}", Table::v1().session.method, error_code::METHOD_NOT_FOUND)
    })
}

/// Why we were not let in, when it is for lack of the right token: that says nothing about the agent.
fn token_refusal(error: &Value) -> Option<String> {
    if !token::is_wanted(error.get("data")) {
        return None;
    }
    let words = error["message"].as_str().unwrap_or_default().split(": ").next().unwrap_or_default();
    Some(format!("the connection was refused: {}; {}", acp_text::line(words), token::HINT))
}

fn with_hint(words: String, target: &Target) -> String {
    match target.hint() {
        Some(hint) => format!("{words}; {hint}"),
        None => words,
    }
}

/// What an agent of ours was kept apart from; `before` are the network's counters before it ran, where they tell
/// something.
fn isolation(target: &Target, before: Option<Outside>) -> Option<Isolation> {
    if !target.is_ours() {
        return None;
    }
    let user = match &target.way {
        Way::Real(real) => real.user().map(|user| user.to_string()),
        _ => None,
    };
    Some(Isolation {
        own: ["home", "temporary folder", "process group"].map(str::to_owned).to_vec(),
        loopback_only: before.is_some(),
        user,
        outside: before.and_then(|before| Some(network::outside()?.since(before))),
    })
}

/// Adds a test to the agent's part of the results; one finding outside the claims is kept per rule and requirement.
fn take(run: &mut AgentRun, driven: Driven) {
    for requirement in driven.exercised {
        *run.exercised.entry(requirement).or_default() += 1;
    }
    for finding in driven.others {
        if !run.findings.iter().any(|known| same(known, &finding)) {
            run.findings.push(finding);
        }
    }
    *run.cost.get_or_insert_default() += driven.cost;
    run.tests.push(driven.outcome);
}

fn same(a: &FindingRef, b: &FindingRef) -> bool {
    a.rule == b.rule && a.requirement == b.requirement && a.clause == b.clause && a.blame == b.blame
}
