//! What only a test of a client has: launches of the agent, the driver, the default agent.
//!
//! The runner is the agent here. A client may start it several times; each start is a launch with a connection of its own.
//! What the test does not answer, the default agent answers, as its [`AgentTable`] says.

mod acting;
mod answering;
mod driving;
mod fitness;
mod launches;
mod looks;

use super::{DriveOutcome, Run, RunAction, RunEvent, State, TestEnding};
use crate::agent_table::AgentTable;
use crate::program::{ClientStep, ClientTest, WhichLaunch};
use acp_match::Vars;
use acp_rpc::{Direction, Id};
use answering::{DueAnswer, OpenRequest};
use bytes::Bytes;
use driving::{Driving, EarlyDrive};
use launches::Launch;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The state of the agent that the client starts, and of the client's driver.
#[derive(Debug)]
pub(super) struct ClientSide {
    table: Arc<AgentTable>,
    launches: BTreeMap<u32, Launch>,
    /// The launch on which the latest session was opened.
    session_launch: Option<u32>,
    /// The launch that steps write to.
    current: u32,
    /// The launch that the frame at hand came from.
    from: u32,
    /// The latest launch when the last verb was used.
    before_drive: u32,
    /// The launch that the last step with a launch found.
    found: u32,
    /// Lines of the default agent that wait until a line of the test is whole.
    waiting_lines: Vec<(u32, Bytes)>,
    /// The verbs that were used: what became of each.
    drives: Vec<DriveRecord>,
    /// Verbs that were used before their steps.
    early: Vec<EarlyDrive>,
    /// Prompts that only open a session and are answered at once.
    first_prompts: u32,
    /// Requests of the client without an answer.
    open: Vec<OpenRequest>,
    due: Vec<DueAnswer>,
    next_request: u64,
    /// How often the test's own answers to a method were used.
    calls: BTreeMap<String, usize>,
    /// Answers that went out.
    answers: Vec<GivenAnswer>,
    sessions: u32,
    /// What the default agent keeps of its answers.
    kept: Vars,
    /// What the driver knows of the client.
    record: Value,
    /// Requests that the listener had.
    http: Vec<Value>,
    /// The client has ended then, and nothing more can come.
    gone_since: Option<Duration>,
}

/// An answer that went out.
#[derive(Debug)]
struct GivenAnswer {
    launch: u32,
    method: String,
    is_result: bool,
}

/// A verb that was used.
#[derive(Debug)]
struct DriveRecord {
    verb: String,
    is_done: bool,
}

/// What a step of a client test waits for.
#[derive(Debug)]
pub(super) enum Waiting {
    Drive(Driving),
    /// An answer to the runner's own request.
    Alive {
        id: Id,
        launch: u32,
        until: Duration,
        is_answered: bool,
    },
    /// Somebody who reads standard error.
    Stderr {
        launch: u32,
        until: Duration,
        is_taken: bool,
    },
    /// A record.
    Look {
        until: Duration,
    },
    /// A process; `next` is when to look again, and nothing while an answer is awaited.
    Process {
        pid: i64,
        until: Duration,
        next: Option<Duration>,
    },
    /// The judge.
    Judge,
}

/// Of which launches a message counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaunchFilter {
    Any,
    Only(u32),
    After(u32),
}

impl LaunchFilter {
    pub fn takes(self, launch: u32) -> bool {
        match self {
            LaunchFilter::Any => true,
            LaunchFilter::Only(number) => launch == number,
            LaunchFilter::After(number) => launch > number,
        }
    }
}

impl ClientSide {
    pub fn new() -> ClientSide {
        let table = AgentTable::built_in();
        let mut kept = Vars::new();
        for (name, keeps) in &table.keeps {
            kept.set(name.as_str(), keeps.otherwise.clone());
        }
        ClientSide {
            table,
            launches: BTreeMap::new(),
            session_launch: None,
            current: 0,
            from: 0,
            before_drive: 0,
            found: 0,
            waiting_lines: Vec::new(),
            drives: Vec::new(),
            early: Vec::new(),
            first_prompts: 0,
            open: Vec::new(),
            due: Vec::new(),
            next_request: 0,
            calls: BTreeMap::new(),
            answers: Vec::new(),
            sessions: 0,
            kept,
            record: Value::Null,
            http: Vec::new(),
            gone_since: None,
        }
    }

    /// The launch that the frame at hand came from.
    pub fn from(&self) -> u32 {
        self.from
    }

    /// The launch that steps write to; 0 before the first.
    pub fn current(&self) -> u32 {
        self.current
    }
}

