//! The interpreter: one test, one agent, virtual time.
//!
//! Events go in with the time at which they happened, actions come out, and [`Run::next_deadline`] says when to come
//! back without an event. It starts nothing, reads no clock, and knows the protocol only through its [`Table`](crate::Table).
//!
//! How an edge drives it (`connection`, `providers` and `clock` stand for the edge's own):
//!
//! ```text
//! let mut run = Run::new(program, setup);
//! run.handle(clock.since_start(), RunEvent::Started);            // the agent runs, its sandbox is ready
//! 'test: loop {
//!     while let Some(action) = run.poll() {
//!         match action {
//!             RunAction::Offer(caps)          => providers.set_capabilities(caps),
//!             RunAction::Write(line)          => connection.send(line),          // adds the newline
//!             RunAction::WriteRaw(bytes)      => connection.send_raw(bytes),     // as they are
//!             RunAction::CloseInput           => connection.close(),
//!             RunAction::Restart              => { stop(); start(); run.handle(now, RunEvent::Started) }
//!             RunAction::Reconnect            => { drop(); connect(); run.handle(now, RunEvent::Started) }
//!             RunAction::PauseRead(time)      => stop_reading_for(time),
//!             RunAction::AskProvider(frame)   => spawn(providers.answer(frame)), // later: RunEvent::ProviderAnswered
//!             RunAction::CancelPending { .. } => providers.cancel_permission_requests(),
//!             RunAction::CheckFile(path)      => run.handle(now, RunEvent::File(look_at(path))),
//!             RunAction::CheckMcp             => run.handle(now, RunEvent::Mcp(stub_log())),
//!             RunAction::Done(outcome)        => break 'test outcome,
//!         }
//!     }
//!     select! {
//!         line = connection.recv()                => run.handle(line.at, RunEvent::Heard(Frame::parse(line))),
//!         frame = providers.next()                => run.handle(now, RunEvent::ProviderAnswered(frame)),
//!         exit = child.wait()                     => run.handle(now, RunEvent::Exited(exit)),   // after the last line
//!         () = clock.sleep_until(run.next_deadline()) => run.handle(now, RunEvent::Tick),
//!     }
//! }
//! ```
//!
//! Everything the agent said must be handed in before its [`RunEvent::Closed`] or [`RunEvent::Exited`].

mod api;
mod asking;
mod claims;
mod client;
mod expecting;
mod finish;
mod hearing;
mod inbox;
mod joining;
mod looking;
mod missing;
mod order;
mod replies;
mod steps;

use crate::program::{Handshake, Program, Step, StepKind};
use crate::results::{ExitRecord, Explanation, StepRecord};
use crate::verdict::{Sighting, StepEvidence, TestEnding};
use acp_match::Vars;
use acp_rpc::Id;
use expecting::Expecting;
use inbox::Inbox;
use order::{put_into_words, write_out};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use api::{
    AgentAct, DriveOutcome, DriverCan, FileState, McpCall, Observation, RunAction, RunEvent, RunLimits, Setup,
};
pub(crate) use finish::blank;

/// The first id of the runner's own requests, far from those of tests.
pub const OWN_IDS: i64 = 1_000_000;
/// How long an agent must be silent after its turn for a watch to end early.
const SILENCE: Duration = Duration::from_millis(150);
/// How long the exit status may lag behind the end of the output.
const EXIT_LAG: Duration = Duration::from_millis(500);
/// How often a file or the stub's log is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long an agent whose model cannot do what is wished may take to do it by itself, after its turn.
const BY_ITSELF: Duration = Duration::from_millis(1500);
/// How long an expected error is waited for when nothing else waits for it.
const ERROR_WAIT: Duration = Duration::from_secs(10);

/// A test in progress.
#[derive(Debug)]
pub struct Run {
    program: Arc<Program>,
    setup: Setup,
    vars: Vars,
    /// All steps with repetitions written out: which step, which round.
    order: Vec<Turn>,
    arena: Vec<Step>,
    at: usize,
    state: State,
    actions: VecDeque<RunAction>,
    inbox: Inbox,
    joining: joining::Joining,
    /// What only a test of a client has.
    client: Option<Box<client::ClientSide>>,
    wire: Wire,
    own: Option<Own>,
    next_own: i64,
    tried_login: bool,
    /// The test introduced itself with this request.
    own_introduction: Option<Id>,
    /// A login is due before the next step.
    login_due: bool,
    introduction: Option<Value>,
    /// The error with which the agent answered a request of the runner's own.
    refusal: Option<Value>,
    session: Option<Value>,
    /// Where each canned reply was used: step, message, alternative.
    used_replies: BTreeSet<(usize, usize, usize)>,
    tally: Progress,
    step_began: Duration,
    /// The step that has begun.
    entered: Option<usize>,
    records: Vec<StepRecord>,
    notes: Vec<String>,
    /// What the steps have shown so far.
    evidence: StepEvidence,
    /// What the agent was seen to do.
    provided: Vec<String>,
    /// The last unmet expectation against what came closest.
    difference: Option<Explanation>,
    now: Duration,
}

