//! A plain client at a harness: it talks to a player in virtual time, answers what it is asked, and has a judge
//! look over its shoulder.
#![allow(dead_code, reason = "each test file uses another part")]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub mod tour;

use acp_rpc::{Direction, Frame, Id, Reply, RpcError, Splitter, View};
use acp_rules::{Finding, Judge, JudgeConfig, Side};
use acp_script::MockAgent;
use acp_script::agent::{AgentConfig, AgentEffect, AgentLimits, McpTool, SessionRecord};
use acp_script::faults::Fault;
use serde_json::{Value, json};

/// The client's whole world.
pub struct AgentUnderTest {
    pub player: MockAgent,
    pub judge: Judge,
    pub now: Duration,
    /// Everything that came out, as text.
    pub log: Vec<String>,
    pub store: BTreeMap<String, SessionRecord>,
    pub files: BTreeMap<String, String>,
    /// The option chosen for permission requests; empty answers `cancelled`, `-` does not answer.
    pub verdict: String,
    /// The answer to elicitations.
    pub elicited: Value,
    pub caps: Value,
    pub dead: bool,
    splitter: Splitter,
    inbox: VecDeque<Frame>,
    responses: BTreeMap<String, Value>,
    next_id: i64,
    terminals: u32,
    /// `terminal/wait_for_exit` requests that wait for a kill.
    waiting: Vec<(String, Id)>,
}

/// Everything a client can do.
pub fn all_caps() -> Value {
    json!({
        "fs": { "readTextFile": true, "writeTextFile": true },
        "terminal": true,
        "elicitation": { "form": {}, "url": {} },
        "session": { "configOptions": { "boolean": {} }, "notices": {}, "compaction": {} },
    })
}

/// An agent whose ids and times are the same in every run.
pub fn config() -> AgentConfig {
    AgentConfig {
        id_prefix: "t".to_owned(),
        started: Duration::from_secs(1_700_000_000),
        limits: AgentLimits { page_size: 3, ..AgentLimits::default() },
        ..AgentConfig::default()
    }
}

impl AgentUnderTest {
    pub fn new(config: AgentConfig, faults: &[Fault], caps: Value) -> Self {
        let files =
            [("/work/notes.txt", "rosemary and thyme\n"), ("/work/lines.txt", "alpha\nbeta\ngamma\n")];
        Self {
            player: MockAgent::new(config, faults, 1),
            judge: Judge::new(JudgeConfig::default()),
            now: Duration::ZERO,
            log: Vec::new(),
            store: BTreeMap::new(),
            files: files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect(),
            verdict: "allow-once".to_owned(),
            elicited: json!({ "action": "accept", "content": { "favourite_colour": "green", "name": "Ada" } }),
            caps,
            dead: false,
            splitter: Splitter::default(),
            inbox: VecDeque::new(),
            responses: BTreeMap::new(),
            next_id: 0,
            terminals: 0,
            waiting: Vec::new(),
        }
    }

    /// Sends any line.
    pub fn line(&mut self, line: &str) {
        self.send(&Frame::parse(line.to_owned()));
        self.settle(Duration::from_secs(1));
    }

    pub fn tell(&mut self, method: &str, params: &Value) {
        self.send(&Frame::notification(method, params));
    }

    /// Sends a request without waiting for its answer.
    pub fn begin(&mut self, method: &str, params: &Value) -> i64 {
        self.next_id += 1;
        self.send(&Frame::request(&Id::Int(self.next_id), method, params));
        self.next_id
    }

    /// Sends a request and waits up to a minute of virtual time for its answer.
    pub fn ask(&mut self, method: &str, params: &Value) -> Option<Value> {
        let id = self.begin(method, params);
        self.answer_to(id)
    }

