//! The gatekeeper between a client and its agent: permission by policy, what new sessions get, how many there may be.

mod counts;
mod disguise;
mod opening;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use acp_dialect::Side;
use acp_host::PermissionPolicy;
use acp_policy::{Policy, PolicyRules, PolicyVerdict};
use acp_proto::method;
use acp_relay::{Decision, Observers, RecordError};
use acp_rpc::{Frame, Id, Pending, Reply, RpcError, View};
use acp_script::faults::Fault;
use bytes::Bytes;
use memchr::memmem::Finder;
use tokio::sync::watch;

use crate::log::{ConversationLog, LogFields};
use crate::metrics::{Metrics, Value};
use crate::splice::Splice;
use counts::Count;
use tracing::Level;

/// What a proxy does with a conversation besides passing it on.
#[derive(Clone, Debug, Default)]
pub struct Duties {
    /// Decide permission requests; what these say must be asked is passed on.
    pub rules: Option<PolicyRules>,
    /// MCP servers for every session: their names and their JSON text.
    pub mcp_servers: Vec<(String, String)>,
    /// The folder that every session works in, whatever the client says.
    pub cwd: Option<String>,
    /// At most so many sessions at once, over all conversations.
    pub max_sessions: Option<usize>,
    /// What is done to the frames between the agent and us.
    pub faults: Vec<Fault>,
    /// The seed of the faults' chance.
    pub seed: u64,
    /// Tell when turns begin and end, and count them.
    pub turns: bool,
}

impl Duties {
    /// Whether lines need not be looked at.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.rules.is_none()
            && self.mcp_servers.is_empty()
            && self.cwd.is_none()
            && self.max_sessions.is_none()
            && self.faults.is_empty()
            && !self.turns
    }
}

/// Closes an idle session, if there is one: true when its place will be free in a moment.
pub type EvictIdleSession = Box<dyn Fn() -> bool + Send + Sync>;

/// What all gatekeepers of a proxy share: limits and counters.
pub(crate) struct SharedLimits {
    pub(crate) duties: Duties,
    /// Sessions that are open or being opened.
    open: watch::Sender<usize>,
    /// Who is asked for a place before a session is refused.
    give_way: Mutex<Option<EvictIdleSession>>,
    metrics: Metrics,
    sessions: Value,
    running: Value,
}

impl SharedLimits {
    pub(crate) fn new(duties: Duties, metrics: &Metrics) -> Arc<SharedLimits> {
        counts::begin(metrics);
        Arc::new(SharedLimits {
            duties,
            open: watch::Sender::new(0),
            give_way: Mutex::default(),
            sessions: metrics.gauge("acp_proxy_sessions", "Sessions that are open.", &[]),
            running: metrics.gauge("acp_proxy_turns_running", "Turns that are running.", &[]),
            metrics: metrics.clone(),
        })
    }

    fn most(&self) -> usize {
        self.duties.max_sessions.unwrap_or(usize::MAX)
    }

    /// Whether one more session can be opened.
    pub(crate) fn has_room(&self) -> bool {
        *self.open.borrow() < self.most()
    }