/// One step of the written-out order.
#[derive(Debug, Clone, Copy)]
struct Turn {
    step: usize,
    round: u32,
}

/// Where the interpreter stands.
///
/// ```text
/// Waiting ──Started──► Ready ──step──► Expecting │ Forbidding │ Delaying │ Asking │ Starting │ Exiting │ Looking
///                        ▲                 │ done
///                        └─────────────────┘            last step ──► Draining ──► Over
/// ```
#[derive(Debug)]
enum State {
    /// The agent was not started yet.
    Waiting,
    /// The next step can begin.
    Ready,
    /// The runner's own request is out.
    Asking,
    /// A session was opened; what the agent says about it by itself is let pass, until then at most.
    Settling(Duration),
    /// An `expect` step.
    Expecting(Box<Expecting>),
    /// A `forbid` step, until then.
    Forbidding(Duration),
    /// Waiting, until then.
    Delaying(Duration),
    /// A restart or reconnect, until then at most.
    Starting(Duration),
    /// Waiting for the agent to end, until then.
    Exiting(Duration),
    /// Looking at a file or the stub's log.
    Looking(Looking),
    /// What only a test of a client waits for.
    Client(client::Waiting),
    /// All steps done; answers that must be errors are still out, until then.
    Draining(Duration),
    /// The outcome is out.
    Over,
}

#[derive(Debug)]
struct Looking {
    until: Duration,
    /// The answer is awaited, or the next look is at this time.
    next: Option<Duration>,
    last: Option<String>,
}

/// A request of the runner's own.
#[derive(Debug)]
struct Own {
    id: Id,
    purpose: Purpose,
    until: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Introduce,
    Login,
    /// The same after an introduction that the test made itself.
    LoginFirst,
    OpenSession,
    /// One of the requests that this agent needs after a session was opened.
    SetUp(usize),
}

/// The state of the connection.
#[derive(Debug, Default)]
struct Wire {
    introduced: bool,
    input_closed: bool,
    /// The agent's output ended then.
    closed: Option<Duration>,
    exit: Option<ExitRecord>,
    exit_wanted: bool,
    /// Requests of the test without an answer.
    outstanding: Vec<Id>,
    last_request: Option<Id>,
    /// Requests of the test that were answered.
    answered: BTreeSet<Id>,
    /// Requests of the test whose connection ended before they were answered.
    lost: BTreeSet<Id>,
    /// Something went out that is no good frame; it may be answered with any id.
    unruly: bool,
    /// The requests of the test, by id; of two with one id, the later.
    sent: BTreeMap<Id, Sent>,
    /// Answers to these must be errors, and the step that says so.
    must_fail: BTreeMap<Id, usize>,
    /// Requests of the agent that a provider works on.
    pending: BTreeMap<Id, usize>,
    /// The test left a request of the agent without an answer.
    left_waiting: bool,
    /// Something went over the wire then, either way.
    last_activity: Duration,
    /// How many messages had been heard at the last `send`.
    window: usize,
    /// The test has sent a request on this connection.
    asked: bool,
    /// Bytes of a raw write that do not make a line yet.
    partial: Vec<u8>,
    setting_up: SettingUp,
}

/// Sessions that the test opens itself and that this agent needs set up.
#[derive(Debug, Default)]
struct SettingUp {
    /// Requests that open one, with its id where they name it and the path of its id in the answer where that does.
    asked: BTreeMap<Id, (Option<Value>, Option<String>)>,
    /// Open, and not set up yet.
    due: VecDeque<Value>,
    /// Being set up.
    current: Option<Value>,
}

/// A request of the test.
#[derive(Debug)]
struct Sent {
    method: Option<String>,
    frame: Sighting,
    /// To which launch of the agent's client it went, in a test of a client.
    launch: u32,
}

/// What was reached so far.
#[derive(Debug, Default)]
struct Progress {
    met: usize,
    asserts: bool,
    /// A session was opened.
    opened: bool,
    /// A watch ended over a turn that ran to its end and did something.
    watched: bool,
    /// The latest notification or request that an `expect` took since the last `send`.
    told: Option<usize>,
    /// The latest message of any kind that an `expect` took since the last `send`.
    taken: Option<usize>,
    /// Entries of the stub's log that an `expectMcp` took.
    calls: BTreeSet<usize>,
    /// An `expect` took a notification or a request.
    heard: bool,
    /// The agent's model cannot do what the test wishes. The agent may do it by itself.
    out_of_reach: Option<String>,
}