    /// Waits up to a minute for the answer to a request.
    pub fn answer_to(&mut self, id: i64) -> Option<Value> {
        let key = id.to_string();
        let limit = self.now + Duration::from_secs(60);
        while !self.responses.contains_key(&key) && !self.dead && self.step(limit) {}
        // What still comes at the same moment belongs to the same burst.
        self.settle(Duration::ZERO);
        self.responses.remove(&key)
    }

    pub fn greet(&mut self) -> Option<Value> {
        let caps = self.caps.clone();
        self.ask("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": caps }))
    }

    pub fn session(&mut self) -> String {
        self.session_with(&json!({}))
    }

    pub fn session_with(&mut self, more: &Value) -> String {
        let mut params = json!({ "cwd": "/work", "mcpServers": [] });
        for (key, value) in more.as_object().into_iter().flatten() {
            params[key] = value.clone();
        }
        let answer = self.ask("session/new", &params).unwrap_or_default();
        answer.pointer("/result/sessionId").and_then(Value::as_str).unwrap_or("none").to_owned()
    }

    pub fn prompt(&mut self, session: &str, text: &str) -> Option<Value> {
        let id = self.begin_prompt(session, text);
        self.answer_to(id)
    }

    pub fn begin_prompt(&mut self, session: &str, text: &str) -> i64 {
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        self.begin("session/prompt", &params)
    }

    /// Lets the given time pass.
    pub fn settle(&mut self, time: Duration) {
        let limit = self.now + time;
        while !self.dead && self.step(limit) {}
        self.now = limit;
        self.player.tick(limit);
        while !self.dead && self.step(limit) {}
    }

    /// Ends the conversation; the agent's findings.
    pub fn finish(&mut self) -> Vec<Finding> {
        if self.player.end(self.now) {
            self.log.push("survives the end of input".to_owned());
        }
        self.carry_out();
        self.judge.close(self.now);
        self.judge.findings().iter().filter(|finding| finding.blame == Side::Agent).cloned().collect()
    }

    fn send(&mut self, frame: &Frame) {
        self.judge.observe(self.now, Direction::ClientToAgent, frame);
        self.player.receive(self.now, frame);
        self.carry_out();
    }

    /// Goes on with whatever is next; false when nothing is before `limit`.
    fn step(&mut self, limit: Duration) -> bool {
        self.carry_out();
        if let Some(frame) = self.inbox.pop_front() {
            self.send(&frame);
            return true;
        }
        match self.player.next_deadline() {
            Some(at) if at <= limit => {
                self.now = self.now.max(at);
                self.player.tick(self.now);
                self.carry_out();
                true
            }
            _ => false,
        }
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.player.poll_effect() {
            if self.dead {
                continue;
            }
            match effect {
                AgentEffect::Send(frame) => self.heard(&frame),
                AgentEffect::SendRaw(bytes) => {
                    self.splitter.push(&bytes);
                    while let Some(line) = self.splitter.next_line() {
                        let frame = Frame::from(line);
                        self.heard(&frame);
                    }
                }
                AgentEffect::Exit(_) | AgentEffect::Hangup => {
                    self.log.push(format!("{effect:?}"));
                    self.dead = true;
                }
                AgentEffect::StoreSession(record) => drop(self.store.insert(record.id.clone(), *record)),
                AgentEffect::DeleteSession(id) => drop(self.store.remove(&id)),
                AgentEffect::FetchSession { token, id } => {
                    let record = self.store.get(&id).cloned();
                    self.player.session_fetched(token, &id, record);
                }
                AgentEffect::ListSessions { token } => {
                    let records = self.store.values().map(SessionRecord::summary).collect();
                    self.player.sessions_listed(token, records);
                }
                AgentEffect::McpConnect { key, ref server, .. } => {
                    self.log.push(format!("connects to {server}"));
                    let tool = McpTool { name: "ping".to_owned(), ..McpTool::default() };
                    self.player.agent().mcp_connected(key, Ok(vec![tool]));
                }
                AgentEffect::McpCall { token, ref tool, .. } => {
                    self.log.push(format!("calls {tool}"));
                    let pong = json!({ "content": [{ "type": "text", "text": "pong" }] });
                    self.player.agent().mcp_answered(token, Ok(pong));
                }
                other => self.log.push(format!("{other:?}")),
            }
        }
    }

    fn heard(&mut self, frame: &Frame) {
        self.log.push(format!("{:?} {}", self.now, String::from_utf8_lossy(frame.raw())));
        self.judge.observe(self.now, Direction::AgentToClient, frame);
        match frame.view() {
            View::Request { id, method, params } => {
                let params = params.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
                let id = id.clone();
                match self.serve(&id, method, &params) {
                    Ok(Some(result)) => self.inbox.push_back(Frame::response(&id, &result)),
                    Ok(None) => {}
                    Err(error) => self.inbox.push_back(Frame::failure(&id, &error)),
                }
            }
            View::Response { id, reply } => {
                let (name, text) = match reply {
                    Reply::Result(text) => ("result", text),
                    Reply::Error(text) => ("error", text),
                };
                let value: Value = serde_json::from_str(text).unwrap_or(Value::Null);
                self.responses.insert(id.to_string(), json!({ name: value }));
            }
            _ => {}
        }
    }

    fn able(&self, pointer: &str) -> Result<(), RpcError> {
        match self.caps.pointer(pointer) {
            Some(Value::Bool(true) | Value::Object(_)) => Ok(()),
            _ => Err(RpcError::new(-32601, "this client cannot do that")),
        }
    }

    /// Answers a request of the agent; `None` leaves it open.
    fn serve(&mut self, id: &Id, method: &str, params: &Value) -> Result<Option<Value>, RpcError> {
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match method {
            "fs/read_text_file" => {
                self.able("/fs/readTextFile")?;
                match self.files.get(&text("path")) {
                    Some(content) => Ok(Some(json!({ "content": content }))),
                    None => Err(RpcError::new(-32002, "file not found")),
                }
            }
            "fs/write_text_file" => {
                self.able("/fs/writeTextFile")?;
                self.files.insert(text("path"), text("content"));
                Ok(Some(json!({})))
            }
            "session/request_permission" => Ok(match self.verdict.as_str() {
                "-" => None,
                "" => Some(json!({ "outcome": { "outcome": "cancelled" } })),
                option => Some(json!({ "outcome": { "outcome": "selected", "optionId": option } })),
            }),
            "elicitation/create" => {
                self.able(&format!("/elicitation/{}", text("mode")))?;
                Ok((!self.elicited.is_null()).then(|| self.elicited.clone()))
            }
            "terminal/create" => {
                self.able("/terminal")?;
                self.terminals += 1;
                let kind = match text("command").as_str() {
                    "sleep" => "slow",
                    "false" => "bad",
                    _ => "term",
                };
                Ok(Some(json!({ "terminalId": format!("{kind}-{}", self.terminals) })))
            }
            "terminal/wait_for_exit" if text("terminalId").starts_with("slow") => {
                self.waiting.push((text("terminalId"), id.clone()));
                Ok(None)
            }
            "terminal/wait_for_exit" => {
                Ok(Some(json!({ "exitCode": i32::from(text("terminalId").starts_with("bad")) })))
            }
            "terminal/output" => Ok(Some(json!({ "output": "hello\n", "truncated": false }))),
            "terminal/kill" => {
                let (killed, others) = std::mem::take(&mut self.waiting)
                    .into_iter()
                    .partition(|(name, _)| *name == text("terminalId"));
                self.waiting = others;
                let killed: Vec<(String, Id)> = killed;
                for (_, id) in killed {
                    self.inbox.push_back(Frame::response(&id, &json!({ "signal": "SIGKILL" })));
                }
                Ok(Some(json!({})))
            }
            "terminal/release" => Ok(Some(json!({}))),
            other => Err(RpcError::method_not_found(other)),
        }
    }
}
