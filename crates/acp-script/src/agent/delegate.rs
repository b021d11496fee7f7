//! Tasks handed to sessions of the agent's own.
//!
//! A child works in its parent's folders, mode and rules; its tool calls are shown and asked about in the parent's
//! session, its words become the result of the parent's tool call. It has no children.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use acp_proto::{StopReason, update};
use acp_rpc::Id;
use serde_json::{Value, json};

use super::job::Job;
use super::permits::Failure;
use super::plan::Planner;
use super::session::{OpenSession, Parent, Session};
use super::tools::{Work, cut, text_content};
use super::turn::{ActiveTurn, Cancel, End, Outcome, ParentTurn, Wait};

/// How many children of a session work at once.
const AT_ONCE: usize = 3;
/// How many children a session has in all.
const IN_ALL: u32 = 10;
/// How long a child may work.
const LIMIT: Duration = Duration::from_secs(300);
/// Marks updates about what a child does, with the parent's tool call.
pub(super) const META: &str = "acp.workbench/delegate";

/// The tasks of one turn.
#[derive(Default)]
pub(super) struct Children {
    running: BTreeMap<String, Work>,
    waiting: VecDeque<Work>,
}

impl ActiveTurn<'_> {
    /// Whether the client is shown what is said in this session.
    pub(super) fn is_shown(&self) -> bool {
        self.session.is_root() || self.cx.caps().subagents
    }

    /// The session that the client knows: its own, or that of the turn that delegated the task.
    pub(super) fn client_session(&self) -> &Session {
        self.parent.as_ref().map_or(&*self.session, |parent| &*parent.session)
    }

    pub(super) fn delegate(&mut self, tasks: Vec<String>) {
        for task in tasks {
            let work = self.announce(Job::Delegate { task });
            if let Some(reason) = self.forbidden(&work.job) {
                self.fail_as(&work, &reason, Failure::Denied);
            } else if let Some(reason) = self.refusal() {
                self.fail(&work, &format!("The task was not delegated: {reason}."));
            } else {
                self.session.record.delegated += 1;
                self.turn.children.waiting.push_back(work);
            }
        }
        self.start_children();
    }

    /// Why no task can be delegated.
    fn refusal(&self) -> Option<String> {
        if !self.cx.config.abilities.delegate {
            let hint = &self.cx.config.hints.delegate;
            return Some(format!("this agent runs without leave to delegate{hint}"));
        }
        if !self.session.is_root() {
            return Some("a delegated task cannot be delegated further".to_owned());
        }
        let is_full = self.session.record.delegated >= IN_ALL;
        is_full.then(|| format!("a session may delegate {IN_ALL} tasks, and has"))
    }

    /// Starts as many children as may work at once; without any, the turn goes on.
    fn start_children(&mut self) {
        while self.turn.children.running.len() < AT_ONCE && self.turn.cancel.is_none() {
            let Some(work) = self.turn.children.waiting.pop_front() else { break };
            self.start_child(work);
        }
        if !self.turn.children.running.is_empty() {
            self.turn.wait = Some(Wait::Children);
        } else if matches!(self.turn.wait, Some(Wait::Children)) {
            self.turn.wait = None;
        }
    }

    fn start_child(&mut self, work: Work) {
        let Job::Delegate { task } = &work.job else { return };
        let blocks = [json!({ "type": "text", "text": task })];
        let id = self.cx.fresh_id("sub");
        let mut record = self.session.record.summary();
        record.id.clone_from(&id);
        record.word = None;
        (record.used, record.counted) = (0, 0);
        let mut session = Session::new(record);
        session.parent = Some(Parent { session: self.session.id().to_owned(), call: work.call.clone() });
        self.progress(&work);
        self.announce_child(&id, task, &work.call);
        self.turn.children.running.insert(id.clone(), work);
        let mut child = OpenSession::new(session);
        let (steps, model) = Planner::new(self.cx, &child.session, self.policy(), &blocks).plan_turn();
        let turn = child.begin(self.cx, &Id::Null, &blocks, steps);
        turn.model = model;
        turn.limit = Some(self.cx.now + LIMIT);
        self.children.insert(id, child);
    }

    /// A child's turn has ended.
    pub(super) fn child_ended(&mut self, child: &Session, cancel: Option<Cancel>, end: End) {
        self.session.delegated.remove(child.id());
        if self.cx.caps().subagents {
            let idle = json!({
                "sessionUpdate": update::SUBAGENT_UPDATE, "sessionId": child.id(), "state": { "state": "idle" },
            });
            self.update(&idle);
        }
        let Some(work) = self.turn.children.running.remove(child.id()) else { return };
        let failure = match (cancel, end) {
            (Some(Cancel::Overdue), _) => Some(format!("it took longer than {} s", LIMIT.as_secs())),
            (Some(_), _) | (_, Ok(Outcome::Stop(StopReason::Cancelled))) => {
                Some("it was cancelled".to_owned())
            }
            (None, Ok(Outcome::Stop(StopReason::EndTurn) | Outcome::Result(_))) => None,
            (None, Ok(Outcome::Stop(stop))) => Some(format!("it stopped with {}", stop.as_str())),
            (None, Err(error)) => Some(error.message),
        };
        match failure {
            None => {
                let answer = words(&child.record.history);
                self.complete(&work, &text_content(&answer), &json!({ "answer": answer }));
                let said = self.shorten(&answer);
                self.tell(format!("The delegated task is done:\n{said}"));
            }
            Some(reason) => self.fail(&work, &format!("The delegated task failed: {reason}.")),
        }
        self.start_children();
        if self.turn.wait.is_none() {
            if self.turn.cancel.is_some() {
                self.wind_down();
            }
            self.schedule();
        }
    }

    /// Makes a child known to a client that shows sessions of their own, before anything of it is sent.
    fn announce_child(&mut self, child: &str, task: &str, call: &str) {
        if !self.cx.caps().subagents {
            return;
        }
        let announced = json!({
            "sessionUpdate": update::SUBAGENT_UPDATE,
            "sessionId": child,
            "title": cut(task, 80),
            "description": task,
            "state": { "state": "running" },
            "_meta": { META: call },
        });
        let message = json!({
            "sessionUpdate": update::SESSION_MESSAGE,
            "messageId": self.cx.fresh_id("msg"),
            "senderSessionId": self.session.id(),
            "recipientSessionId": child,
            "content": [{ "type": "text", "text": task }],
        });
        self.update(&announced);
        self.cx.update(child, &message);
    }

    /// Cancels the children of a turn that is cancelled; it ends when they have.
    pub(super) fn cancel_children(&mut self) {
        self.turn.children.waiting.clear();
        for child in self.children.values_mut() {
            let OpenSession { session, turn: Some(turn), children } = child else { continue };
            let parent = Some(ParentTurn { session: self.session, turn: self.turn });
            ActiveTurn { cx: self.cx, session, turn, children, parent }.cancel(Cancel::Session);
        }
    }

    /// Lets the turn that delegated this task know its open tool calls, which it keeps.
    pub(super) fn show_parent(&mut self) {
        let (Some(parent), Some(task)) = (&mut self.parent, &self.session.parent) else { return };
        let open = self.turn.tools.iter().filter(|tool| !tool.done);
        let calls = open.map(|tool| marked(&tool.body, &task.call)).collect();
        parent.session.delegated.insert(self.session.id().to_owned(), calls);
    }

    /// Adds a finished tool call to the history of the turn that delegated this task.
    pub(super) fn keep_in_parent(&mut self, body: &Value) {
        if let (Some(parent), Some(task)) = (&mut self.parent, &self.session.parent) {
            parent.session.remember(marked(body, &task.call), parent.turn.model);
            parent.session.checkpoint(self.cx, parent.turn);
        }
    }

    /// Keeps the session that the client knows.
    pub(super) fn checkpoint_client_session(&mut self) {
        match &mut self.parent {
            Some(parent) => parent.session.checkpoint(self.cx, parent.turn),
            None => self.checkpoint(),
        }
    }
}

