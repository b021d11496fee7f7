//! One test from its start to its outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use acp_comply::{
    ExitRecord, FileState, FindingRef, McpCall, Observation, Program, Run, RunAction, RunEvent, SandboxFile,
    Setup, TestOutcome, Wordings,
};
use acp_policy::PolicyRules;
use acp_rpc::{DEFAULT_LINE_LIMIT, Direction, Frame, Line, Splitter, View};
use acp_rules::{ConversationEnd, Grade, Judge, JudgeConfig, Side};
use serde_json::Value;

use crate::agent::{Actor, Around, LAG, Process, Store, response};
use crate::client::Client;
use crate::files::{self, Files};
use crate::judged::{JudgedConnection, judged};
use crate::mcp::{STUB, STUB_URL};
use crate::queue::{Item, Queue};
use crate::terminals::{Answer, Answers};

const ROOT: &str = "/play";
const SANDBOX: &str = "/play/sandbox";
const HOME: &str = "/play/home";
const MCP_LOG: &str = "/play/mcp.log";
/// No test takes longer, in its own time.
const LIMIT: Duration = Duration::from_secs(3600);
/// No test has more moments.
const MOMENTS: usize = 1_000_000;
/// The requirement that processes left behind break.
const SURVIVORS: &str = "TRN-09";

/// How tests are played.
#[derive(Clone, Debug)]
pub struct PlayConditions {
    /// Multiplies every timeout.
    pub timeout_factor: f64,
    /// Give an expectation up when everything is answered and the agent has been silent for so long.
    pub patience: Option<Duration>,
    /// The method to authenticate with.
    pub auth_method: Option<String>,
    /// The words for wishes.
    pub wordings: Wordings,
    /// Tests that find out what an agent can be brought to do.
    pub calibration: Vec<Arc<Program>>,
}

impl Default for PlayConditions {
    fn default() -> Self {
        Self {
            timeout_factor: 1.0,
            patience: None,
            auth_method: None,
            wordings: Wordings::new(),
            calibration: Vec::new(),
        }
    }
}

impl PlayConditions {
    /// The same with as much calibration as these tests need.
    #[must_use]
    pub fn for_tests(&self, tests: &[Arc<Program>]) -> Self {
        let wanted = |program: &Program| -> Vec<String> {
            program.needs.iter().cloned().chain(program.wishes()).collect()
        };
        let mut names: BTreeSet<String> = tests.iter().flat_map(|program| wanted(program)).collect();
        let mut kept = vec![false; self.calibration.len()];
        loop {
            let next = self
                .calibration
                .iter()
                .enumerate()
                .find(|(at, file)| !kept[*at] && file.provides().iter().any(|name| names.contains(name)));
            let Some((at, file)) = next else { break };
            kept[at] = true;
            names.extend(wanted(file));
        }
        let files = self.calibration.iter().zip(kept).filter(|(_, kept)| *kept).map(|(file, _)| file);
        Self { calibration: files.cloned().collect(), ..self.clone() }
    }
}

/// What the probe of an agent learnt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlayedProbe {
    /// The agent's answer to the introduction.
    pub introduction: Option<Value>,
    /// The agent's answer to the session request.
    pub session: Option<Value>,
    /// What it can be brought to do.
    pub found: BTreeMap<String, Observation>,
    /// What it cannot, and why.
    pub missing: BTreeMap<String, String>,
}

/// What a test came to.
#[derive(Debug)]
pub struct PlayedTest {
    /// The verdict and its evidence.
    pub outcome: TestOutcome,
    /// Findings on requirements that the test does not claim.
    pub others: Vec<FindingRef>,
    /// Requirements that the conversation put to the test.
    pub exercised: BTreeSet<String>,
    /// What the agent declared in this conversation.
    pub probed: PlayedProbe,
}

/// Why a test cannot be played without a process; `None` when it can.
pub fn needs_process(program: &Program) -> Option<&'static str> {
    if program.dialect.as_deref().is_some_and(|dialect| dialect != "v1") {
        return Some("it is written in another form of the protocol");
    }
    let is_script = |file: &SandboxFile| file.contents.starts_with(b"#!");
    program.sandbox.iter().any(is_script).then_some("it has a script that is run")
}

