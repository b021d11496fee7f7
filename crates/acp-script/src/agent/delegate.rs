//! Tasks handed to sessions of the agent's own.
//!
//! A child works in its parent's folders, mode and rules; its tool calls are shown and asked about in the parent's
//! session, its words become the result of the parent's tool call. It has no children.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use acp_proto::{StopReason, method, update};
use acp_rpc::Id;
use serde_json::{Value, json};

use super::Agent;
use super::job::Job;
use super::permits::Failure;
use super::session::{Parent, Session};
use super::tools::{Work, cut, text_content};
use super::turn::Wait;
use super::turn::{Cancel, Turn};

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

impl Agent {
    /// Whether the client knows this session.
    pub(super) fn is_root(&self, session: &str) -> bool {
        self.sessions.get(session).is_none_or(|open| open.parent.is_none())
    }

    /// Whether the client is shown what is said in this session.
    pub(super) fn is_shown(&self, session: &str) -> bool {
        self.is_root(session) || self.caps().subagents
    }

    /// The session that the client knows: itself, or its parent.
    pub(super) fn outward<'a>(&'a self, session: &'a str) -> &'a str {
        match self.sessions.get(session).and_then(|open| open.parent.as_ref()) {
            Some(parent) => &parent.session,
            None => session,
        }
    }

    pub(super) fn delegate(&mut self, session: &str, tasks: Vec<String>) {
        for task in tasks {
            let work = self.announce(session, Job::Delegate { task });
            if let Some(reason) = self.forbidden(session, &work.job) {
                self.fail_as(session, &work, &reason, Failure::Denied);
                continue;
            }
            let given = self.sessions.get(session).map_or(0, |open| open.record.delegated);
            let refusal = match () {
                () if !self.config.delegate => Some(
                    "this agent runs without leave to delegate; start it with --enable-delegate".to_owned(),
                ),
                () if !self.is_root(session) => {
                    Some("a delegated task cannot be delegated further".to_owned())
                }
                () if given >= IN_ALL => Some(format!("a session may delegate {IN_ALL} tasks, and has")),
                () => None,
            };
            if let Some(reason) = refusal {
                self.fail(session, &work, &format!("The task was not delegated: {reason}."));
                continue;
            }
            if let Some(open) = self.sessions.get_mut(session) {
                open.record.delegated += 1;
            }
            if let Some(turn) = self.turn(session) {
                turn.children.waiting.push_back(work);
            }
        }
        self.start_children(session);
    }

    /// Starts as many children as may work at once; without any, the turn goes on.
    fn start_children(&mut self, session: &str) {
        while let Some(work) = self.next_child(session) {
            self.start_child(session, work);
        }
        let Some(turn) = self.turn(session) else { return };
        if turn.children.running.is_empty() {
            if matches!(turn.wait, Some(Wait::Children)) {
                turn.wait = None;
            }
        } else {
            turn.wait = Some(Wait::Children);
        }
    }

    fn next_child(&mut self, session: &str) -> Option<Work> {
        let turn = self.turn(session)?;
        let room = turn.children.running.len() < AT_ONCE && turn.cancel.is_none();
        room.then(|| turn.children.waiting.pop_front()).flatten()
    }

    fn start_child(&mut self, session: &str, work: Work) {
        let Job::Delegate { task } = &work.job else { return };
        let blocks = [json!({ "type": "text", "text": task })];
        let child = self.fresh_id("sub");
        let Some(open) = self.sessions.get(session) else { return };
        let mut record = open.record.summary();
        record.id.clone_from(&child);
        record.word = None;
        (record.used, record.counted) = (0, 0);
        let mut fresh = Session::new(record);
        fresh.parent = Some(Parent { session: session.to_owned(), call: work.call.clone() });
        self.sessions.insert(child.clone(), fresh);
        self.progress(session, &work);
        self.announce_child(session, &child, &work);
        if let Some(turn) = self.turn(session) {
            turn.children.running.insert(child.clone(), work);
        }
        let (steps, model) = self.plan_turn(&child, &blocks);
        self.begin_turn(&Id::Null, &child, &blocks, steps);
        let limit = self.now + LIMIT;
        if let Some(turn) = self.turn(&child) {
            turn.model = model;
            turn.limit = Some(limit);
        }
    }

