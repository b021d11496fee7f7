//! Drives one test: the interpreter of `acp-comply` against a real connection.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_comply::{
    Action, Event, ExitRecord, FileState, FindingRef, McpCall, Outcome, Program, Run, Setup, Table,
};
use acp_host::{Offer, Providers, Roots, Settings};
use acp_link::child::Exit;
use acp_policy::Rules;
use acp_rpc::{Frame, Line, View};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::cell::Cell;
use crate::target::{Ended, OpenError, Target};
use crate::wire::{Judged, Wire};

/// How every test of a run is driven.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// The program that supervises agents (`acp` itself); without it descendants are killed by process group only.
    pub supervisor: Option<PathBuf>,
    /// Line limit and queue bounds.
    pub wire: acp_link::Wire,
    /// Multiplies every timeout.
    pub timeout_factor: f64,
    /// How long an agent may take to end after its test, before it is told to, and again before it is killed.
    pub grace: Duration,
    /// The method to authenticate with.
    pub auth_method: Option<String>,
    /// The stub MCP server's program.
    pub mcp_stub: Option<PathBuf>,
    /// Keep sandboxes and transcripts here.
    pub keep: Option<PathBuf>,
}

/// What a test came to.
#[derive(Debug)]
pub struct Driven {
    /// The verdict and its evidence.
    pub outcome: Outcome,
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
    /// The agent could not be reached at all.
    pub unreachable: Option<String>,
}

/// The stub MCP server over HTTP, for the tests that name its address `${mcpHttp}`. It ends with the test.
struct HttpStub {
    url: String,
    _link: acp_link::Link,
    _child: acp_link::child::Child,
}

impl HttpStub {
    async fn start(
        program: &Program,
        cell: &Cell,
        conditions: &Conditions,
    ) -> Result<Option<HttpStub>, String> {
        let Some(stub) = &conditions.mcp_stub else { return Ok(None) };
        if !format!("{:?}", program.steps).contains("${mcpHttp}") {
            return Ok(None);
        }
        let log = cell.mcp_log.to_string_lossy().into_owned();
        let options = acp_link::child::Options {
            supervisor: conditions.supervisor.clone(),
            ..acp_link::child::Options::new(stub).args(["mcp-stub", "--http", "--log", &log])
        };
        let (mut link, child) = acp_link::child::spawn(&options).map_err(|error| error.to_string())?;
        let first = tokio::time::timeout(Duration::from_secs(10), link.rx.recv()).await;
        let line = first.ok().flatten().ok_or("the stub MCP server did not say where it listens")?;
        let said: Value = serde_json::from_slice(line.line.bytes()).unwrap_or(Value::Null);
        let url = said.get("url").and_then(Value::as_str).ok_or("the stub MCP server has no address")?;
        Ok(Some(HttpStub { url: url.to_owned(), _link: link, _child: child }))
    }
}

/// What is shown while a test runs: direction and raw line.
pub type Watch = Arc<dyn Fn(&str, &str, &[u8]) + Send + Sync>;

/// Runs one test against one target and leaves nothing of it behind.
pub async fn drive(
    program: &Arc<Program>,
    target: &Target,
    conditions: &Conditions,
    probe: Option<&(Option<Value>, Option<Value>)>,
    watch: Option<&Watch>,
) -> Driven {
    let name = format!("{}.{}", file_name(&target.name), program.id);
    let cell = match Cell::make(&name, conditions.keep.as_deref()) {
        Ok(cell) => cell,
        Err(error) => return Driven::fault(program, format!("cannot make a sandbox: {error}")),
    };
    if let Err(error) = cell.fill(&program.sandbox) {
        return Driven::fault(program, format!("cannot write the sandbox's files: {error}"));
    }
    let mut setup = setup(&cell, target, conditions, probe);
    if let Some(dialect) = &program.dialect {
        let Some(table) = Table::of_dialect(dialect) else {
            return Driven::fault(
                program,
                format!("the test is written in {dialect:?}, which is no known dialect"),
            );
        };
        setup.table = table;
    }
    let http = match HttpStub::start(program, &cell, conditions).await {
        Ok(http) => http,
        Err(reason) => return Driven::fault(program, reason),
    };
    if let Some(http) = &http {
        setup.variables.set("mcpHttp", http.url.as_str());
    }
    let mut test = Test::new(program, setup, &cell, target, conditions, watch.cloned());
    let before = cell.outside();
    if let Err(error) = test.open().await {
        let mut driven = Driven::fault(program, error.to_string());
        driven.unreachable = Some(error.to_string());
        return driven;
    }
    let outcome = test.run().await;
    test.conclude(outcome, &before).await
}