/// Plays one test.
pub fn play(
    program: &Arc<Program>,
    actor: &Actor,
    conditions: &PlayConditions,
    probed: Option<&PlayedProbe>,
) -> PlayedTest {
    let setup = setup(conditions, probed);
    let mut stage = Stage::new(program, actor, setup);
    let outcome = stage.run();
    stage.conclude(outcome)
}

fn setup(conditions: &PlayConditions, probed: Option<&PlayedProbe>) -> Setup {
    let mut setup = Setup::new(SANDBOX);
    for (name, value) in [("home", HOME), ("mcpLog", MCP_LOG), ("mcpStub", STUB), ("mcpHttp", STUB_URL)] {
        setup.variables.set(name, value);
    }
    setup.timeout_factor = conditions.timeout_factor;
    setup.patience = conditions.patience;
    setup.auth_method.clone_from(&conditions.auth_method);
    setup.wordings.clone_from(&conditions.wordings);
    if let Some(probed) = probed {
        setup.introduction.clone_from(&probed.introduction);
        setup.session.clone_from(&probed.session);
        setup.found.clone_from(&probed.found);
        setup.missing.clone_from(&probed.missing);
    }
    setup
}

struct Stage<'a> {
    program: &'a Arc<Program>,
    actor: &'a Actor,
    run: Run,
    now: Duration,
    files: Files,
    store: Store,
    queue: Queue,
    mcp_log: Vec<Value>,
    client: Option<Client>,
    connection: u32,
    wire: Option<Wire>,
    read_from: Duration,
    judged: JudgedConnection,
    /// What earlier connections left.
    history: acp_rules::SessionHistory,
    left_behind: usize,
}

/// One connection.
struct Wire {
    process: Process,
    output: Splitter,
    sent: Splitter,
    judge: Judge,
    output_ended: bool,
    /// The test closed the agent's input: that it goes then is no fault of its own.
    input_closed: bool,
    /// Lines that nobody reads yet.
    unread: Vec<Line>,
    exit: Option<ExitRecord>,
}

impl<'a> Stage<'a> {
    fn new(program: &'a Arc<Program>, actor: &'a Actor, setup: Setup) -> Self {
        let mut files = Files::default();
        for folder in [ROOT, SANDBOX, HOME, "/play/tmp", "/tmp"] {
            files.make_folder(folder);
        }
        for file in &program.sandbox {
            let _ = files.write(&files::from(SANDBOX, &file.path), file.contents.clone());
        }
        Self {
            program,
            actor,
            run: Run::new(Arc::clone(program), setup),
            now: Duration::ZERO,
            files,
            store: Store::new(),
            queue: Queue::default(),
            mcp_log: Vec::new(),
            client: None,
            connection: 0,
            wire: None,
            read_from: Duration::ZERO,
            judged: JudgedConnection::default(),
            history: acp_rules::SessionHistory::default(),
            left_behind: 0,
        }
    }

    fn run(&mut self) -> TestOutcome {
        if !self.run.is_hindered() {
            self.open();
        }
        for _ in 0..MOMENTS {
            while let Some(action) = self.run.poll() {
                if let Some(outcome) = self.act(action) {
                    return outcome;
                }
            }
            if !self.advance() {
                break;
            }
        }
        TestOutcome::fault(self.program, format!("the play does not end (at {:?})", self.now))
    }

    fn open(&mut self) {
        self.connection += 1;
        self.wire = Some(Wire {
            process: Process::start(self.actor, self.connection, self.now),
            output: Splitter::new(DEFAULT_LINE_LIMIT),
            sent: Splitter::new(DEFAULT_LINE_LIMIT),
            judge: Judge::after(JudgeConfig::default(), std::mem::take(&mut self.history)),
            output_ended: false,
            input_closed: false,
            unread: Vec::new(),
            exit: None,
        });
        self.with_process(Process::tick);
        self.run.handle(self.now, RunEvent::Started);
    }

    /// Goes on to the next moment at which something happens; whether there is one.
    fn advance(&mut self) -> bool {
        let agent = self.wire.as_ref().and_then(|wire| wire.process.next_deadline());
        let next = [self.queue.next_at(), self.run.next_deadline(), agent].into_iter().flatten().min();
        let Some(next) = next.filter(|next| *next < LIMIT) else { return false };
        self.now = self.now.max(next);
        if let Some((connection, item)) = self.queue.pop(self.now) {
            self.happens(connection, item);
        } else if agent.is_some_and(|agent| agent <= self.now) {
            self.with_process(Process::tick);
        } else {
            self.run.handle(self.now, RunEvent::Tick);
        }
        true
    }

