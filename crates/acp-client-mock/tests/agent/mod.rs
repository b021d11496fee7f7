//! An agent in memory that meets a client and writes down what it sees.

pub mod tour;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_client_mock::{
    AgentLaunch, AgentProcess, AgentStarter, ClientMock, ClientNature, EndSignal, StartedAgent,
};
use acp_link::{Link, memory};
use acp_proto::{Direction, method};
use acp_rpc::{Frame, Id, Line, View};
use acp_rules::{Judge, JudgeConfig};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

/// How long anything may take that should come.
const SOON: Duration = Duration::from_secs(4);

/// One start of the agent, as the test gets it.
pub struct Launched {
    link: Link,
    launch: AgentLaunch,
    exit: watch::Sender<Option<i32>>,
    signals: Arc<Mutex<Vec<String>>>,
}

struct Starter {
    launches: mpsc::UnboundedSender<Launched>,
    is_stubborn: bool,
}

struct Process {
    exit: watch::Sender<Option<i32>>,
    ended: watch::Receiver<Option<i32>>,
    signals: Arc<Mutex<Vec<String>>>,
    is_stubborn: bool,
}

impl AgentStarter for Starter {
    fn start(&self, launch: AgentLaunch) -> BoxFuture<'_, Result<StartedAgent, String>> {
        let (client, link) = memory(64);
        let (exit, ended) = watch::channel(None);
        let signals = Arc::default();
        let process = Process {
            exit: exit.clone(),
            ended,
            signals: Arc::clone(&signals),
            is_stubborn: self.is_stubborn,
        };
        let _ = self.launches.send(Launched { link, launch, exit, signals });
        async { Ok(StartedAgent { link: client, process: Some(Box::new(process)) }) }.boxed()
    }
}

impl AgentProcess for Process {
    fn signal(&mut self, signal: EndSignal, descendants: bool) {
        self.signals.lock().unwrap().push(format!("{signal:?} descendants={descendants}"));
        if signal == EndSignal::Kill || !self.is_stubborn {
            self.exit.send_replace(Some(-1));
        }
    }

    fn wait(&mut self) -> BoxFuture<'_, Option<i32>> {
        async { self.ended.wait_for(Option::is_some).await.ok().and_then(|code| *code) }.boxed()
    }
}

/// What an agent of the tour is like.
#[derive(Clone, Default)]
pub struct Agent {
    /// Laid over its answer to initialize.
    pub initialize: Value,
    /// Answers in place of the usual ones, the last one for good.
    pub answers: BTreeMap<&'static str, VecDeque<Value>>,
    /// What it says just before an answer.
    pub before: BTreeMap<&'static str, Vec<Value>>,
    /// Whether its process ignores SIGTERM and the end of its input.
    pub is_stubborn: bool,
}

/// A client with its agent, and what was seen.
pub struct Meeting {
    pub workspace: std::path::PathBuf,
    pub trace: Vec<String>,
    pub events: Vec<Value>,
    done: Vec<String>,
    agent: Agent,
    client: ClientMock,
    told: mpsc::UnboundedReceiver<Value>,
    launches: mpsc::UnboundedReceiver<Launched>,
    current: Option<Launched>,
    /// The one that goes on while a login has a launch of its own.
    waiting: Option<Launched>,
    sessions: usize,
    next_id: i64,
    pub prompt: Option<Id>,
    judge: Judge,
    judges: Vec<Judge>,
    signals: Vec<Arc<Mutex<Vec<String>>>>,
    _folder: tempfile::TempDir,
}

/// What came next.
enum Came {
    Frame(Frame),
    End,
    Nothing,
}

