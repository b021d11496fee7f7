//! The agent's process: the scripted agent with its faults, its sessions, its own hands and its MCP servers.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_comply::ExitRecord;
use acp_rpc::{DEFAULT_LINE_LIMIT, Frame, Id, Splitter, View};
use acp_script::agent::{AgentConfig, AgentEffect, Habits, SessionRecord};
use acp_script::defects::Defect;
use acp_script::faults::Fault;
use acp_script::variants::{HabitsError, Variant};
use acp_script::{MockAgent, Switch};
use bytes::Bytes;
use serde_json::Value;

use crate::files::Files;
use crate::local_tools::LocalTools;
use crate::mcp::{Served, Servers};
use crate::queue::{Item, Queue};
use crate::terminals::{Answer, Answers};

/// How long a line is on its way.
pub(crate) const LAG: Duration = Duration::from_millis(1);
/// When a grandchild writes.
const GRANDCHILD: Duration = Duration::from_millis(100);
/// How many effects in a row show that an agent never rests.
const RESTLESS: usize = 2_000_000;

/// Which agent is played.
#[derive(Clone, Debug, Default)]
pub struct Actor {
    /// How it is.
    pub config: AgentConfig,
    /// What happens to its frames.
    pub faults: Vec<Fault>,
    /// What it does wrong besides.
    pub switches: Vec<Switch>,
}

impl Actor {
    /// The mock as these variants make it; an error when they contradict each other.
    pub fn with<'a>(variants: impl IntoIterator<Item = &'a Variant> + Clone) -> Result<Self, HabitsError> {
        let habits = Habits::with(variants.clone())?;
        let faults = variants.into_iter().flat_map(|variant| variant.faults.iter().cloned()).collect();
        let config = AgentConfig { habits, ..AgentConfig::default() };
        Ok(Self { config, faults, switches: Vec::new() })
    }

    /// The same agent with this defect.
    #[must_use]
    pub fn broken(mut self, defect: &Defect) -> Self {
        self.faults.extend(defect.faults.iter().cloned());
        self.switches.extend(defect.switch);
        self
    }
}

/// The sessions that outlive a process.
pub(crate) type Store = BTreeMap<String, SessionRecord>;

/// What an agent uses of the world around it.
pub(crate) struct Around<'a> {
    pub(crate) now: Duration,
    pub(crate) files: &'a mut Files,
    pub(crate) store: &'a mut Store,
    pub(crate) queue: &'a mut Queue,
}

pub(crate) struct Process {
    connection: u32,
    player: MockAgent,
    input: Splitter,
    local_tools: LocalTools,
    servers: Servers,
    stderr: Vec<u8>,
    /// It has ended, or does nothing more.
    over: bool,
    /// The last time at which something it said arrives.
    said: Duration,
    left_behind: bool,
    exit_delay: Duration,
}

impl Process {
    pub(crate) fn start(actor: &Actor, connection: u32, now: Duration) -> Self {
        let mut config = actor.config.clone();
        let exit_delay = config.habits.exit_delay;
        config.id_prefix = format!("{connection}");
        // Some day; what matters is that it goes on between two processes.
        config.started = Duration::from_secs(1_767_225_600) + now;
        Self {
            connection,
            player: MockAgent::new(config, &actor.faults, u64::from(connection)).wrong(&actor.switches),
            input: Splitter::new(DEFAULT_LINE_LIMIT),
            local_tools: LocalTools::default(),
            servers: Servers::default(),
            stderr: Vec::new(),
            over: false,
            said: now,
            left_behind: false,
            exit_delay,
        }
    }

    /// Whether it left a process behind.
    pub(crate) fn left_behind(&self) -> bool {
        self.left_behind
    }

    pub(crate) fn receive(&mut self, around: &mut Around<'_>, bytes: &[u8]) {
        if self.over {
            return;
        }
        self.input.push(bytes);
        while let Some(line) = self.input.next_line() {
            self.player.saw_returns(self.input.crlf_lines());
            self.player.receive(around.now, &Frame::from(line));
            self.act(around);
        }
    }

    /// Its input has ended.
    pub(crate) fn end_input(&mut self, around: &mut Around<'_>) {
        if self.over {
            return;
        }
        if let Some(line) = self.input.finish() {
            self.player.receive(around.now, &Frame::from(line));
            self.act(around);
        }
        let survives = self.player.end(around.now);
        self.act(around);
        if self.over {
            return;
        }
        match survives {
            true => self.over = true,
            false => {
                self.said = self.said.max(around.now + self.exit_delay);
                self.exit(around, 0);
            }
        }
    }