    fn with_process<T>(&mut self, work: impl FnOnce(&mut Process, &mut Around<'_>) -> T) -> Option<T> {
        let wire = self.wire.as_mut()?;
        let mut around =
            Around { now: self.now, files: &mut self.files, store: &mut self.store, queue: &mut self.queue };
        Some(work(&mut wire.process, &mut around))
    }

    fn happens(&mut self, connection: u32, item: Item) {
        if let Item::McpLog(line) = item {
            self.mcp_log.push(line);
            return;
        }
        if connection != self.connection {
            return;
        }
        match item {
            Item::Output(bytes) => {
                let Some(wire) = &mut self.wire else { return };
                wire.output.push(&bytes);
                while let Some(line) = wire.output.next_line() {
                    wire.unread.push(line);
                }
                self.read();
            }
            Item::End(exit) => {
                let Some(wire) = &mut self.wire else { return };
                wire.unread.extend(wire.output.finish());
                wire.exit = Some(exit);
                self.read();
            }
            Item::Resume => self.read(),
            Item::Answer(frame) => self.run.handle(self.now, RunEvent::ProviderAnswered(frame)),
            Item::ClientTerminal => {
                let due = self.client.as_mut().map(|client| client.due(self.now)).unwrap_or_default();
                self.answer_all(due);
            }
            item => {
                self.with_process(|process, around| process.take(around, item));
            }
        }
    }

    /// LocalTools on what the agent said, unless reading is paused.
    fn read(&mut self) {
        if self.now < self.read_from {
            return;
        }
        let Some(wire) = &mut self.wire else { return };
        let lines = std::mem::take(&mut wire.unread);
        for line in lines {
            self.heard(Frame::from(line));
        }
        let Some(wire) = &mut self.wire else { return };
        if let (Some(exit), false) = (wire.exit.clone(), wire.output_ended) {
            wire.output_ended = true;
            self.run.handle(self.now, RunEvent::Closed);
            self.run.handle(self.now, RunEvent::Exited(exit));
        }
    }

    fn heard(&mut self, frame: Frame) {
        let Some(wire) = &mut self.wire else { return };
        if wire.output.saw_bom() {
            wire.judge.saw_mark(self.now, Direction::AgentToClient);
        }
        wire.judge.observe(self.now, Direction::AgentToClient, &frame);
        let taken_back = self.client.as_mut().and_then(|client| client.observe(&frame));
        if let Some(answer) = taken_back {
            self.queue.push(self.now + LAG, self.connection, Item::Answer(answer));
        }
        self.run.handle(self.now, RunEvent::Heard(frame));
    }

    fn act(&mut self, action: RunAction) -> Option<TestOutcome> {
        match action {
            RunAction::Offer(offer) => {
                self.client = Some(Client::new(PolicyRules::of(self.program.policy), SANDBOX, offer));
            }
            RunAction::Write(line) => {
                if let (Some(client), Some(session)) = (&mut self.client, asked_session(&line)) {
                    client.turn_began(&session);
                }
                let mut line = line.to_vec();
                line.push(b'\n');
                self.write(&line);
            }
            RunAction::WriteRaw(bytes) => self.write(&bytes),
            RunAction::CloseInput => {
                if let Some(wire) = &mut self.wire {
                    wire.input_closed = !wire.output_ended;
                    wire.judge.input_ended(self.now);
                }
                self.with_process(Process::end_input);
            }
            RunAction::Restart | RunAction::Reconnect => {
                self.end_wire();
                self.open();
            }
            RunAction::PauseRead(time) => {
                self.read_from = self.now + time;
                self.queue.push(self.read_from, self.connection, Item::Resume);
            }
            RunAction::AskProvider(frame) => self.ask(&frame),
            RunAction::CancelPending { session } => {
                if let (Some(client), Some(session)) = (&mut self.client, session) {
                    client.cancel(&session);
                }
            }
            RunAction::CheckFile(path) => {
                let state = match self.files.read(&files::from(SANDBOX, &path)) {
                    Ok(contents) => FileState::Present(contents.to_vec()),
                    Err(files::Trouble::Missing) => FileState::Absent,
                    Err(files::Trouble::Folder) => FileState::Unreadable("it is a folder".to_owned()),
                };
                self.run.handle(self.now, RunEvent::File(state));
            }
            RunAction::CheckMcp => {
                let calls = self.mcp_log.iter().filter_map(mcp_call).collect();
                self.run.handle(self.now, RunEvent::Mcp(calls));
            }
            // Only tests of clients want these.
            RunAction::Drive { .. }
            | RunAction::AsAgent { .. }
            | RunAction::CheckProcess(_)
            | RunAction::CheckJudge => {}
            RunAction::Done(outcome) => return Some(*outcome),
        }
        None
    }

    fn write(&mut self, bytes: &[u8]) {
        let now = self.now;
        if let Some(wire) = &mut self.wire {
            wire.sent.push(bytes);
            while let Some(line) = wire.sent.next_line() {
                wire.judge.observe(now, Direction::ClientToAgent, &Frame::from(line));
            }
        }
        self.with_process(|process, around| process.receive(around, bytes));
    }

    fn ask(&mut self, frame: &Frame) {
        let Some(client) = &mut self.client else { return };
        let (answer, waited) = client.answer(self.now, &mut self.files, frame);
        match answer {
            Answer::Now(result) => {
                let id = frame.id().cloned().unwrap_or(acp_rpc::Id::Null);
                self.answer_all(vec![(id, result)]);
            }
            Answer::At(time) => self.queue.push(time, self.connection, Item::ClientTerminal),
        }
        self.answer_all(waited);
    }

    fn answer_all(&mut self, answers: Answers) {
        for (id, result) in answers {
            self.queue.push(self.now + LAG, self.connection, Item::Answer(response(&id, &result)));
        }
    }

    /// Ends the connection and the agent's process, and lets the judge speak.
    fn end_wire(&mut self) {
        let Some(mut wire) = self.wire.take() else { return };
        let went = wire.output_ended && !wire.input_closed;
        wire.judge.set_ending(if went { ConversationEnd::AgentExited } else { ConversationEnd::ClientLeft });
        wire.judge.close(self.now);
        let judged = judged(&wire.judge);
        self.history = wire.judge.take_history();
        self.judged.findings.extend(judged.findings);
        self.judged.exercised.extend(judged.exercised);
        let mut around =
            Around { now: self.now, files: &mut self.files, store: &mut self.store, queue: &mut self.queue };
        wire.process.end_input(&mut around);
        self.left_behind += usize::from(wire.process.left_behind());
        self.queue.drain(self.connection);
        self.client = None;
        if !self.actor.config.habits.keeps_sessions() {
            self.store.clear();
        }
    }

    fn conclude(mut self, mut outcome: TestOutcome) -> PlayedTest {
        self.end_wire();
        if self.left_behind > 0 {
            self.judged.exercised.insert(SURVIVORS.to_owned());
            self.judged.findings.push(survivor());
        }
        let others = outcome.judge(std::mem::take(&mut self.judged.findings), &self.judged.exercised);
        let probed = PlayedProbe {
            introduction: self.run.introduction().cloned(),
            session: self.run.session().cloned(),
            ..PlayedProbe::default()
        };
        PlayedTest { outcome, others, exercised: self.judged.exercised, probed }
    }
}

fn survivor() -> FindingRef {
    FindingRef {
        rule: "process-left-behind".to_owned(),
        requirement: SURVIVORS.to_owned(),
        clause: None,
        grade: Grade::Warn,
        blame: Side::Agent,
        message: "processes were left behind and had to be killed".to_owned(),
        hint: Some("end child processes when standard input ends".to_owned()),
        evidence: Vec::new(),
        test: None,
        absent: false,
    }
}

/// The session that a request of the test names.
fn asked_session(line: &[u8]) -> Option<String> {
    let frame = Frame::parse(line.to_vec());
    let View::Request { params: Some(params), .. } = frame.view() else { return None };
    let params: Value = serde_json::from_str(params).ok()?;
    Some(params.get("sessionId")?.as_str()?.to_owned())
}

/// One line of the stub's log: the event is the method, and what else the line says can be matched.
fn mcp_call(line: &Value) -> Option<McpCall> {
    let method = line.get("event")?.as_str()?.to_owned();
    let tool = line.get("tool").and_then(Value::as_str).map(str::to_owned);
    let arguments = line.get("arguments").cloned();
    Some(McpCall { method, tool, arguments, line: line.clone() })
}