fn setup(
    cell: &Cell,
    target: &Target,
    conditions: &Conditions,
    probe: Option<&(Option<Value>, Option<Value>)>,
) -> Setup {
    let mut setup = Setup::new(cell.sandbox.to_string_lossy());
    setup.variables.set("home", cell.home.to_string_lossy().as_ref());
    setup.variables.set("mcpLog", cell.mcp_log.to_string_lossy().as_ref());
    if let Some(stub) = &conditions.mcp_stub {
        setup.variables.set("mcpStub", stub.to_string_lossy().as_ref());
    }
    setup.timeout_factor = conditions.timeout_factor;
    setup.auth_method.clone_from(&conditions.auth_method);
    setup.restartable = target.is_ours();
    setup.reconnectable = !target.is_ours();
    if let Some((introduction, session)) = probe {
        setup.introduction.clone_from(introduction);
        setup.session.clone_from(session);
    }
    setup
}

impl Driven {
    /// A test that could not be run, through no fault of the agent's.
    pub fn fault(program: &Arc<Program>, reason: String) -> Driven {
        Driven {
            outcome: Outcome::fault(program, reason),
            others: Vec::new(),
            exercised: BTreeSet::new(),
            introduction: None,
            session: None,
            messages: Vec::new(),
            unreachable: None,
        }
    }
}

/// Answers of the providers, each with the connection that it belongs to.
type Answers = (mpsc::UnboundedSender<(u32, Frame)>, mpsc::UnboundedReceiver<(u32, Frame)>);

struct Test<'a> {
    program: &'a Arc<Program>,
    run: Run,
    cell: &'a Cell,
    target: &'a Target,
    conditions: &'a Conditions,
    watch: Option<Watch>,
    began: Instant,
    wire: Option<Wire>,
    providers: Option<Providers>,
    answers: Answers,
    /// Counts connections; an answer for an earlier one is dropped.
    connection: u32,
    read_from: Instant,
    output_ended: bool,
    exit: Option<Exit>,
    judged: Judged,
    ended: Vec<Ended>,
    /// Session ids that an agent of another form has under other names.
    sessions: acp_host::Sessions,
}

