//! An open session.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use acp_proto::{StopReason, update};
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use super::cx::Cx;
use super::effect::{AgentEffect, McpKey, McpTool};
use super::plan::Planner;
use super::turn::{ActiveTurn, ParentTurn, Turn};
use super::{Connecting, Feature, SessionRecord, delegate, invalid_request, offers, record};

/// A session that is open on this connection, and what runs in it.
pub(super) struct OpenSession {
    pub(super) session: Session,
    pub(super) turn: Option<Turn>,
    /// The sessions that work on tasks of this one.
    pub(super) children: BTreeMap<String, OpenSession>,
}

/// What a session has whether a turn runs or not.
pub(super) struct Session {
    pub(super) record: SessionRecord,
    pub(super) servers: Vec<Server>,
    /// What the person allowed or rejected for good, see [`super::job::Job::standing`].
    pub(super) standing: BTreeMap<String, bool>,
    /// The requests to answer once the running turn has ended.
    pub(super) endings: Vec<(Ending, Option<Duration>)>,
    /// Prompts that wait for the running one, oldest first.
    pub(super) queue: VecDeque<(Id, Vec<Value>)>,
    /// What to tell the person with the next answer.
    pub(super) news: Vec<String>,
    /// Whose task it works on.
    pub(super) parent: Option<Parent>,
    /// The open tool calls of its tasks, by the session that works on the task.
    pub(super) delegated: BTreeMap<String, Vec<Value>>,
    /// How many tokens the model takes in, as it was last said.
    pub(super) context: Option<u64>,
}

/// Who delegated a task.
#[derive(Clone)]
pub(super) struct Parent {
    pub(super) session: String,
    /// The tool call that stands for the task.
    pub(super) call: String,
}

/// Why a session ends.
pub(super) enum Ending {
    Close(Id),
    Delete(Id),
}

/// An MCP server of a session.
pub(super) struct Server {
    pub(super) key: McpKey,
    pub(super) name: String,
    pub(super) state: ServerState,
}

/// How far the connection to an MCP server is.
pub(super) enum ServerState {
    /// Nobody needed it yet; this connects to it.
    Asleep(Box<AgentEffect>),
    Connecting,
    Ready(Vec<McpTool>),
    Failed(String),
}

impl OpenSession {
    pub(super) fn new(session: Session) -> Self {
        Self { session, turn: None, children: BTreeMap::new() }
    }

    /// The running turn.
    pub(super) fn active<'a>(&'a mut self, cx: &'a mut Cx) -> Option<ActiveTurn<'a>> {
        let Self { session, turn, children } = self;
        Some(ActiveTurn { cx, session, turn: turn.as_mut()?, children, parent: None })
    }

    /// The running turn of a session that works on a task of this one.
    pub(super) fn active_child<'a>(&'a mut self, cx: &'a mut Cx, child: &str) -> Option<ActiveTurn<'a>> {
        let Self { session, turn, children } = self;
        let OpenSession { session: own, turn: running, children } = children.get_mut(child)?;
        let parent = Some(ParentTurn { session, turn: turn.as_ref()? });
        Some(ActiveTurn { cx, session: own, turn: running.as_mut()?, children, parent })
    }

    /// Refuses while a turn is running.
    pub(super) fn idle(&self) -> Result<(), RpcError> {
        match self.turn {
            None => Ok(()),
            Some(_) => Err(invalid_request("a prompt is still running in this session")),
        }
    }

    /// Begins the turn of a prompt.
    pub(super) fn prompt(&mut self, cx: &mut Cx, request: &Id, blocks: &[Value]) {
        if cx.config.habits.mcp == Connecting::FirstPrompt {
            self.session.wake_servers(cx);
        }
        cx.prompts += 1;
        let policy = cx.config.persona.policy(&self.session.record.mode);
        let (steps, model) = Planner::new(cx, &self.session, policy, blocks).plan_turn();
        self.begin(cx, request, blocks, steps).model = model;
    }
}