impl Run {
    /// Prepares a run. Nothing happens until [`RunEvent::Started`].
    pub fn new(program: impl Into<Arc<Program>>, setup: Setup) -> Run {
        let program = program.into();
        let mut vars = setup.variables.clone();
        vars.set("sandbox", setup.sandbox.as_str());
        let mut arena = Vec::new();
        let mut order = Vec::new();
        write_out(&program.steps, 0, &mut arena, &mut order);
        arena.iter_mut().for_each(|step| put_into_words(step, &setup));
        let evidence = claims::evidence_of(&program, &arena);
        let limits = setup.limits;
        let has_client = program.client.is_some();
        Run {
            program,
            setup,
            vars,
            order,
            arena,
            at: 0,
            state: State::Waiting,
            actions: VecDeque::new(),
            inbox: Inbox::new(limits),
            joining: joining::Joining::default(),
            client: has_client.then(|| Box::new(client::ClientSide::new())),
            wire: Wire::default(),
            own: None,
            next_own: OWN_IDS,
            tried_login: false,
            own_introduction: None,
            login_due: false,
            introduction: None,
            refusal: None,
            session: None,
            used_replies: BTreeSet::new(),
            tally: Progress::default(),
            step_began: Duration::ZERO,
            entered: None,
            records: Vec::new(),
            notes: Vec::new(),
            evidence,
            provided: Vec::new(),
            difference: None,
            now: Duration::ZERO,
        }
    }

    /// Takes in an event that happened at `now`, counted from the beginning of the test.
    pub fn handle(&mut self, now: Duration, event: RunEvent) {
        self.now = self.now.max(now);
        if matches!(self.state, State::Over) {
            return self.after_the_end(event);
        }
        match event {
            RunEvent::Started => self.started(),
            RunEvent::Heard(frame) => self.heard(&frame),
            RunEvent::ProviderAnswered(frame) => self.provider_answered(&frame),
            RunEvent::Closed => {
                if !matches!(self.state, State::Starting(_)) {
                    self.wire.closed.get_or_insert(self.now);
                }
            }
            RunEvent::Exited(exit) => {
                if !matches!(self.state, State::Starting(_)) {
                    self.wire.closed.get_or_insert(self.now);
                    self.wire.exit.get_or_insert(exit);
                }
            }
            RunEvent::File(state) => self.saw_file(&state),
            RunEvent::Mcp(calls) => self.saw_mcp(&calls),
            RunEvent::Blocked(reason) => self.end(TestEnding::NotApplicable { reason, blocked: true }),
            RunEvent::NotApplicable(reason) => self.end(TestEnding::NotApplicable { reason, blocked: false }),
            RunEvent::OutOfReach(reason) => {
                self.tally.out_of_reach.get_or_insert(reason);
            }
            RunEvent::Lost(reason) => self.end(TestEnding::Gone(reason)),
            RunEvent::Fault(reason) => self.end(TestEnding::Fault(reason)),
            RunEvent::Tick => {}
            other => self.client_event(other),
        }
        self.give_due_answers();
        self.advance();
    }

    /// The outcome is out. A client that ends may still ask the agent something, and waits for the answer.
    fn after_the_end(&mut self, event: RunEvent) {
        match event {
            RunEvent::HeardFrom { launch, frame } => self.answer_after_the_end(launch, &frame),
            event @ (RunEvent::Launched { .. } | RunEvent::LaunchChanged { .. }) => self.client_event(event),
            _ => {}
        }
    }

    /// The next thing to do, if any.
    pub fn poll(&mut self) -> Option<RunAction> {
        self.actions.pop_front()
    }

    /// Ends a test that is known not to apply before the agent was started; `true` when it did, and
    /// [`RunAction::Done`] comes next.
    pub fn is_hindered(&mut self) -> bool {
        let ending = if matches!(self.state, State::Waiting) { self.hindrance() } else { None };
        let is_hindered = ending.is_some();
        if let Some(ending) = ending {
            self.end(ending);
        }
        is_hindered
    }

    /// When to come back with [`RunEvent::Tick`] if nothing happens before.
    pub fn next_deadline(&self) -> Option<Duration> {
        let own = match &self.state {
            State::Waiting | State::Ready | State::Over => None,
            State::Asking => self.own.as_ref().map(|own| self.own_deadline(own)),
            State::Settling(latest) => Some(self.settles(*latest)),
            State::Expecting(expecting) => Some(self.expect_deadline(expecting)),
            State::Forbidding(until) => Some(self.quiet_from().map_or(*until, |quiet| quiet.min(*until))),
            State::Delaying(until)
            | State::Starting(until)
            | State::Exiting(until)
            | State::Draining(until) => Some(*until),
            State::Looking(looking) => looking.next,
            State::Client(waiting) => Run::client_deadline(waiting),
        };
        let lag = match (self.wire.closed, &self.wire.exit) {
            (Some(closed), None) if !matches!(self.state, State::Over) => Some(closed + EXIT_LAG),
            _ => None,
        };
        let gone = self.client_gone_at().filter(|_| !matches!(self.state, State::Over));
        let later = [lag, gone].into_iter().flatten().filter(|time| *time > self.now);
        later.chain(own).chain(self.due_answer()).min()
    }