impl Meeting {
    pub fn new(nature: ClientNature, agent: Agent) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a real folder");
        let workspace = root.join("workspace");
        std::fs::create_dir(&workspace).expect("a workspace");
        let (launches, coming) = mpsc::unbounded_channel();
        let starter = Starter { launches, is_stubborn: agent.is_stubborn };
        let (client, told) = ClientMock::start(nature, workspace.clone(), Arc::new(starter));
        Self {
            workspace,
            trace: Vec::new(),
            events: Vec::new(),
            done: Vec::new(),
            agent,
            client,
            told,
            launches: coming,
            current: None,
            waiting: None,
            sessions: 0,
            next_id: 100,
            prompt: None,
            judge: Judge::new(JudgeConfig::default()),
            judges: Vec::new(),
            signals: Vec::new(),
            _folder: folder,
        }
    }

    fn note(&mut self, line: impl Into<String>) {
        let root = self.workspace.parent().expect("a folder").to_string_lossy().into_owned();
        let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
        self.trace.push(line.into().replace(&root, "$ROOT").replace(&version, "\"$VERSION\""));
    }

    pub fn see(&mut self, what: &str, value: impl std::fmt::Display) {
        self.note(format!("{what}: {value}"));
    }

    pub fn drive(&self, verb: Value) {
        self.client.tell(&verb);
    }

    /// Drives, and serves the client until it has done that.
    pub async fn does(&mut self, verb: Value) {
        let name = verb["verb"].clone();
        let before = self.events.len();
        self.drive(verb);
        let deadline = Instant::now() + SOON;
        let is_done =
            |events: &[Value]| events[before..].iter().any(|it| it["event"] == "done" && it["verb"] == name);
        while !is_done(&self.events) && Instant::now() < deadline {
            self.next(Instant::now() + Duration::from_millis(20)).await;
        }
        // An event and a frame have no order.
        let done = is_done(&self.events);
        self.done.push(format!("{name} is done: {done}"));
    }

    /// Serves the client until it sends this method.
    pub async fn reaches(&mut self, wanted: &str) -> bool {
        let deadline = Instant::now() + SOON;
        loop {
            match self.next(deadline).await {
                Came::Frame(frame) if frame.method() == Some(wanted) => return true,
                Came::Nothing if Instant::now() >= deadline => {
                    self.note(format!("no {wanted}"));
                    return false;
                }
                _ => {}
            }
        }
    }

    /// Asks, and serves the client until it has answered. The answer; null if there is none.
    pub async fn ask(&mut self, asked: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = Id::Int(self.next_id);
        self.send(Frame::request(&id, asked, &params)).await;
        self.answer_to(&id).await
    }

    /// Waits for the answer to a request; null if there is none.
    pub async fn answer_to(&mut self, id: &Id) -> Value {
        let deadline = Instant::now() + SOON;
        loop {
            match self.next(deadline).await {
                Came::Frame(frame) if frame.method().is_none() && frame.id() == Some(id) => {
                    return serde_json::from_slice(frame.raw()).unwrap_or_default();
                }
                Came::Nothing if Instant::now() >= deadline => {
                    self.note(format!("no answer to {id:?}"));
                    return Value::Null;
                }
                Came::End => return Value::Null,
                _ => {}
            }
        }
    }

    pub async fn tell(&mut self, told: &str, params: Value) {
        self.send(Frame::notification(told, &params)).await;
    }

    pub async fn send(&mut self, frame: Frame) {
        self.judge.observe(Duration::ZERO, Direction::AgentToClient, &frame);
        if let Some(current) = &self.current {
            let _ = current.link.tx.send(frame.raw()).await;
        }
    }

    /// Whether the client still answers.
    pub async fn is_alive(&mut self) {
        let answer = self.ask("_exam/alive", json!({})).await;
        self.see("alive", !answer.is_null());
    }

    pub async fn ends_turn(&mut self, reason: &str) {
        if let Some(id) = self.prompt.take() {
            self.send(Frame::response(&id, &json!({ "stopReason": reason }))).await;
        }
    }

    /// Serves the client until this holds, or nothing more can be waited for.
    pub async fn until(&mut self, holds: impl Fn(&Meeting) -> bool) {
        let deadline = Instant::now() + SOON;
        while !holds(self) && Instant::now() < deadline {
            self.next(Instant::now() + Duration::from_millis(20)).await;
        }
    }

    /// Which launch is the current one.
    pub fn launch(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.launch.number)
    }

    /// How many events of this kind there were.
    pub fn events(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| event["event"] == kind).count()
    }

    /// The agent's process ends.
    pub fn exits(&mut self, code: i32) {
        if let Some(current) = self.current.take() {
            current.exit.send_replace(Some(code));
        }
        self.current = self.waiting.take();
    }

    async fn next(&mut self, deadline: Instant) -> Came {
        while let Ok(event) = self.told.try_recv() {
            self.events.push(event);
        }
        if let Ok(launched) = self.launches.try_recv() {
            self.begin(launched);
        }
        let arrival = match &mut self.current {
            Some(current) => {
                timeout_at(deadline, async {
                    tokio::select! {
                        arrival = current.link.rx.recv() => Ok(arrival),
                        Some(launched) = self.launches.recv() => Err(launched),
                    }
                })
                .await
            }
            None => {
                timeout_at(deadline, async {
                    match self.launches.recv().await {
                        Some(launched) => Err(launched),
                        None => std::future::pending().await,
                    }
                })
                .await
            }
        };
        match arrival {
            Err(_) => Came::Nothing,
            Ok(Err(launched)) => {
                self.begin(launched);
                Came::Nothing
            }
            Ok(Ok(None)) => {
                self.note("end of input");
                self.end();
                Came::End
            }
            Ok(Ok(Some(arrival))) => {
                let text = match &arrival.line {
                    Line::Oversized { len, .. } => format!("{len} bytes"),
                    line => {
                        line.bytes().escape_ascii().to_string().replace("\\\"", "\"").replace("\\\\", "\\")
                    }
                };
                self.note(format!("> {text}"));
                let frame = Frame::from(arrival.line);
                self.judge.observe(Duration::ZERO, Direction::ClientToAgent, &frame);
                self.serve(&frame).await;
                Came::Frame(frame)
            }
        }
    }

    fn begin(&mut self, launched: Launched) {
        match launched.launch.env.is_empty() {
            true => self.end(),
            false => self.waiting = self.current.take(),
        }
        let AgentLaunch { number, added, env, stdio, reads_stderr, ends_descendants, .. } = &launched.launch;
        self.note(format!(
            "launch {number} {stdio:?} added={added:?} env={env:?} reads_stderr={reads_stderr} ends_descendants={ends_descendants}"
        ));
        self.judges.push(std::mem::replace(&mut self.judge, Judge::new(JudgeConfig::default())));
        self.signals.push(Arc::clone(&launched.signals));
        self.current = Some(launched);
    }

    /// What came since then may have come in any order.
    pub fn sorts_from(&mut self, line: usize) {
        self.trace[line..].sort();
    }

    /// The current launch is over.
    fn end(&mut self) {
        if let Some(current) = self.current.take() {
            let returned = current.link.rx.crlf_lines() > 0;
            self.note(format!("lines end with CR LF: {returned}"));
            if !self.agent.is_stubborn {
                current.exit.send_replace(Some(0));
            }
        }
    }

    /// Answers the client's requests as the agent does.
    async fn serve(&mut self, frame: &Frame) {
        let View::Request { id, method: asked, params } = frame.view() else { return };
        let (id, asked) = (id.clone(), asked.to_owned());
        let params: Value = params.and_then(|params| serde_json::from_str(params).ok()).unwrap_or_default();
        let own = self.agent.answers.iter_mut().find(|(name, _)| **name == asked);
        let own =
            own.and_then(
                |(_, answers)| if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() },
            );
        let mut answer = own.or_else(|| self.usual(&asked, &params));
        if asked == method::SESSION_PROMPT {
            self.prompt = Some(id.clone());
            answer = answer.filter(|answer| answer.get("error").is_some());
        }
        for early in self.agent.before.get(asked.as_str()).cloned().unwrap_or_default() {
            self.tell(method::SESSION_UPDATE, early).await;
        }
        if let Some(mut answer) = answer {
            let body = serde_json::to_value(&id).expect("an id");
            answer["jsonrpc"] = "2.0".into();
            answer["id"] = body;
            self.send(Frame::parse(answer.to_string())).await;
        }
    }

    fn usual(&mut self, asked: &str, params: &Value) -> Option<Value> {
        let mut result = json!({});
        if asked == method::INITIALIZE {
            result = json!({ "protocolVersion": 1, "authMethods": [] });
            for (key, value) in self.agent.initialize.as_object().into_iter().flatten() {
                result[key] = value.clone();
            }
        } else if asked == method::SESSION_NEW {
            self.sessions += 1;
            result = json!({ "sessionId": format!("s-{}", self.sessions) });
        } else if asked == method::SESSION_LIST {
            result = json!({ "sessions": [] });
        } else if asked == method::SESSION_SET_CONFIG_OPTION {
            result = json!({ "configOptions": [] });
            let _ = params;
        }
        Some(json!({ "result": result }))
    }

    /// Quits, and writes down how that went.
    pub async fn quits(mut self) -> (Vec<String>, Vec<String>) {
        self.drive(json!({ "verb": "quit" }));
        let limit = if self.agent.is_stubborn { 2 * SOON } else { SOON };
        let deadline = Instant::now() + limit;
        while self.client.is_running() && Instant::now() < deadline {
            self.next(Instant::now() + Duration::from_millis(20)).await;
        }
        let line = format!("running after quit: {}", self.client.is_running());
        self.end();
        self.note(line);
        self.trace.append(&mut self.done);
        for signals in std::mem::take(&mut self.signals) {
            let sent = signals.lock().unwrap().join(", ");
            self.note(format!("signals: {sent}"));
        }
        self.judges.push(self.judge);
        let findings = self.judges.iter().flat_map(Judge::findings);
        let findings =
            findings.map(|it| format!("{} {:?}: {}", it.requirement, it.blame, it.message)).collect();
        (self.trace, findings)
    }
}
