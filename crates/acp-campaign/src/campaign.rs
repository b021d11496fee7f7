//! A run: every target, every test, many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use acp_comply::results::{Isolation, Outside};
use acp_comply::verdict::Ending;
use acp_comply::{AgentRun, Defaults, FindingRef, Header, Outcome, Program, Severity, Table, Verdict};
use futures_util::StreamExt;
use tokio::sync::watch;

use crate::drive::{Conditions, Driven, Probed, Watch, drive};
use crate::network;
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

/// What is to be run and how.
#[derive(Clone)]
pub struct Campaign {
    /// The tests, in the order of the report.
    pub programs: Vec<Arc<Program>>,
    /// How each is driven.
    pub conditions: Conditions,
    /// How many tests run at once.
    pub jobs: usize,
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
    /// Something about the agent that its user should know before the tests end.
    Noticed(&'a str, &'a str),
    /// A test begins.
    Began(&'a str, &'a Program),
    /// A test ended.
    Ended(&'a str, &'a Outcome),
}

/// Called for everything that happens during a run, from any thread.
pub type Listener = Arc<dyn Fn(&Progress<'_>) + Send + Sync>;

impl Campaign {
    /// Runs every test against one target.
    pub async fn run(&self, target: &Target, listener: &Listener) -> AgentRun {
        let mut run =
            AgentRun { version: target.version.clone(), ..AgentRun::new(&target.name, target.describe()) };
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
        let (probe, failed) = (&probe, &AtomicBool::new(false));
        let one = |(place, program)| async move {
            (place, self.one(program, target, probe, failed, listener).await)
        };
        let tests = self.programs.iter().enumerate().map(one);
        let mut driven: Vec<(usize, Option<Driven>)> =
            futures_util::stream::iter(tests).buffer_unordered(self.jobs.max(1)).collect().await;
        driven.sort_by_key(|(place, _)| *place);
        for mut driven in driven.into_iter().filter_map(|(_, driven)| driven) {
            driven.outcome.notes.extend(notice.clone());
            take(&mut run, driven);
        }
        run.isolation = isolation(target, outside);
        run
    }

    /// The dialect that all tests are written in, when it is one and not the canonical form.
    fn dialect(&self) -> Option<&str> {
        let first = self.programs.first()?.dialect.as_deref()?;
        self.programs.iter().all(|program| program.dialect.as_deref() == Some(first)).then_some(first)
    }

    async fn one(
        &self,
        program: &Arc<Program>,
        target: &Target,
        probe: &Probed,
        failed: &AtomicBool,
        listener: &Listener,
    ) -> Option<Driven> {
        if *self.stop.borrow() || failed.load(Ordering::Relaxed) {
            return None;
        }
        listener(&Progress::Began(&target.name, program));
        let mut driven = self.drive_unless_stopped(program, target, probe).await?;
        for _ in 1..self.repeat.max(1) {
            let again = self.drive_unless_stopped(program, target, probe).await?;
            driven = fold(driven, again);
        }
        let is_bad = !driven.outcome.claims.is_empty() || driven.outcome.severity == Severity::Required;
        if self.fail_fast && is_bad && driven.outcome.verdict == Verdict::Fail {
            failed.store(true, Ordering::Relaxed);
        }
        listener(&Progress::Ended(&target.name, &driven.outcome));
        Some(driven)
    }

    async fn drive_unless_stopped(
        &self,
        program: &Arc<Program>,
        target: &Target,
        probe: &Probed,
    ) -> Option<Driven> {
        let mut stop = self.stop.clone();
        tokio::select! {
            driven = self.drive_once(program, target, probe) => Some(driven),
            Ok(_) = stop.wait_for(|stop| *stop) => None,
        }
    }

    /// One attempt, on the runtime's own terms so that tests really run side by side.
    async fn drive_once(&self, program: &Arc<Program>, target: &Target, probe: &Probed) -> Driven {
        let (program, target, probe) = (Arc::clone(program), target.clone(), probe.clone());
        let (conditions, watch) = (self.conditions.clone(), self.watch.clone());
        let name = Arc::clone(&program);
        let task =
            tokio::spawn(
                async move { drive(&program, &target, &conditions, Some(&probe), watch.as_ref()).await },
            );
        let _abort = AbortOnDrop(task.abort_handle());
        match task.await {
            Ok(driven) => driven,
            Err(error) => Driven::fault(&name, format!("the runner failed: {error}")),
        }
    }

    /// Learns the agent's header, and what its user should know when it gave none. An agent that cannot be reached is the
    /// run's fault; one that answers badly is not.
    async fn probe(&self, target: &Target, run: &mut AgentRun) -> (Probed, Option<String>) {
        let table = self.dialect().and_then(Table::of_dialect).unwrap_or_else(Table::v1);
        run.dialect = self.dialect().map(str::to_owned);
        if run.dialect.is_none() && target.dialect != acp_dialect::Dialect::V1 {
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
            let reason = driven.outcome.reason.unwrap_or_default();
            if driven.unheard {
                let said = driven.outcome.notes.first().map_or("it said nothing", String::as_str);
                let silence = format!("{reason}; {said}; is a flag such as --acp missing?");
                run.fault = Some(with_hint(silence, target));
                return (Probed::default(), None);
            }
            let ending = driven.outcome.evidence.map(|evidence| evidence.ending);
            if matches!(ending, Some(Ending::Gone(_))) {
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
        (Probed { introduction: Some(introduction), session: driven.session }, None)
    }

    /// The agent's answers to the introduction and to the session request, as far as it gave them.
    pub(crate) async fn introduce(&self, target: &Target) -> Probed {
        let driven = self.drive_probe(target).await.ok().flatten();
        let answers = driven.map(|driven| (driven.introduction, driven.session));
        let (introduction, session) = answers.unwrap_or_default();
        Probed { introduction, session }
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

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Of several attempts the worst one stays, with all verdicts beside it.
fn fold(first: Driven, again: Driven) -> Driven {
    let mut attempts = first.outcome.attempts.clone();
    if attempts.is_empty() {
        attempts.push(first.outcome.verdict);
    }
    attempts.push(again.outcome.verdict);
    let mut kept =
        if again.outcome.verdict.badness() > first.outcome.verdict.badness() { again } else { first };
    kept.outcome.attempts = attempts;
    kept
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