impl<'a> Test<'a> {
    fn new(
        program: &'a Arc<Program>,
        setup: Setup,
        cell: &'a Cell,
        target: &'a Target,
        conditions: &'a Conditions,
        watch: Option<Watch>,
    ) -> Test<'a> {
        Test {
            program,
            run: Run::new(Arc::clone(program), setup),
            cell,
            target,
            conditions,
            watch,
            began: Instant::now(),
            wire: None,
            providers: None,
            answers: mpsc::unbounded_channel(),
            connection: 0,
            read_from: Instant::now(),
            output_ended: false,
            exit: None,
            judged: Judged::default(),
            ended: Vec::new(),
            sessions: acp_host::Sessions::default(),
        }
    }

    async fn open(&mut self) -> Result<(), OpenError> {
        let supervisor = self.conditions.supervisor.as_deref();
        let connection = self.target.open(self.cell, supervisor, &self.conditions.wire).await?;
        let connection = if self.is_judged() {
            connection.translated(self.target.dialect, self.cell, &self.sessions)
        } else {
            connection
        };
        self.wire = Some(Wire::new(connection, self.began, self.is_judged()));
        self.connection += 1;
        self.output_ended = false;
        self.exit = None;
        self.run.handle(self.began.elapsed(), Event::Started);
        Ok(())
    }

    /// The judge knows the canonical protocol alone.
    fn is_judged(&self) -> bool {
        self.program.dialect.as_deref().is_none_or(|dialect| dialect == "v1")
    }

    async fn run(&mut self) -> Outcome {
        loop {
            while let Some(action) = self.run.poll() {
                if let Some(outcome) = self.act(action).await {
                    return outcome;
                }
            }
            self.wait().await;
        }
    }

    async fn act(&mut self, action: Action) -> Option<Outcome> {
        match action {
            Action::Offer(capabilities) => self.offer(&capabilities),
            Action::Write(line) => self.write(line),
            Action::WriteRaw(bytes) => {
                self.show("→", &bytes);
                if let Some(wire) = &mut self.wire {
                    wire.write_raw(bytes);
                }
            }
            Action::CloseInput => {
                if let Some(wire) = &mut self.wire {
                    wire.close_input();
                }
            }
            Action::Restart | Action::Reconnect => self.reopen().await,
            Action::PauseRead(time) => self.read_from = Instant::now() + time,
            Action::AskProvider(frame) => self.ask(&frame),
            Action::CancelPending { session } => {
                if let (Some(providers), Some(session)) = (&self.providers, session) {
                    providers.cancel_session(&session);
                }
            }
            Action::CheckFile(path) => {
                let state = look(&self.cell.sandbox, &path);
                self.run.handle(self.began.elapsed(), Event::File(state));
            }
            Action::CheckMcp => {
                let calls = read_log(&self.cell.mcp_log);
                self.run.handle(self.began.elapsed(), Event::Mcp(calls));
            }
            Action::Done(outcome) => return Some(*outcome),
        }
        None
    }

    fn offer(&mut self, capabilities: &Value) {
        if let Some(providers) = self.providers.take() {
            providers.close();
        }
        match Roots::open(&self.cell.sandbox, &[]) {
            Ok(roots) => {
                self.providers = Some(Providers::new(Settings {
                    offer: Offer::from_capabilities(capabilities),
                    rules: Rules::of(self.program.policy),
                    default_roots: Some(roots),
                    ..Settings::default()
                }));
            }
            Err(error) => {
                let reason = format!("cannot open the sandbox for the client's providers: {error}");
                self.run.handle(self.began.elapsed(), Event::Fault(reason));
            }
        }
    }

    fn write(&mut self, line: bytes::Bytes) {
        self.show("→", &line);
        if let (Some(providers), Some(session)) = (&self.providers, asked_session(&line)) {
            providers.turn_began(&session);
        }
        if let Some(wire) = &mut self.wire {
            wire.write_line(line);
        }
    }

    async fn reopen(&mut self) {
        if let Some(wire) = self.wire.take() {
            let (judged, ended) = wire.end(self.output_ended, self.conditions.grace).await;
            self.collect(judged, ended);
        }
        if let Some(providers) = &self.providers {
            providers.close();
        }
        if let Err(error) = self.open().await {
            let event = if self.target.is_ours() {
                Event::Fault(error.to_string())
            } else {
                Event::Lost(format!("no new connection could be made: {error}"))
            };
            self.run.handle(self.began.elapsed(), event);
        }
    }

    fn collect(&mut self, judged: Judged, ended: Option<Ended>) {
        self.judged.findings.extend(judged.findings);
        self.judged.exercised.extend(judged.exercised);
        self.ended.extend(ended);
    }

    fn ask(&mut self, frame: &Frame) {
        let Some(providers) = &self.providers else { return };
        let answer = providers.answer(frame);
        let (connection, tell) = (self.connection, self.answers.0.clone());
        tokio::spawn(async move {
            let answer = answer.await;
            let _ = tell.send((connection, answer.frame()));
        });
    }

    /// Waits for the next thing to happen and tells the interpreter.
    async fn wait(&mut self) {
        let deadline = self.run.next_deadline().map(|at| self.began + at);
        let wake = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        let paused = self.read_from > Instant::now();
        let read_from = self.read_from;
        let Some(wire) = &mut self.wire else {
            sleep_until(wake.into()).await;
            self.run.handle(self.began.elapsed(), Event::Tick);
            return;
        };
        let may_read = !paused && !self.output_ended;
        let may_end = wire.child.is_some() && self.exit.is_none();
        let (rx, child) = (&mut wire.rx, &mut wire.child);
        tokio::select! {
            biased;
            arrival = rx.recv(), if may_read => match arrival {
                Some(arrival) => self.heard(arrival.at, arrival.line),
                None => self.output_end(),
            },
            Some((connection, frame)) = self.answers.1.recv() => {
                if connection == self.connection {
                    self.run.handle(self.began.elapsed(), Event::ProviderAnswered(frame));
                }
            }
            Some(exit) = wait_child(child), if may_end => {
                self.exit = Some(exit);
                self.tell_exit();
            }
            () = sleep_until(read_from.into()), if paused => {}
            () = sleep_until(wake.into()) => self.run.handle(self.began.elapsed(), Event::Tick),
        }
    }

    fn heard(&mut self, at: Instant, line: Line) {
        self.show("←", line.bytes());
        let Some(wire) = &mut self.wire else { return };
        let frame = wire.heard(at, line);
        if let (Some(providers), View::Notification { .. }) = (&self.providers, frame.view()) {
            providers.observe(&frame);
        }
        self.run.handle(at.saturating_duration_since(self.began), Event::Heard(frame));
    }

    fn output_end(&mut self) {
        self.output_ended = true;
        self.run.handle(self.began.elapsed(), Event::Closed);
        self.tell_exit();
    }

    /// Everything the agent said comes before its exit.
    fn tell_exit(&mut self) {
        if !self.output_ended {
            return;
        }
        if let (Some(exit), Some(wire)) = (&self.exit, &self.wire) {
            let stderr = wire.child.as_ref().map(acp_link::child::Child::stderr_tail).unwrap_or_default();
            let record = ExitRecord { code: exit.code, signal: exit.signal, stderr: last_lines(&stderr) };
            self.run.handle(self.began.elapsed(), Event::Exited(record));
        }
    }

    fn show(&self, arrow: &str, bytes: &[u8]) {
        if let Some(watch) = &self.watch {
            watch(&self.program.id, arrow, bytes);
        }
    }

    /// Ends the agent, lets the judge speak, and adds what frames do not show.
    async fn conclude(mut self, mut outcome: Outcome, before: &crate::cell::Snapshot) -> Driven {
        if let Some(wire) = self.wire.take() {
            let (judged, ended) = wire.end(self.output_ended, self.conditions.grace).await;
            self.collect(judged, ended);
        }
        if let Some(providers) = self.providers.take() {
            providers.close();
        }
        let survivors: Vec<String> = self
            .ended
            .iter()
            .flat_map(|ended| &ended.exit.survivors)
            .map(|survivor| format!("{} ({})", survivor.name, survivor.pid))
            .collect();
        if !survivors.is_empty() {
            self.judged.exercised.insert(crate::SURVIVOR_REQUIREMENT.to_owned());
            self.judged.findings.push(survivor_finding(&survivors));
        }
        let outside = self.cell.outside().changes_since(before);
        let strays: Vec<String> = outside.iter().filter_map(|path| stray(path)).collect();
        if !strays.is_empty() {
            outcome.notes.push(format!("written outside the sandbox: {}", strays.join(", ")));
        }
        if self.cell.is_kept() {
            outcome.notes.push(format!("kept in {}", self.cell.root().display()));
            self.keep_transcript(&outcome);
        }
        let others = outcome.judge(std::mem::take(&mut self.judged.findings), &self.judged.exercised);
        Driven {
            outcome,
            others,
            exercised: self.judged.exercised,
            introduction: self.run.introduction().cloned(),
            session: self.run.session().cloned(),
            messages: self.run.messages().cloned().collect(),
            unreachable: None,
        }
    }

    fn keep_transcript(&self, outcome: &Outcome) {
        let mut text = String::new();
        for line in &outcome.transcript {
            let entry = serde_json::json!({ "t": line.at_ms / 1000.0, "dir": line.dir, "line": line.text });
            text.push_str(&entry.to_string());
            text.push('\n');
        }
        let _ = std::fs::write(self.cell.root().join("transcript.ndjson"), text);
    }
}