impl Run {
    /// What is tested, in words.
    pub(super) fn peer(&self) -> &'static str {
        if self.client.is_some() { "the client" } else { "the agent" }
    }

    /// Which way the frames go that are heard.
    pub(super) fn heard_direction(&self) -> Direction {
        if self.client.is_some() { Direction::ClientToAgent } else { Direction::AgentToClient }
    }

    /// Which way the frames go that the runner writes.
    pub(super) fn said_direction(&self) -> Direction {
        if self.client.is_some() { Direction::AgentToClient } else { Direction::ClientToAgent }
    }

    /// What the file says that only a test of a client says.
    fn client_test(&self) -> Option<&ClientTest> {
        self.program.client.as_deref()
    }

    /// The table and the state of a client test.
    fn client_side(&mut self) -> Option<(Arc<AgentTable>, &mut ClientSide)> {
        let client = self.client.as_deref_mut()?;
        Some((Arc::clone(&client.table), client))
    }

    /// Of which launches a message counts for which the file says this.
    pub(super) fn launch_filter(&self, which: Option<WhichLaunch>) -> LaunchFilter {
        match (which, &self.client) {
            (None, _) | (_, None) => LaunchFilter::Any,
            (Some(WhichLaunch::Number(number)), _) => LaunchFilter::Only(number),
            (Some(WhichLaunch::New), Some(client)) => LaunchFilter::After(client.before_drive),
            (Some(WhichLaunch::Later), Some(client)) => LaunchFilter::After(client.found),
        }
    }

    /// A step found something of this launch.
    pub(super) fn found_launch(&mut self, launch: u32) {
        if let Some(client) = &mut self.client
            && launch > 0
        {
            client.found = launch;
        }
    }

    /// Takes in what only a test of a client hears of.
    pub(super) fn client_event(&mut self, event: RunEvent) {
        match event {
            RunEvent::Launched { launch, record } => self.launched(launch, record),
            RunEvent::LaunchChanged { launch, record } => self.launch_changed(launch, record),
            RunEvent::HeardFrom { launch, frame } => self.heard_from(launch, &frame),
            RunEvent::Driven { drive, outcome } => self.driven(drive, outcome),
            RunEvent::DriverRecord(record) => {
                if let Some(client) = &mut self.client {
                    client.record = record;
                }
            }
            RunEvent::Http(requests) => {
                if let Some(client) = &mut self.client {
                    client.http = requests;
                }
            }
            RunEvent::Process { pid, running } => self.saw_process(pid, running),
            RunEvent::StderrTaken { launch } => self.stderr_taken(launch),
            RunEvent::Judged(findings) => self.saw_judge(&findings),
            _ => {}
        }
        self.note_gone();
    }

    fn driven(&mut self, drive: u32, outcome: DriveOutcome) {
        let Some(client) = &mut self.client else { return };
        let Some(record) = client.drives.get_mut(drive as usize) else { return };
        let verb = record.verb.clone();
        let ending = match outcome {
            DriveOutcome::Done => {
                record.is_done = true;
                return;
            }
            DriveOutcome::Failed(words) => {
                let reason = format!("the driver's verb {verb:?} failed: {words}");
                TestEnding::NotApplicable { reason, blocked: true }
            }
            DriveOutcome::Lacks(words) => {
                let reason = format!("the driver has no verb {verb:?} of this kind: {words}");
                TestEnding::NotApplicable { reason, blocked: false }
            }
        };
        self.end(ending);
    }

    /// Begins a step that only tests of clients have.
    pub(super) fn begin_client_step(&mut self, step: &ClientStep) {
        self.tally.asserts |= step.can_be_unmet();
        match step {
            ClientStep::Drive { verb, fields, wait, timeout } => {
                self.begin_drive(verb, fields, *wait, *timeout);
            }
            ClientStep::Answer { to, body, all } => self.answer_open(to, body, *all),
            ClientStep::Alive { timeout } => self.begin_alive(*timeout),
            ClientStep::Stderr { bytes, times, timeout } => self.begin_stderr(bytes, *times, *timeout),
            ClientStep::Exit { code } => self.exit_agent(*code),
            ClientStep::Look(look) => {
                self.state =
                    State::Client(Waiting::Look { until: self.step_began + self.scaled(look.timeout) });
            }
            ClientStep::Process { pid, timeout, .. } => self.begin_process(pid, *timeout),
            ClientStep::Judged { .. } => {
                self.state = State::Client(Waiting::Judge);
                self.actions.push_back(RunAction::CheckJudge);
            }
        }
    }

    /// Goes on with such a step; `false` when it goes on waiting.
    pub(super) fn check_client(&mut self) -> bool {
        let State::Client(waiting) = &self.state else { return false };
        match waiting {
            Waiting::Drive(_) => self.check_drive(),
            Waiting::Alive { .. } => self.check_alive(),
            Waiting::Stderr { .. } => self.check_stderr(),
            Waiting::Look { until } => {
                let until = *until;
                self.check_client_look(until)
            }
            Waiting::Process { pid, next, .. } => {
                let (pid, is_due) = (*pid, next.is_some_and(|next| self.now >= next));
                if is_due {
                    self.look_at_process(pid);
                }
                false
            }
            Waiting::Judge => false,
        }
    }

    /// When such a step must be looked at again.
    pub(super) fn client_deadline(waiting: &Waiting) -> Option<Duration> {
        match waiting {
            Waiting::Drive(driving) => Some(driving.until),
            Waiting::Alive { until, .. } | Waiting::Stderr { until, .. } | Waiting::Look { until } => {
                Some(*until)
            }
            Waiting::Process { next, .. } => *next,
            Waiting::Judge => None,
        }
    }

    /// Whether a verb is waited for.
    pub(super) fn is_driving(&self) -> bool {
        matches!(self.state, State::Client(Waiting::Drive(_)))
    }

    /// A step of a client test has what it waits for.
    fn client_step_met(&mut self, detail: Option<String>) {
        self.tally.met += 1;
        self.step_met();
        self.step_done(detail);
    }
}