/// What a child does, with the parent's tool call.
pub(super) fn marked(update: &Value, call: &str) -> Value {
    let mut marked = update.clone();
    marked["_meta"] = json!({ META: call });
    marked
}

/// A history as a client saw it: it has a task behind the calls of its child, because these ended before it, but they
/// name it.
pub(super) fn as_shown(history: &[Value]) -> Vec<Value> {
    let task = |entry: &Value| entry["_meta"][META].as_str().map(str::to_owned);
    let tasks: HashSet<&str> = history
        .iter()
        .filter(|entry| task(entry).is_none())
        .filter_map(|entry| entry["toolCallId"].as_str())
        .collect();
    let mut inner: HashMap<String, Vec<&Value>> = HashMap::new();
    let mut outer = Vec::new();
    for entry in history {
        match task(entry).filter(|task| tasks.contains(task.as_str())) {
            Some(task) => inner.entry(task).or_default().push(entry),
            None => outer.push(entry),
        }
    }
    let mut shown = Vec::with_capacity(history.len());
    for entry in outer {
        shown.push(entry.clone());
        let its = entry["toolCallId"].as_str().and_then(|call| inner.remove(call));
        shown.extend(its.into_iter().flatten().cloned());
    }
    shown
}

/// Everything the agent said in a history.
fn words(history: &[Value]) -> String {
    let said = history.iter().filter(|entry| entry["sessionUpdate"] == update::AGENT_MESSAGE_CHUNK);
    let texts: Vec<&str> =
        said.filter_map(|entry| entry.pointer("/content/text").and_then(Value::as_str)).collect();
    texts.join("\n")
}