    /// Waits until one more session can be opened.
    pub(crate) async fn room(&self) {
        let mut open = self.open.subscribe();
        if open.wait_for(|open| *open < self.most()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Who is asked for a place before a session is refused.
    pub(crate) fn ask_before_refusing(&self, give_way: EvictIdleSession) {
        *self.give_way.lock().unwrap_or_else(PoisonError::into_inner) = Some(give_way);
    }

    /// Takes a place for one more session, perhaps one that somebody is just leaving.
    fn enter(&self) -> bool {
        let mut taken = self.open.send_if_modified(|open| {
            let room = *open < self.most();
            *open += usize::from(room);
            room
        });
        if !taken {
            let give_way = self.give_way.lock().unwrap_or_else(PoisonError::into_inner);
            taken = give_way.as_ref().is_some_and(|give_way| give_way());
            if taken {
                self.open.send_modify(|open| *open += 1);
            }
        }
        if taken {
            self.sessions.up();
        }
        taken
    }

    fn leave(&self) {
        self.open.send_modify(|open| *open = open.saturating_sub(1));
        self.sessions.down();
    }

    fn count(&self, what: &Count, value: &str) {
        what.up(&self.metrics, value);
    }
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Handling {
    /// It goes on as it is.
    Pass,
    /// This goes on instead.
    Instead(Bytes),
    /// Nothing goes on, and its sender gets this.
    Back(Bytes),
    /// The conversation must end.
    Stop(String),
}

/// A request that an answer is waited for.
enum OpenRequest {
    Opening { folders: Vec<String>, session: Option<String>, trace: Option<String> },
    Prompt { session: String, trace: Option<String> },
    Closing(String),
}

impl OpenRequest {
    /// How long the names are that it keeps.
    fn length(&self) -> usize {
        match self {
            OpenRequest::Opening { folders, session, .. } => {
                folders.iter().chain(session).map(String::len).sum()
            }
            OpenRequest::Prompt { session, .. } | OpenRequest::Closing(session) => session.len(),
        }
    }
}

fn length(id: &Id) -> usize {
    match id {
        Id::Number(text) | Id::Text(text) => text.len(),
        Id::Int(_) | Id::Null => 0,
    }
}

/// One conversation's gatekeeper.
pub(crate) struct Gatekeeper {
    pub(crate) shared: Arc<SharedLimits>,
    logs: ConversationLog,
    number: u64,
    /// How many lines were passed on to the client.
    pub(crate) passed: u64,
    pub(crate) observers: Observers,
    /// For requests that have none of their own.
    trace: Option<String>,
    clerk: PermissionPolicy,
    pending: Pending<OpenRequest>,
    /// Open sessions and their folders, the working folder first.
    sessions: BTreeMap<String, Vec<String>>,
    cancelled: BTreeSet<String>,
    id: Finder<'static>,
    /// What a line has that rules are about. Names may be written with escapes.
    marks: [Finder<'static>; 3],
}

/// Where the answer to a refused session says how many there may be.
const FULL: &str = "maxSessions";

/// Whether a session was refused because there are too many ([`Duties::max_sessions`]).
#[must_use]
pub fn is_full(error: &RpcError) -> bool {
    error.data.as_ref().is_some_and(|data| data.get(FULL).is_some())
}

/// More open requests of a client, or cancelled sessions, are passed on without being followed.
const MOST_OPEN: usize = 8192;
/// So are those with longer names, in bytes: what they are called is a peer's to decide.
const LONGEST_NAMES: usize = 8192;

impl Gatekeeper {
    pub(crate) fn new(
        shared: Arc<SharedLimits>,
        logs: ConversationLog,
        number: u64,
        observers: Observers,
        trace: Option<String>,
    ) -> Gatekeeper {
        Gatekeeper {
            shared,
            logs,
            number,
            passed: 0,
            observers,
            trace,
            clerk: PermissionPolicy::default(),
            pending: Pending::new(MOST_OPEN),
            sessions: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            id: Finder::new(b"\"id\""),
            marks: [&b"\"toolCallId\""[..], b"request_permission", b"\\u00"].map(Finder::new),
        }
    }

    /// A frame of the client.
    pub(crate) fn client_says(&mut self, frame: &Frame) -> Handling {
        match frame.view() {
            View::Request {
                id,
                method:
                    method::SESSION_NEW | method::SESSION_LOAD | method::SESSION_RESUME | method::SESSION_FORK,
                ..
            } => self.opening(id, frame),
            View::Request { id, method: method::SESSION_PROMPT, .. } => self.prompt(id, frame),
            View::Request { id, method: method::SESSION_CLOSE | method::SESSION_DELETE, .. } => {
                if let Some(session) = session_of(frame) {
                    self.expect(id, OpenRequest::Closing(session));
                }
                Handling::Pass
            }
            View::Notification { method: method::SESSION_CANCEL, .. } => {
                if self.cancelled.len() < MOST_OPEN {
                    self.cancelled.extend(session_of(frame).filter(|session| session.len() <= LONGEST_NAMES));
                }
                Handling::Pass
            }
            _ => Handling::Pass,
        }
    }

    /// Whether a line of the agent may be one that something is decided about. Most need not be parsed.
    pub(crate) fn may_concern(&self, line: &Bytes) -> bool {
        let rules = self.shared.duties.rules.is_some();
        self.id.find(line).is_some() || (rules && self.marks.iter().any(|mark| mark.find(line).is_some()))
    }

    /// A frame of the agent.
    pub(crate) fn agent_says(&mut self, frame: &Frame) -> Handling {
        if !self.may_concern(frame.raw()) {
            return Handling::Pass;
        }
        let rules = self.shared.duties.rules.is_some();
        if rules && disguise::hides_permission(frame) {
            let reason =
                "the agent asks for permission in a form that the policy cannot read, so it cannot decide";
            return Handling::Stop(reason.to_owned());
        }
        match frame.view() {
            View::Request { id, method: method::SESSION_REQUEST_PERMISSION, params } if rules => {
                self.permission(&id.clone(), params, frame)
            }
            View::Notification { method: method::SESSION_UPDATE, params: Some(params) } if rules => {
                self.clerk.observe(params);
                Handling::Pass
            }
            View::Response { id, reply } => {
                if let Some(pending) = self.pending.remove(id) {
                    self.answered(pending, reply);
                }
                Handling::Pass
            }
            _ => Handling::Pass,
        }
    }

    /// Everything that the conversation holds is given back.
    pub(crate) fn close(&mut self) {
        for (_, pending) in self.pending.drain() {
            self.abandon(pending);
        }
        for _ in std::mem::take(&mut self.sessions) {
            self.shared.leave();
        }
    }

    /// An answer is waited for. Of an id that is used twice there is one answer: the first request is given up.
    fn expect(&mut self, id: &Id, pending: OpenRequest) {
        // Which ids a client uses, and how many, is its own to decide.
        let is_long = length(id) + pending.length() > LONGEST_NAMES;
        let given_up =
            if is_long { Some(pending) } else { self.pending.replace(id, pending).unwrap_or_else(Some) };
        if let Some(given_up) = given_up {
            self.abandon(given_up);
        }
    }

    /// Gives back what a request holds that has no answer.
    fn abandon(&self, pending: OpenRequest) {
        match pending {
            OpenRequest::Opening { .. } => self.shared.leave(),
            OpenRequest::Prompt { session, trace } => {
                self.turn_ended(&session, trace.as_deref(), "interrupted");
            }
            OpenRequest::Closing(_) => {}
        }
    }

    fn prompt(&mut self, id: &Id, frame: &Frame) -> Handling {
        let Some(mut splice) = Splice::of(frame) else { return Handling::Pass };
        let trace = self.traced(&mut splice);
        if let Some(session) = splice.string("sessionId") {
            self.cancelled.remove(&session);
            if self.shared.duties.turns {
                self.tell_turn("turn begins", &session, trace.as_deref(), None);
            }
            self.shared.running.up();
            self.expect(id, OpenRequest::Prompt { session, trace });
        }
        instead(splice)
    }

    /// The request's own trace; or the connection's, which it then gets.
    fn traced(&self, splice: &mut Splice<'_>) -> Option<String> {
        let meta: Option<serde_json::Value> =
            splice.get("_meta").and_then(|meta| serde_json::from_str(meta).ok());
        let own = meta.as_ref().and_then(|meta| meta["traceparent"].as_str()).map(str::to_owned);
        if own.is_none()
            && let Some(trace) = &self.trace
        {
            splice.set_within("_meta", "traceparent", &serde_json::Value::from(trace.as_str()).to_string());
        }
        own.or_else(|| self.trace.clone())
    }

    fn answered(&mut self, pending: OpenRequest, reply: Reply<'_>) {
        match (pending, reply) {
            (OpenRequest::Opening { folders, session, trace }, Reply::Result(result)) => {
                let result: serde_json::Value = serde_json::from_str(result).unwrap_or_default();
                let session = result["sessionId"].as_str().map(str::to_owned).or(session).unwrap_or_default();
                self.shared.count(&counts::OPENED, "");
                if self.shared.duties.turns {
                    self.tell_turn("session opened", &session, trace.as_deref(), None);
                }
                if self.sessions.insert(session, folders).is_some() {
                    self.shared.leave();
                }
            }
            (OpenRequest::Opening { .. }, Reply::Error(_)) => self.shared.leave(),
            (OpenRequest::Closing(session), Reply::Result(_)) => {
                if self.sessions.remove(&session).is_some() {
                    self.shared.leave();
                }
            }
            (OpenRequest::Closing(_), Reply::Error(_)) => {}
            (OpenRequest::Prompt { session, trace }, Reply::Result(result)) => {
                let result: serde_json::Value = serde_json::from_str(result).unwrap_or_default();
                let reason = result["stopReason"].as_str().unwrap_or("unknown");
                self.turn_ended(&session, trace.as_deref(), reason);
            }
            (OpenRequest::Prompt { session, trace }, Reply::Error(_)) => {
                self.turn_ended(&session, trace.as_deref(), "error");
            }
        }
    }

    fn turn_ended(&self, session: &str, trace: Option<&str>, reason: &str) {
        self.shared.running.down();
        self.shared.count(&counts::TURNS, reason);
        if self.shared.duties.turns {
            self.tell_turn(&format!("turn ends: {reason}"), session, trace, Some(reason));
        }
    }

    fn tell_turn(&self, words: &str, session: &str, traceparent: Option<&str>, stop_reason: Option<&str>) {
        let fields = LogFields { session: Some(session), traceparent, stop_reason, ..LogFields::default() };
        self.logs.event(Level::INFO, self.number, &format!("{words} ({session})"), fields);
    }

    fn permission(&mut self, id: &Id, params: Option<&str>, frame: &Frame) -> Handling {
        let Some(rules) = &self.shared.duties.rules else { return Handling::Pass };
        let sessions = &self.sessions;
        let folders = |session: &str| sessions.get(session).map_or(&[][..], Vec::as_slice);
        let ruling = match self.clerk.decide(rules, params, folders) {
            Ok(ruling) => ruling,
            // A client may read what we cannot, and nobody knows what the rules would say to that.
            Err(error) if rules.policy != Policy::Default || !rules.deny.is_empty() => {
                return self.refuse_unreadable(id, &error, frame);
            }
            Err(_) => return Handling::Pass,
        };
        let mut verdict = ruling.decision.verdict;
        let mut reason = ruling.decision.reason.as_str();
        if self.cancelled.contains(&ruling.session) {
            (verdict, reason) =
                (PolicyVerdict::Ask, "the turn was cancelled: the client answers that itself");
        }
        let passed = if verdict == PolicyVerdict::Ask { "; passed on to the client" } else { "" };
        let words = format!("permission {} {}: {reason}{passed}", verdict.as_str(), ruling.subject);
        let fields = LogFields {
            session: Some(&ruling.session),
            verdict: Some(verdict.as_str()),
            subject: Some(&ruling.subject),
            reason: Some(reason),
            ..LogFields::default()
        };
        self.logs.event(Level::INFO, self.number, &words, fields);
        self.shared.count(&counts::PERMISSIONS, verdict.as_str());
        match &ruling.result {
            Some(result) if verdict != PolicyVerdict::Ask => {
                let answer = Frame::response(id, result);
                self.decided(Side::Agent, verdict.as_str(), reason, frame, &answer)
            }
            _ => Handling::Pass,
        }
    }

    fn refuse_unreadable(&self, id: &Id, error: &RpcError, frame: &Frame) -> Handling {
        let reason = format!("it cannot be read, so the policy cannot decide it: {}", error.message);
        let verdict = PolicyVerdict::Deny.as_str();
        let fields = LogFields { verdict: Some(verdict), reason: Some(&reason), ..LogFields::default() };
        self.logs.event(Level::INFO, self.number, &format!("permission {verdict}: {reason}"), fields);
        self.shared.count(&counts::PERMISSIONS, verdict);
        self.decided(Side::Agent, verdict, &reason, frame, &Frame::failure(id, error))
    }

    /// Answers a request, once the decision is recorded.
    fn decided(&self, from: Side, verdict: &str, reason: &str, request: &Frame, answer: &Frame) -> Handling {
        match self.record(from, verdict, reason, request, answer) {
            Ok(()) => Handling::Back(answer.raw().clone()),
            Err(error) => Handling::Stop(error.to_string()),
        }
    }

    /// Shows a decision to the observers; an error says why it cannot be recorded.
    fn record(
        &self,
        from: Side,
        verdict: &str,
        reason: &str,
        request: &Frame,
        answer: &Frame,
    ) -> Result<(), RecordError> {
        let (at, passed) = (Instant::now(), self.passed);
        self.observers.decided(&Decision { at, from, request, answer, verdict, reason, passed })
    }
}

impl Drop for Gatekeeper {
    fn drop(&mut self) {
        self.close();
    }
}

fn instead(splice: Splice<'_>) -> Handling {
    splice.done().map_or(Handling::Pass, |line| Handling::Instead(line.into()))
}

fn session_of(frame: &Frame) -> Option<String> {
    Splice::of(frame)?.string("sessionId")
}

#[cfg(test)]
mod tests;