impl Session {
    pub(super) fn new(record: SessionRecord) -> Self {
        Self {
            record,
            servers: Vec::new(),
            standing: BTreeMap::new(),
            endings: Vec::new(),
            queue: VecDeque::new(),
            news: Vec::new(),
            parent: None,
            delegated: BTreeMap::new(),
            context: None,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.record.id
    }

    /// Whether the client knows it.
    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// The session that the client knows: itself, or its parent.
    pub(super) fn outward(&self) -> &str {
        self.parent.as_ref().map_or(&self.record.id, |parent| &parent.session)
    }

    /// A path of a wish as an absolute, normal path.
    pub(super) fn resolve(&self, path: &str) -> String {
        let joined = if super::params::is_absolute(path) {
            path.to_owned()
        } else {
            format!("{}/{path}", self.record.cwd.trim_end_matches('/'))
        };
        normal(&joined)
    }

    /// Whether an absolute path lies in the working folder, and whether in a further root.
    pub(super) fn places(&self, path: &str) -> (bool, bool) {
        let is_in = |root: &String| {
            let root = normal(root);
            path == root
                || path.strip_prefix(root.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
        };
        (is_in(&self.record.cwd), self.record.roots.iter().any(is_in))
    }

    /// Adds to the history. A model counts its tokens itself.
    pub(super) fn remember(&mut self, update: Value, by_model: bool) {
        if !by_model {
            self.record.used += super::digest::tokens_of(&update);
            if self.record.counted > 0 && self.record.counted == self.record.history.len() {
                self.record.counted += 1;
            }
        }
        self.record.history.push(update);
    }

    /// Keeps what a running turn has done so far, for an agent that wants to lose nothing.
    pub(super) fn checkpoint(&mut self, cx: &mut Cx, turn: &Turn) {
        if !cx.config.durable || !self.is_root() {
            return;
        }
        self.record.draft = turn.draft();
        self.record.draft.extend(self.delegated.values().flatten().cloned());
        self.touch(cx);
    }

    /// Notes that something happened in the session and keeps it.
    pub(super) fn touch(&mut self, cx: &mut Cx) {
        if self.is_root() {
            self.record.updated = cx.wall_clock();
            cx.outbox.push_back(AgentEffect::StoreSession(Box::new(self.record.clone())));
        }
    }

    /// Ends the turns that wait, because the session was cancelled.
    pub(super) fn cancel_queue(&mut self, cx: &mut Cx) {
        for (id, _) in std::mem::take(&mut self.queue) {
            cx.respond(&id, &json!({ "stopReason": StopReason::Cancelled.as_str() }));
        }
    }

    /// Tells the client about the session. What a child does is told in its parent's session: tool calls, and nothing else.
    /// A client that shows sessions of their own sees everything in the child's.
    pub(super) fn update(&self, cx: &mut Cx, update: &Value) {
        let Some(parent) = &self.parent else { return cx.update(self.id(), update) };
        if cx.caps().subagents {
            cx.update(self.id(), update);
        }
        if matches!(update["sessionUpdate"].as_str(), Some(update::TOOL_CALL | update::TOOL_CALL_UPDATE)) {
            cx.update(&parent.session, &delegate::marked(update, &parent.call));
        }
    }

    /// Tells the person about something that went wrong beside the turn: as a notice, or with the next answer.
    pub(super) fn warn(&mut self, cx: &mut Cx, title: &str, description: &str) {
        if cx.caps().notices {
            let notice = json!({
                "sessionUpdate": update::NOTICE, "severity": "warning", "title": title, "description": description,
            });
            return self.update(cx, &notice);
        }
        if cx.config.rules.careful {
            self.news.push(format!("{title}: {description}"));
        }
    }

    /// The value of a config option.
    pub(super) fn option(&self, cx: &Cx, id: &str) -> Option<Value> {
        let option = cx.config.persona.options.iter().find(|option| option.id == id)?;
        Some(option.value(&self.record))
    }

    /// The complete list of config options.
    pub(super) fn options(&self, cx: &Cx) -> Value {
        offers::options(&cx.config.persona, &self.record, cx.caps())
    }

    /// Modes and config options, as the answers that open a session have them.
    pub(super) fn state(&self, cx: &Cx) -> Value {
        let mut state = json!({});
        if cx.config.habits.has(Feature::Modes) {
            state["modes"] = offers::modes(&cx.config.persona, &self.record);
        }
        if cx.config.habits.has(Feature::ConfigOptions) {
            state["configOptions"] = self.options(cx);
        }
        state
    }

    /// Tells which slash commands there are.
    pub(super) fn tell_commands(&self, cx: &mut Cx) {
        if cx.config.habits.has(Feature::Commands) {
            let commands = offers::commands(&cx.config.persona);
            self.update(cx, &commands);
        }
    }

    /// Changes the mode and tells the client in both forms.
    pub(super) fn change_mode(&mut self, cx: &mut Cx, mode: &str) {
        self.set_mode(cx, mode);
        let options = self.options(cx);
        if options.as_array().is_some_and(|options| !options.is_empty()) {
            let update = json!({ "sessionUpdate": update::CONFIG_OPTION_UPDATE, "configOptions": options });
            self.update(cx, &update);
        }
    }

    /// Changes the mode.
    pub(super) fn set_mode(&mut self, cx: &mut Cx, mode: &str) {
        mode.clone_into(&mut self.record.mode);
        self.touch(cx);
        self.update(cx, &json!({ "sessionUpdate": update::CURRENT_MODE_UPDATE, "currentModeId": mode }));
    }

    /// Changes a config option, without telling the client.
    pub(super) fn set_option(&mut self, cx: &mut Cx, option: &str, value: &Value) {
        self.record.config.insert(option.to_owned(), value.clone());
        self.touch(cx);
    }

    /// Changes a config option and tells the client.
    pub(super) fn change_option(&mut self, cx: &mut Cx, option: &str, value: &Value) {
        self.set_option(cx, option, value);
        let options = self.options(cx);
        self.update(cx, &json!({ "sessionUpdate": update::CONFIG_OPTION_UPDATE, "configOptions": options }));
    }

    /// Reports title and time.
    pub(super) fn report_info(&self, cx: &mut Cx) {
        let updated = record::timestamp(cx.wall_clock());
        let mut update = json!({ "sessionUpdate": update::SESSION_INFO_UPDATE, "updatedAt": updated });
        if let Some(title) = &self.record.title {
            update["title"] = json!(title);
        }
        self.update(cx, &update);
    }

    /// How many tokens the session's model takes in at once.
    pub(super) fn context_size(&self, cx: &Cx) -> u64 {
        self.context.unwrap_or(cx.config.persona.context)
    }

    /// Reports how full the context is.
    pub(super) fn report_usage(&self, cx: &mut Cx) {
        let (used, size) = (self.record.used, self.context_size(cx));
        let mut update = json!({ "sessionUpdate": update::USAGE_UPDATE, "used": used, "size": size });
        if let Some(price) = cx.config.persona.price {
            #[expect(clippy::cast_precision_loss, reason = "a pretended price")]
            let amount = (used as f64 * price).round() / 1e6;
            update["cost"] = json!({ "amount": amount, "currency": "USD" });
        }
        self.update(cx, &update);
    }
}

/// Resolves `.` and `..` in the text of a path.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let lead = if path.starts_with('/') { "/" } else { "" };
    format!("{lead}{}", parts.join("/"))
}
