//! An agent on a harness: what it sends and wants is collected, and time passes only when it is told to.

use std::time::Duration;

use acp_policy::Policy;
use acp_rpc::{Frame, Id};
use acp_script::agent::{
    Agent, AgentAbilities, AgentConfig, AgentEffect, AgentLimits, ConfigOption, McpKey, Mode, ModelQuestion,
    Persona, SessionRecord, Token, ToolRules, ToolUse, UserHints,
};
use serde_json::{Value, json};

/// An agent like the reference agent.
pub(crate) fn config() -> AgentConfig {
    let modes = vec![
        Mode::new("NORMAL", "Normal", "", Policy::Default),
        Mode::new("PLANNING", "Planning", "", Policy::Plan).or("plan"),
        Mode::new("bypassPermissions", "Bypass", "", Policy::BypassPermissions),
    ];
    AgentConfig {
        persona: Persona { options: vec![ConfigOption::mode(&modes)], modes, ..Persona::default() },
        abilities: AgentAbilities {
            local_tools: true,
            code: true,
            delegate: true,
            ..AgentAbilities::default()
        },
        rules: ToolRules { careful: true, ..ToolRules::default() },
        limits: AgentLimits { request: Some(Duration::from_secs(30)), ..AgentLimits::default() },
        hints: UserHints { longer_answers: ", or --max-tokens".to_owned(), ..UserHints::default() },
        durable: true,
        ..AgentConfig::default()
    }
}

/// The same with something changed.
pub(crate) fn config_with(change: impl FnOnce(&mut AgentConfig)) -> AgentConfig {
    let mut config = config();
    change(&mut config);
    config
}

pub(crate) struct AgentUnderTest {
    pub(crate) agent: Agent,
    pub(crate) now: Duration,
    /// Frames for the client.
    pub(crate) sent: Vec<Value>,
    /// Requests for its own hands.
    pub(crate) own: Vec<Value>,
    pub(crate) tools: Vec<ToolUse>,
    pub(crate) questions: Vec<(Token, ModelQuestion)>,
    pub(crate) abandoned: Vec<Token>,
    pub(crate) stored: Option<SessionRecord>,
    pub(crate) fetches: Vec<Token>,
    /// Sessions that it wants forgotten.
    pub(crate) deleted: Vec<String>,
    /// Connections to MCP servers that it wants.
    pub(crate) servers: Vec<McpKey>,
    /// Calls of their tools.
    pub(crate) called: Vec<(Token, McpKey, String)>,
    next: i64,
    pub(crate) session: String,
}

impl AgentUnderTest {
    /// An agent with one open session; the client has no capabilities unless `caps` says so.
    pub(crate) fn new(config: AgentConfig, caps: &Value) -> Self {
        let mut harness = Self {
            agent: Agent::new(config),
            now: Duration::ZERO,
            sent: Vec::new(),
            own: Vec::new(),
            tools: Vec::new(),
            questions: Vec::new(),
            abandoned: Vec::new(),
            stored: None,
            fetches: Vec::new(),
            deleted: Vec::new(),
            servers: Vec::new(),
            called: Vec::new(),
            next: 100,
            session: String::new(),
        };
        harness.ask("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": caps }));
        let id = harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [] }));
        harness.session = harness.answer(id)["result"]["sessionId"].as_str().expect("a session").to_owned();
        harness
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> i64 {
        self.next += 1;
        let frame = Frame::request(&Id::Int(self.next), method, params);
        self.agent.receive(self.now, &frame);
        self.run();
        self.next
    }

    pub(crate) fn tell(&mut self, method: &str, params: &Value) {
        self.agent.receive(self.now, &Frame::notification(method, params));
        self.run();
    }

    pub(crate) fn prompt(&mut self, text: &str) -> i64 {
        let params = json!({ "sessionId": self.session, "prompt": [{ "type": "text", "text": text }] });
        self.ask("session/prompt", &params)
    }

    pub(crate) fn cancel(&mut self) {
        let params = json!({ "sessionId": self.session });
        self.tell("session/cancel", &params);
    }

    /// Answers the agent's last request of this method.
    pub(crate) fn reply(&mut self, method: &str, result: &Value) {
        let mut all = self.sent.iter().chain(&self.own);
        let asked = all.rfind(|frame| frame["method"] == method).expect("a request");
        let id = Id::parse(&asked["id"].to_string()).expect("an id");
        self.agent.receive(self.now, &Frame::response(&id, result));
        self.run();
    }

    pub(crate) fn allow(&mut self) {
        let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "allow-once" } });
        self.reply("session/request_permission", &chosen);
    }

    pub(crate) fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.agent.tick(self.now);
        self.run();
    }

    /// Lets the agent do all it can.
    pub(crate) fn run(&mut self) {
        while let Some(effect) = self.agent.poll_effect() {
            match effect {
                AgentEffect::Send(frame) => self.sent.push(value(&frame)),
                AgentEffect::Own(frame) => self.own.push(value(&frame)),
                AgentEffect::Tool(tool) => self.tools.push(*tool),
                AgentEffect::Think { token, question } => self.questions.push((token, *question)),
                AgentEffect::Abandon { token } => self.abandoned.push(token),
                AgentEffect::StoreSession(record) => self.stored = Some(*record),
                AgentEffect::FetchSession { token, .. } | AgentEffect::ListSessions { token } => {
                    self.fetches.push(token);
                }
                AgentEffect::McpConnect { key, .. } => self.servers.push(key),
                AgentEffect::McpCall { key, token, tool, .. } => self.called.push((token, key, tool)),
                AgentEffect::DeleteSession(session) => self.deleted.push(session),
                AgentEffect::SessionClosed(_) => {}
                other => panic!("nobody asked for {other:?}"),
            }
        }
    }

    pub(crate) fn answer(&self, id: i64) -> &Value {
        self.find(id).unwrap_or_else(|| panic!("{id} is not answered: {:#?}", self.sent))
    }

    pub(crate) fn find(&self, id: i64) -> Option<&Value> {
        self.sent.iter().find(|frame| frame["id"] == id && frame.get("method").is_none())
    }

    /// How often the person was asked for permission.
    pub(crate) fn questions_asked(&self) -> usize {
        self.sent.iter().filter(|frame| frame["method"] == "session/request_permission").count()
    }

    /// The bodies of all updates.
    pub(crate) fn updates(&self) -> Vec<&Value> {
        let updates = self.sent.iter().filter(|frame| frame["method"] == "session/update");
        updates.map(|frame| &frame["params"]["update"]).collect()
    }

    /// What the agent said.
    pub(crate) fn words(&self) -> String {
        let said =
            self.updates().into_iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        said.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    /// The states of all tool calls of this name, in order.
    pub(crate) fn states(&self, name: &str) -> Vec<String> {
        let begun = self.updates();
        let ids: Vec<&Value> = begun
            .iter()
            .filter(|update| update["name"] == name)
            .map(|update| &update["toolCallId"])
            .collect();
        let states = begun.iter().filter(|update| ids.contains(&&update["toolCallId"]));
        states.filter_map(|update| update["status"].as_str().map(str::to_owned)).collect()
    }
}

fn value(frame: &Frame) -> Value {
    serde_json::from_slice(frame.raw()).expect("the agent writes JSON")
}
