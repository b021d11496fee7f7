//! Agents of the form `2025.1` for clients of another form: one agent per folder and set of MCP servers.
//!
//! A `2025.1` agent is told its working directory and its MCP servers at `initialize`; other clients name both with each
//! session. So the agent that answered `initialize` serves the sessions that fit what it was told, and each other folder
//! gets an agent of its own, started there. To the client they look like one agent.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use acp_dialect::{Dialect, START_KEY};
use acp_driver::{Machine, Output, drive};
use acp_link::child::Child;
use acp_link::{Arrival, Link, LinkClosed, Receiver, Sender};
use acp_proto::method;
use acp_rpc::{Frame, Id, Pending, Reply, RpcError, View};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::proxy::{AgentUnavailable, OpenedAgent};

/// Opens an agent that works in this folder.
pub type FolderOpener =
    Arc<dyn Fn(PathBuf) -> BoxFuture<'static, Result<OpenedAgent, AgentUnavailable>> + Send + Sync>;

/// Lines that wait inside this process.
const BURST: usize = 256;
/// How often it is seen whether a client that has ended its output still listens.
const LOOK: Duration = Duration::from_millis(100);
/// How many agents one client may have.
const MOST_AGENTS: usize = 64;
/// The agent that answered `initialize`.
const FIRST: usize = 0;

/// The link of `first` and of all agents that are started beside it. Must be called inside a runtime.
pub(crate) fn beside(first: Link, open: FolderOpener, grace: Duration) -> Link {
    let (ours, client) = acp_link::memory(BURST);
    let (events, heard) = mpsc::channel(BURST);
    let folders = Folders {
        client: client.tx.clone(),
        to_client: VecDeque::new(),
        client_ended: false,
        is_over: false,
        open,
        events,
        heard,
        agents: vec![Agent::new(Value::Null, Phase::Ready)],
        introduction: Map::new(),
        login: None,
        sessions: HashMap::new(),
        owed: Pending::default(),
        asked: Pending::default(),
        numbers: 0,
    };
    tokio::spawn(folders.run(client, first, grace));
    ours
}

/// A client may not have one more agent.
#[derive(Debug, thiserror::Error)]
#[error("this client has {MOST_AGENTS} agents in other folders; no more are started")]
struct TooManyAgents;

/// What happens to an agent.
enum Event {
    Opened(Box<Result<OpenedAgent, AgentUnavailable>>),
    Line(Bytes),
    Ended,
}

/// ```text
/// Starting ──opened──► Greeted ──initialize answered──► Ready ──► Gone
/// ```
#[derive(PartialEq, Eq)]
enum Phase {
    Starting,
    /// `initialize` was sent under this id.
    Greeted(Id),
    Ready,
    Gone,
}

struct Agent {
    /// What it was told at `initialize`: `working_directory` and `mcp_servers`.
    told: Value,
    phase: Phase,
    /// Without bound: an agent that does not read keeps nobody waiting.
    tx: Option<mpsc::UnboundedSender<Bytes>>,
    child: Option<Child>,
    /// What it gets once it is ready.
    waiting: Vec<Bytes>,
    /// The session that was last spoken of: its requests name none.
    session: Option<String>,
}

impl Agent {
    fn new(told: Value, phase: Phase) -> Agent {
        Agent { told, phase, tx: None, child: None, waiting: Vec::new(), session: None }
    }
}

/// What happens beside the client's link.
enum Happened {
    Agent(usize, Event),
    /// Time to see whether the client still listens.
    Look,
}

/// A machine whose link goes to the client.
struct Folders {
    client: Sender,
    to_client: VecDeque<Bytes>,
    client_ended: bool,
    is_over: bool,
    open: FolderOpener,
    events: mpsc::Sender<(usize, Event)>,
    heard: mpsc::Receiver<(usize, Event)>,
    agents: Vec<Agent>,
    /// The params of the client's `initialize` and `authenticate`, for agents that are started later.
    introduction: Map<String, Value>,
    login: Option<String>,
    /// Which agent has a session.
    sessions: HashMap<String, usize>,
    /// Which agent owes the answer to a request of the client.
    owed: Pending<usize>,
    /// Requests of agents under the ids that the client sees.
    asked: Pending<(usize, Id)>,
    numbers: u64,
}