    /// A child's turn has ended.
    pub(super) fn child_ended(&mut self, child: &str, turn: &Turn, outcome: Result<StopReason, String>) {
        self.pending.retain(|_, pending| pending.session != child);
        let Some(open) = self.sessions.remove(child) else { return };
        let Some(parent) = open.parent else { return };
        let session = parent.session;
        let answer = words(&open.record.history);
        if self.caps().subagents {
            let idle = json!({
                "sessionUpdate": update::SUBAGENT_UPDATE, "sessionId": child, "state": { "state": "idle" },
            });
            self.update(&session, &idle);
        }
        let Some(work) = self.turn(&session).and_then(|turn| turn.children.running.remove(child)) else {
            return;
        };
        let failure = match (turn.cancel, outcome) {
            (Some(Cancel::Overdue), _) => Some(format!("it took longer than {} s", LIMIT.as_secs())),
            (Some(_), _) | (_, Ok(StopReason::Cancelled)) => Some("it was cancelled".to_owned()),
            (None, Ok(StopReason::EndTurn)) => None,
            (None, Ok(stop)) => Some(format!("it stopped with {}", stop.as_str())),
            (None, Err(reason)) => Some(reason),
        };
        match failure {
            None => {
                let raw = json!({ "answer": answer });
                self.complete(&session, &work, &text_content(&answer), &raw);
                let said = self.shorten(&session, &answer);
                self.tell(&session, format!("The delegated task is done:\n{said}"));
            }
            Some(reason) => self.fail(&session, &work, &format!("The delegated task failed: {reason}.")),
        }
        self.start_children(&session);
        let done = self.turn(&session).is_some_and(|turn| turn.wait.is_none());
        if done {
            if self.turn(&session).is_some_and(|turn| turn.cancel.is_some()) {
                self.wind_down(&session);
            }
            self.schedule(&session);
        }
    }

    /// Makes a child known to a client that shows sessions of their own, before anything of it is sent.
    fn announce_child(&mut self, session: &str, child: &str, work: &Work) {
        let Job::Delegate { task } = &work.job else { return };
        if !self.caps().subagents {
            return;
        }
        let announced = json!({
            "sessionUpdate": update::SUBAGENT_UPDATE,
            "sessionId": child,
            "title": cut(task, 80),
            "description": task,
            "state": { "state": "running" },
            "_meta": { META: work.call },
        });
        let message = json!({
            "sessionUpdate": update::SESSION_MESSAGE,
            "messageId": self.fresh_id("msg"),
            "senderSessionId": session,
            "recipientSessionId": child,
            "content": [{ "type": "text", "text": task }],
        });
        self.update(session, &announced);
        self.notify(method::SESSION_UPDATE, &json!({ "sessionId": child, "update": message }));
    }

    /// Cancels the children of a turn that is cancelled; it ends when they have.
    pub(super) fn cancel_children(&mut self, session: &str) {
        let Some(turn) = self.turn(session) else { return };
        turn.children.waiting.clear();
        let running: Vec<String> = turn.children.running.keys().cloned().collect();
        for child in running {
            self.cancel(&child, Cancel::Session);
        }
    }

    /// What a child does, as its parent's client sees it: tool calls, and nothing else. A client that shows sessions of their
    /// own sees everything in the child's.
    pub(super) fn child_update(&mut self, child: &str, update: &Value) {
        if self.caps().subagents {
            self.notify(method::SESSION_UPDATE, &json!({ "sessionId": child, "update": update }));
        }
        let Some(parent) = self.sessions.get(child).and_then(|open| open.parent.clone()) else { return };
        if !matches!(update["sessionUpdate"].as_str(), Some(update::TOOL_CALL | update::TOOL_CALL_UPDATE)) {
            return;
        }
        self.update(&parent.session, &marked(update, &parent.call));
    }

    /// A finished tool call of a child, for its parent's history.
    pub(super) fn child_did(&mut self, child: &str, body: &Value) {
        let Some(parent) = self.sessions.get(child).and_then(|open| open.parent.clone()) else { return };
        self.keep(&parent.session, marked(body, &parent.call));
    }

    /// The tool calls of a session's children that have not ended, as its client knows them.
    pub(super) fn open_in_children(&self, session: &str) -> Vec<Value> {
        let children = self.sessions.values().filter_map(|open| {
            let parent = open.parent.as_ref().filter(|parent| parent.session == session)?;
            Some((parent, open.turn.as_ref()?))
        });
        let calls = children.flat_map(|(parent, turn)| {
            let open = turn.tools.iter().filter(|tool| !tool.done);
            open.map(|tool| marked(&tool.body, &parent.call))
        });
        calls.collect()
    }
}

/// What a child does, with the parent's tool call.
fn marked(update: &Value, call: &str) -> Value {
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