async fn wait_child(child: &mut Option<acp_link::child::Child>) -> Option<Exit> {
    Some(child.as_mut()?.wait().await)
}

fn survivor_finding(survivors: &[String]) -> FindingRef {
    FindingRef {
        rule: "process-left-behind".to_owned(),
        requirement: crate::SURVIVOR_REQUIREMENT.to_owned(),
        severity: "should".to_owned(),
        blame: "agent".to_owned(),
        message: format!("processes were left behind and had to be killed: {}", survivors.join(", ")),
        hint: Some("end child processes when standard input ends".to_owned()),
        evidence: Vec::new(),
        test: None,
    }
}

/// A change outside the sandbox that is worth a note: the agent's own home and temporary folder are its business,
/// and so is the stub's log.
fn stray(path: &Path) -> Option<String> {
    let first = path.components().next()?.as_os_str().to_string_lossy().into_owned();
    let own = matches!(first.as_str(), "home" | "tmp" | "mcp.log" | "transcript.ndjson");
    (!own).then(|| path.display().to_string())
}

fn look(sandbox: &Path, path: &str) -> FileState {
    match std::fs::read(sandbox.join(path)) {
        Ok(bytes) => FileState::Present(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => FileState::Absent,
        Err(error) => FileState::Unreadable(error.to_string()),
    }
}

fn read_log(path: &Path) -> Vec<McpCall> {
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| mcp_call(&line))
        .collect()
}

/// One line of the stub's log: the event is the method, a tool call has its tool, and what else the line says
/// can be matched as arguments.
fn mcp_call(line: &Value) -> Option<McpCall> {
    let method = line.get("event")?.as_str()?.to_owned();
    let tool = line.get("tool").and_then(Value::as_str).map(str::to_owned);
    let arguments = line.get("arguments").cloned().or_else(|| Some(line.clone()));
    Some(McpCall { method, tool, arguments })
}

/// The session that a request of the test names.
fn asked_session(line: &[u8]) -> Option<String> {
    let frame = Frame::parse(bytes::Bytes::copy_from_slice(line));
    let View::Request { params: Some(params), .. } = frame.view() else { return None };
    let params: Value = serde_json::from_str(params).ok()?;
    Some(params.get("sessionId")?.as_str()?.to_owned())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

fn file_name(text: &str) -> String {
    text.chars().map(|c| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' }).collect()
}