    pub(crate) fn tick(&mut self, around: &mut Around<'_>) {
        if !self.over {
            self.player.tick(around.now);
            self.act(around);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        if self.over { None } else { self.player.next_deadline() }
    }

    /// Takes what happened around it.
    pub(crate) fn take(&mut self, around: &mut Around<'_>, item: Item) {
        if self.over {
            return;
        }
        match item {
            Item::Own(frame) => self.player.agent().own_answered(around.now, &frame),
            Item::OwnTerminal => {
                let due = self.local_tools.due(around.now);
                self.answer_own(around, due);
            }
            Item::McpConnected(key, outcome) => self.player.agent().mcp_connected(key, outcome),
            Item::McpAnswered(token, answer) if self.servers.is_wanted(token) => {
                self.player.agent().mcp_answered(token, answer);
            }
            _ => return,
        }
        self.act(around);
    }

    /// Carries out effects until there are none.
    fn act(&mut self, around: &mut Around<'_>) {
        for _ in 0..RESTLESS {
            if self.over {
                return;
            }
            let Some(effect) = self.player.poll_effect() else { return };
            self.perform(around, effect);
        }
        self.exit(around, 1);
    }

    fn perform(&mut self, around: &mut Around<'_>, effect: AgentEffect) {
        match effect {
            AgentEffect::Send(frame) => {
                let mut bytes = frame.raw().to_vec();
                bytes.push(b'\n');
                self.say(around, Bytes::from(bytes));
            }
            AgentEffect::SendRaw(bytes) => self.say(around, bytes),
            AgentEffect::Stderr(line) => {
                self.stderr.extend_from_slice(&line);
                self.stderr.push(b'\n');
            }
            AgentEffect::Exit(code) => self.exit(around, code),
            AgentEffect::Hangup => self.exit(around, 0),
            AgentEffect::LeaveChild => self.left_behind = true,
            AgentEffect::Grandchild(text) => {
                let line = Bytes::from(format!("{text}\n"));
                around.queue.push(around.now + GRANDCHILD, self.connection, Item::Output(line));
                self.said = self.said.max(around.now + GRANDCHILD);
            }
            AgentEffect::Own(frame) => self.own(around, &frame),
            AgentEffect::Abandon { token } => self.servers.abandon(token),
            AgentEffect::McpConnect { key, server, cwd } => {
                let served = self.servers.connect(key, &server, &cwd);
                self.served(around, served, |answer| Item::McpConnected(key, answer));
            }
            AgentEffect::McpDisconnect { key } => {
                let log = self.servers.disconnect(key);
                self.log(around, LAG, log);
            }
            AgentEffect::McpCall { key, token, tool, arguments } => {
                let served = self.servers.call(around.files, key, &tool, &arguments);
                self.served(around, served, |answer| Item::McpAnswered(token, answer));
            }
            AgentEffect::StoreSession(record) => drop(around.store.insert(record.id.clone(), *record)),
            AgentEffect::DeleteSession(id) => drop(around.store.remove(&id)),
            AgentEffect::FetchSession { token, id } => {
                let record = around.store.get(&id).cloned();
                self.player.session_fetched(token, &id, record);
            }
            AgentEffect::ListSessions { token } => {
                let sessions = around.store.values().map(SessionRecord::summary).collect();
                self.player.sessions_listed(token, sessions);
            }
            // Only of agents with a model or tools of their own.
            AgentEffect::Tool(_) | AgentEffect::Think { .. } | AgentEffect::SessionClosed(_) => {}
        }
    }

    fn say(&mut self, around: &mut Around<'_>, bytes: Bytes) {
        self.said = self.said.max(around.now + LAG);
        around.queue.push(around.now + LAG, self.connection, Item::Output(bytes));
    }

    /// Does something by itself that other agents ask their client for.
    fn own(&mut self, around: &mut Around<'_>, frame: &Frame) {
        let (id, method, params) = match frame.view() {
            View::Request { id, method, params } => (id, method, params),
            View::Notification { params: Some(params), .. } => {
                // The only notification is that a request is taken back.
                let params: Value = serde_json::from_str(params).unwrap_or_default();
                if let Some(id) = Id::parse(&params["requestId"].to_string()) {
                    self.local_tools.take_back(&id);
                }
                return;
            }
            _ => return,
        };
        let params: Value = params.and_then(|params| serde_json::from_str(params).ok()).unwrap_or_default();
        // Its own rules keep it inside of its session's folders.
        let (answer, waited) = self.local_tools.serve(around.now, around.files, "/", (id, method, &params));
        match answer {
            Answer::Now(result) => self.answer_own(around, vec![(id.clone(), result)]),
            Answer::At(time) => around.queue.push(time, self.connection, Item::OwnTerminal),
        }
        self.answer_own(around, waited);
    }

    fn answer_own(&self, around: &mut Around<'_>, answers: Answers) {
        for (id, result) in answers {
            around.queue.push(around.now + LAG, self.connection, Item::Own(response(&id, &result)));
        }
    }

    fn served<T>(
        &self,
        around: &mut Around<'_>,
        served: Served<T>,
        item: impl FnOnce(Result<T, String>) -> Item,
    ) {
        self.log(around, served.after / 2, served.log);
        if let Some(answer) = served.answer {
            around.queue.push(around.now + served.after, self.connection, item(answer));
        }
    }

    fn log(&self, around: &mut Around<'_>, after: Duration, lines: Vec<Value>) {
        for line in lines {
            around.queue.push(around.now + after, self.connection, Item::McpLog(line));
        }
    }

    fn exit(&mut self, around: &mut Around<'_>, code: i32) {
        self.over = true;
        let log = self.servers.close();
        self.log(around, LAG, log);
        let stderr = String::from_utf8_lossy(&self.stderr).into_owned();
        let at = self.said.max(around.now) + LAG;
        around.queue.push(
            at,
            self.connection,
            Item::End(ExitRecord { code: Some(code), signal: None, stderr }),
        );
    }
}

/// The frame of an answer.
pub(crate) fn response(id: &Id, result: &Result<Value, acp_rpc::RpcError>) -> Frame {
    match result {
        Ok(result) => Frame::response(id, result),
        Err(error) => Frame::failure(id, error),
    }
}