impl Machine for Folders {
    type Event = Happened;
    type Ending = ();

    fn receive(&mut self, arrival: Arrival, _: &Receiver) {
        self.client_says(arrival.line.bytes());
    }

    fn input_ended(&mut self, _: &Receiver) -> Option<()> {
        self.client_ended = true;
        self.agents.iter_mut().for_each(|agent| drop(agent.tx.take()));
        None
    }

    fn poll(&mut self) -> Output<()> {
        match self.to_client.pop_front() {
            Some(line) => Output::Line(line),
            None if self.is_over => Output::End(()),
            None => Output::Idle,
        }
    }

    async fn event(&mut self, is_free: bool) -> Happened {
        // What agents say waits in their links while the client does not read.
        let hears = is_free && self.to_client.is_empty();
        tokio::select! {
            Some((at, event)) = self.heard.recv(), if hears => Happened::Agent(at, event),
            () = tokio::time::sleep(LOOK), if self.client_ended => Happened::Look,
            else => std::future::pending().await,
        }
    }

    fn happened(&mut self, event: Happened) {
        match event {
            Happened::Agent(at, Event::Opened(opened)) => self.opened(at, *opened),
            Happened::Agent(at, Event::Line(line)) => self.agent_says(at, &line),
            Happened::Agent(FIRST, Event::Ended) => self.is_over = true,
            Happened::Agent(at, Event::Ended) => self.gone(at, "it ended"),
            Happened::Look => {
                self.is_over |= matches!(self.client.ready().now_or_never(), Some(Err(_)));
            }
        }
    }

    fn unwritable(&mut self, _: LinkClosed, _: bool) -> Option<()> {
        // Its last requests may still be on their way.
        None
    }
}

impl Folders {
    async fn run(mut self, mut client: Link, first: Link, grace: Duration) {
        let Link { tx, rx } = first;
        self.agents[FIRST].tx = Some(writer(tx));
        tokio::spawn(listen(FIRST, rx, self.events.clone()));
        drive(&mut client, &mut self).await;
        for agent in &mut self.agents {
            drop(agent.tx.take());
            if let Some(child) = &mut agent.child {
                child.shutdown(grace).await;
            }
        }
        let _ = client.tx.finish().await;
    }

    fn client_says(&mut self, line: &Bytes) {
        let frame = Frame::parse(line.clone());
        match frame.view() {
            View::Response { id, reply } => match self.asked.remove(id) {
                Some((at, id)) => self.pass(at, answer(&id, &reply)),
                None => self.pass(FIRST, line.clone()),
            },
            View::Request { id, method, params } => {
                let (at, line) = match self.place(method, params) {
                    Ok((at, None)) => (at, line.clone()),
                    Ok((at, Some(params))) => (at, Frame::request(id, method, &params).raw().clone()),
                    Err(refusal) => return self.refuse(id, &refusal.to_string()),
                };
                if self.owed.replace(id, at).is_err() {
                    return self.refuse(id, "too many requests wait for an answer");
                }
                self.pass(at, line);
            }
            View::Notification { params, .. } => {
                let at = session_in(params).and_then(|session| self.sessions.get(&session).copied());
                self.pass(at.unwrap_or(FIRST), line.clone());
            }
            View::Batch(_) | View::Malformed(_) => self.pass(FIRST, line.clone()),
        }
    }