    /// The error with which the agent answered a request of the runner's own, when there was one.
    pub fn refusal(&self) -> Option<&Value> {
        self.refusal.as_ref()
    }

    /// The agent's answer to the runner's introduction, when there was one. In a test of a client: what the client said of
    /// itself when it introduced itself first, its params.
    pub fn introduction(&self) -> Option<&Value> {
        self.introduction.as_ref()
    }

    /// Whether the agent left the runner's introduction without an answer, although it was there to answer.
    pub fn is_unheard(&self) -> bool {
        let introduces = self.own.as_ref().is_some_and(|own| own.purpose == Purpose::Introduce);
        introduces && !self.is_gone() && self.stray_answer().is_none()
    }

    /// The agent's answer to the last session request, when there was one.
    pub fn session(&self) -> Option<&Value> {
        self.session.as_ref()
    }

    /// Every message of the agent that could be read, in order, the answers to the runner's own requests left out.
    pub fn messages(&self) -> impl Iterator<Item = &Value> {
        self.inbox.messages().iter().map(|message| &message.value)
    }

    /// The test that runs.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The line of the test file and the kind of the step that runs now, for progress displays.
    pub fn step(&self) -> Option<(usize, &str)> {
        let turn = self.order.get(self.at)?;
        let step = &self.arena[turn.step];
        Some((step.line, step.kind.name()))
    }

    /// The step that runs now.
    fn kind(&self) -> Option<&StepKind> {
        self.order.get(self.at).map(|turn| &self.arena[turn.step].kind)
    }

    fn started(&mut self) {
        self.wire.closed = None;
        self.wire.exit = None;
        match self.state {
            State::Waiting => {
                if let Some(ending) = self.hindrance() {
                    return self.end(ending);
                }
                self.state = State::Ready;
                if self.client.is_some() {
                    return;
                }
                let offered = self.program.client_capabilities.clone();
                self.actions.push_back(RunAction::Offer(offered));
                if self.program.handshake == Handshake::Always {
                    self.introduce();
                }
            }
            State::Starting(_) => {
                self.state = State::Ready;
                self.step_done(None);
                if self.program.handshake == Handshake::Always {
                    self.introduce();
                }
            }
            _ => {}
        }
    }

    /// Goes as far as possible without a new event.
    fn advance(&mut self) {
        loop {
            let moved = match self.state {
                State::Waiting | State::Over => false,
                State::Ready => self.begin_step(),
                State::Asking => self.check_own(),
                State::Settling(latest) => self.check_settled(latest),
                State::Expecting(_) => self.check_expect(),
                State::Forbidding(until) => self.check_forbid(until),
                State::Delaying(until) => self.check_delay(until),
                State::Starting(until) => self.check_start(until),
                State::Exiting(until) => self.check_exit(until),
                State::Looking(_) => self.check_look(),
                State::Client(_) => self.check_client(),
                State::Draining(until) => self.check_drain(until),
            };
            if !moved {
                return;
            }
        }
    }

    fn scaled(&self, time: Duration) -> Duration {
        let factor = self.setup.timeout_factor;
        if factor.is_finite() && factor > 0.0 { time.mul_f64(factor) } else { time }
    }

    /// What is tested is gone, and whatever could still come has come.
    fn is_gone(&self) -> bool {
        if self.client.is_some() {
            return self.client_gone_at().is_some_and(|gone| self.now >= gone);
        }
        let lagged = self.wire.closed.is_some_and(|closed| self.now >= closed + EXIT_LAG);
        self.wire.exit.is_some() || lagged
    }

    /// The turn is answered and nothing is in the air: from when on is it quiet enough?
    fn quiet_from(&self) -> Option<Duration> {
        self.is_idle().then(|| self.wire.last_activity + self.scaled(SILENCE))
    }

    /// What the test asked is answered, and what the agent asked is too. What a client does may come from a person, so its
    /// silence says nothing.
    fn is_idle(&self) -> bool {
        self.client.is_none()
            && self.wire.asked
            && self.wire.outstanding.is_empty()
            && self.wire.pending.is_empty()
    }

    fn gone_words(&self) -> String {
        match &self.wire.exit {
            Some(exit) => format!("the agent {exit}"),
            None if self.client.is_some() => "the client ended".to_owned(),
            None => "the agent closed its output".to_owned(),
        }
    }
}