    /// Which agent a request is for, and its params where they are to be changed.
    fn place(&mut self, method: &str, params: Option<&str>) -> Result<(usize, Option<Value>), TooManyAgents> {
        let mut params: Value =
            params.and_then(|params| serde_json::from_str(params).ok()).unwrap_or_default();
        match method {
            method::INITIALIZE => {
                self.agents[FIRST].told = told(&params);
                self.introduction = params.as_object().cloned().unwrap_or_default();
                return Ok((FIRST, None));
            }
            method::AUTHENTICATE => {
                self.login = Some(params.to_string());
                return Ok((FIRST, None));
            }
            _ => {}
        }
        let Some(session) = params["session_id"].as_str().map(str::to_owned) else {
            return Ok((FIRST, None));
        };
        let Some(start) = take_start(&mut params) else {
            let at = self.sessions.get(&session).copied().unwrap_or(FIRST);
            self.agents[at].session = Some(session);
            return Ok((at, None));
        };
        let at = self.agent_for(&told(&start))?;
        self.agents[at].session = Some(session.clone());
        self.sessions.insert(session, at);
        Ok((at, Some(params)))
    }

    /// The agent that was told this, or one that is started now.
    fn agent_for(&mut self, told: &Value) -> Result<usize, TooManyAgents> {
        let fits = |agent: &Agent| agent.phase != Phase::Gone && agent.told == *told;
        if let Some(at) = self.agents.iter().position(fits) {
            return Ok(at);
        }
        if self.agents.len() >= MOST_AGENTS {
            return Err(TooManyAgents);
        }
        let at = self.agents.len();
        self.agents.push(Agent::new(told.clone(), Phase::Starting));
        let folder = PathBuf::from(told["working_directory"].as_str().unwrap_or("/"));
        let (opening, events) = ((self.open)(folder), self.events.clone());
        tokio::spawn(async move {
            let _ = events.send((at, Event::Opened(Box::new(opening.await)))).await;
        });
        Ok(at)
    }

    fn opened(&mut self, at: usize, opened: Result<OpenedAgent, AgentUnavailable>) {
        let (Link { tx, rx }, child) = match opened {
            Ok(opened) => opened,
            Err(why) => return self.gone(at, &why.to_string()),
        };
        tokio::spawn(listen(at, rx, self.events.clone()));
        let id = self.own_id();
        let mut params = self.introduction.clone();
        for (name, value) in self.agents[at].told.as_object().into_iter().flatten() {
            params.insert(name.clone(), value.clone());
        }
        let tx = writer(tx);
        let _ = tx.send(Frame::request(&id, method::INITIALIZE, &params).raw().clone());
        let agent = &mut self.agents[at];
        (agent.tx, agent.child, agent.phase) = (Some(tx), child, Phase::Greeted(id));
    }

    fn agent_says(&mut self, at: usize, line: &Bytes) {
        let frame = Frame::parse(line.clone());
        let line = match frame.view() {
            View::Response { id, reply } if self.agents[at].phase == Phase::Greeted(id.clone()) => {
                return self.introduced(at, &reply);
            }
            View::Response { id, .. } if at != FIRST && self.owed.remove(id).is_none() => return,
            View::Request { id, method, params } if at != FIRST => {
                let seen = self.own_id();
                let _ = self.asked.replace(&seen, (at, id.clone()));
                let params = self.with_session(at, params);
                Frame::request(&seen, method, &params).raw().clone()
            }
            View::Response { id, .. } => {
                self.owed.remove(id);
                line.clone()
            }
            _ => line.clone(),
        };
        self.to_client.push_back(line);
    }

    /// An agent that was started later has answered `initialize`: it gets what waits for it.
    fn introduced(&mut self, at: usize, reply: &Reply<'_>) {
        if let Reply::Error(error) = reply {
            return self.gone(at, &format!("it refused initialize: {error}"));
        }
        self.agents[at].phase = Phase::Ready;
        let login = self.login.clone().map(|params| {
            let id = self.own_id();
            let method = method::AUTHENTICATE;
            Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
        });
        let waiting = std::mem::take(&mut self.agents[at].waiting);
        for line in login.into_iter().chain(waiting) {
            self.pass(at, line);
        }
    }

    /// The params of a request of an agent, with the session that it most likely means.
    fn with_session(&self, at: usize, params: Option<&str>) -> Value {
        let mut params: Value =
            params.and_then(|params| serde_json::from_str(params).ok()).unwrap_or_default();
        if let (Some(session), Some(fields)) = (&self.agents[at].session, params.as_object_mut())
            && !fields.contains_key("_meta")
        {
            fields.insert("_meta".to_owned(), json!({ Dialect::V1.meta_key(): { "sessionId": session } }));
        }
        params
    }

    /// An agent other than the first is gone: what it owes is answered with the reason.
    fn gone(&mut self, at: usize, why: &str) {
        let agent = &mut self.agents[at];
        agent.phase = Phase::Gone;
        drop(agent.tx.take());
        agent.waiting.clear();
        self.sessions.retain(|_, owner| *owner != at);
        let owed = self.owed.drain_if(|_, owner| *owner == at);
        let folder = self.agents[at].told["working_directory"].as_str().unwrap_or("/").to_owned();
        for (id, _) in owed {
            self.refuse(&id, &format!("the agent in {folder} is gone: {why}"));
        }
    }

    fn pass(&mut self, at: usize, line: Bytes) {
        let agent = &mut self.agents[at];
        match (&agent.phase, &agent.tx) {
            (Phase::Ready, Some(tx)) => drop(tx.send(line)),
            (Phase::Ready | Phase::Gone, _) => {}
            _ => agent.waiting.push(line),
        }
    }

    fn refuse(&mut self, id: &Id, why: &str) {
        self.to_client.push_back(Frame::failure(id, &RpcError::internal(why)).raw().clone());
    }

    fn own_id(&mut self) -> Id {
        self.numbers += 1;
        Id::from(format!("acp-proxy-folder-{}", self.numbers))
    }
}

/// What an agent is told at `initialize`, of params that say it.
fn told(params: &Value) -> Value {
    let servers = params.get("mcp_servers").cloned().unwrap_or_else(|| json!([]));
    json!({ "working_directory": params["working_directory"], "mcp_servers": servers })
}

/// Takes what the translator says about the agent that a session needs.
fn take_start(params: &mut Value) -> Option<Value> {
    let meta = params.get_mut("_meta")?.as_object_mut()?;
    let start = meta.remove(START_KEY)?;
    if meta.is_empty()
        && let Some(params) = params.as_object_mut()
    {
        params.remove("_meta");
    }
    Some(start)
}

fn session_in(params: Option<&str>) -> Option<String> {
    let params: Value = serde_json::from_str(params?).ok()?;
    Some(params.get("session_id")?.as_str()?.to_owned())
}

/// The client's answer under the agent's own id, its text as it came.
fn answer(id: &Id, reply: &Reply<'_>) -> Bytes {
    let (name, text) = match reply {
        Reply::Result(text) => ("result", text),
        Reply::Error(text) => ("error", text),
    };
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"{name}":{text}}}"#))
}

/// Writes to an agent until the last sender is gone; then its input ends.
fn writer(tx: Sender) -> mpsc::UnboundedSender<Bytes> {
    let (lines, mut queue) = mpsc::unbounded_channel::<Bytes>();
    tokio::spawn(async move {
        while let Some(line) = queue.recv().await {
            if tx.send(line).await.is_err() {
                return;
            }
        }
        tx.close();
    });
    lines
}

/// Tells what an agent says.
async fn listen(at: usize, mut rx: Receiver, events: mpsc::Sender<(usize, Event)>) {
    while let Some(arrival) = rx.recv().await {
        if events.send((at, Event::Line(arrival.line.bytes().clone()))).await.is_err() {
            return;
        }
    }
    let _ = events.send((at, Event::Ended)).await;
}
