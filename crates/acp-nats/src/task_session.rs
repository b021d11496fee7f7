//! A session that tasks are done in: an agent of its own behind the proxy, and a client of ours in front of it.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use acp_dialect::Dialect;
use acp_host::{AcpClient, ClientError, ClientOptions, Events, TurnEvent, UserQuestion, Workspace};
use acp_policy::PolicyRules;
use agent_client_protocol_schema::v1::ContentBlock;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;

use super::payload::{Prompt, Task};
use super::turn_queue::TurnQueue;
use acp_proxy::{AgentUnavailable, ClientInfo, DecisionReasons, Outcome, Proxy, is_full};

/// A session that is open here.
pub(super) struct TaskSession {
    pub(super) session: String,
    /// Our client, until the session is left: as long as it is there, so is the relay.
    client: std::sync::Mutex<Option<AcpClient>>,
    /// Held during a turn.
    pub(super) turn: Mutex<()>,
    /// The tasks that want a turn, or have it.
    pub(super) turns: TurnQueue,
    /// What the session is used for now.
    usage: std::sync::Mutex<Usage>,
    /// Why permission requests were answered as they were.
    pub(super) reasons: DecisionReasons,
    /// The relay between our client and the agent.
    relay: Mutex<Option<JoinHandle<Outcome>>>,
}

/// What a session is used for.
struct Usage {
    /// The task of the turn.
    task: Option<String>,
    /// Its trace, once its prompt is sent.
    trace: Option<String>,
    /// Whether that turn is to be cancelled, whether its prompt is sent or not.
    is_cancelled: bool,
    /// When a task last began or ended here.
    since: Instant,
}

/// Why a task cannot begin.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Another attempt may succeed.
    Again(String),
    /// Ask again soon: the session is being left, its owner cannot be reached, or this proxy is stopping.
    Soon(&'static str),
    /// No attempt will succeed.
    Never(String),
    /// It is not the task's fault: no agent can be opened. Another proxy's may be.
    NoAgent(String),
    /// The agent refused the session, be it this one alone or any.
    Shut(String),
    /// No more sessions are allowed here. Another proxy may have room.
    Full,
}

impl Refusal {
    /// Where the agent went away by itself, the same with the relay's words: our client only saw a refusal.
    fn told_by(self, outcome: Option<Outcome>) -> Refusal {
        let Some(Outcome::AgentFailed(why)) = outcome else { return self };
        match self {
            Refusal::NoAgent(_) => Refusal::NoAgent(why),
            Refusal::Shut(_) => Refusal::Shut(why),
            other => other,
        }
    }
}

/// A new session, and what must be looked after for it.
pub(super) struct Opened {
    pub(super) task_session: Arc<TaskSession>,
    pub(super) events: Events,
    pub(super) questions: mpsc::Receiver<UserQuestion>,
}

/// Opens, or loads, the session that a task needs.
pub(super) async fn open(
    proxy: &Arc<Proxy>,
    task: &Task,
    rules: &PolicyRules,
    workspace: &Workspace,
    stop: watch::Receiver<bool>,
) -> Result<Opened, Refusal> {
    let came = SessionClient::to(proxy, rules, stop);
    match enter(&came.client, task, workspace).await {
        Ok(session) => {
            let SessionClient { client, events, questions, reasons, relay } = came;
            let task_session = Arc::new(TaskSession::new(session, client, reasons, Some(relay)));
            Ok(Opened { task_session, events, questions })
        }
        Err(refusal) => Err(refusal.told_by(came.go().await)),
    }
}

/// Whether an agent can be opened, is one, and opens sessions: why not.
pub(super) async fn probe(
    proxy: &Arc<Proxy>,
    workspace: &Workspace,
    stop: watch::Receiver<bool>,
) -> Result<(), AgentUnavailable> {
    let came = SessionClient::to(proxy, &PolicyRules::default(), stop);
    let tried = async {
        came.client.initialize().await?;
        let opened = came.client.new_session(workspace).await?;
        // Nobody uses it.
        let _ = came.client.close_session(&opened.session_id.0).await;
        Ok(())
    };
    let tried = tried.await;
    let outcome = came.go().await;
    match tried {
        // Somebody has taken the place for it: whether it can be opened is seen by the next task.
        Err(ClientError::Refused { error, .. }) if is_full(&error) => Ok(()),
        tried => tried.map_err(|error: ClientError| match outcome {
            Some(Outcome::AgentFailed(why)) => AgentUnavailable::new(why),
            _ => AgentUnavailable::new(error),
        }),
    }
}

/// Our client in a conversation with an agent.
struct SessionClient {
    client: AcpClient,
    events: Events,
    questions: mpsc::Receiver<UserQuestion>,
    reasons: DecisionReasons,
    relay: JoinHandle<Outcome>,
}

impl SessionClient {
    fn to(proxy: &Arc<Proxy>, rules: &PolicyRules, stop: watch::Receiver<bool>) -> SessionClient {
        let (ours, theirs) = acp_link::memory(256);
        let reasons = DecisionReasons::default();
        let relay = {
            let (proxy, reasons) = (proxy.clone(), Some(reasons.clone()));
            // It came from the queue: it is let in, and speaks v1.
            let info = ClientInfo { admitted: true, trace: None, form: Some(Dialect::V1), reasons };
            tokio::spawn(async move { proxy.serve_known(theirs, info, stop).await })
        };
        let (ask, questions) = mpsc::channel(16);
        let (rules, process_guard) = (rules.clone(), proxy.settings().process_guard.clone());
        let options = ClientOptions { rules, person: Some(ask), process_guard, ..ClientOptions::default() };
        let (client, events) = AcpClient::connect(ours, None, options);
        SessionClient { client, events, questions, reasons, relay }
    }

    /// How the conversation ended, if that is known.
    async fn go(self) -> Option<Outcome> {
        self.client.close(Duration::ZERO).await;
        // The relay ends when nobody is at its other end.
        drop((self.client, self.events));
        self.relay.await.ok()
    }
}

impl TaskSession {
    fn new(
        session: String,
        client: AcpClient,
        reasons: DecisionReasons,
        relay: Option<JoinHandle<Outcome>>,
    ) -> TaskSession {
        TaskSession {
            session,
            client: std::sync::Mutex::new(Some(client)),
            turn: Mutex::default(),
            turns: TurnQueue::default(),
            usage: std::sync::Mutex::new(Usage {
                task: None,
                trace: None,
                is_cancelled: false,
                since: Instant::now(),
            }),
            reasons,
            relay: Mutex::new(relay),
        }
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Our client, as long as the session is not left.
    pub(super) fn client(&self) -> Option<AcpClient> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Cancels the running turn, or one that is about to begin.
    pub(super) async fn cancel(&self) {
        self.usage().is_cancelled = true;
        if let Some(client) = self.client() {
            client.cancel(&self.session).await;
        }
    }

    /// Ends the connection, and the agent with it; `politely` closes the session first.
    pub(super) async fn leave(&self, politely: bool) {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(client) = client {
            if politely {
                let _ = client.close_session(&self.session).await;
            }
            client.close(Duration::from_secs(1)).await;
        }
        if let Some(relay) = self.relay.lock().await.take() {
            let _ = relay.await;
        }
    }
}

impl TaskSession {
    /// Sends a task's prompt and waits for the end of the turn. Says what happened when the agent is gone.
    pub(super) async fn prompt(&self, task: &Task, trace: Option<&str>) -> Option<String> {
        let blocks = content(task).unwrap_or_default();
        let Some(client) = self.client() else { return Some("the session was closed".to_owned()) };
        self.usage().trace = trace.map(str::to_owned);
        let mut turn = match client.prompt_traced(&self.session, blocks, trace).await {
            Ok(turn) => turn,
            Err(error) => return Some(error.to_string()),
        };
        // An agent takes no notice of a cancel that came before its prompt.
        if self.usage().is_cancelled {
            client.cancel(&self.session).await;
        }
        // Not held during the turn: whoever leaves the session must be able to end the connection.
        drop(client);
        while let Some(event) = turn.next().await {
            match event {
                // An answer, whatever it is worth: the turn has ended with it.
                TurnEvent::Ended(_)
                | TurnEvent::Failed(ClientError::Refused { .. } | ClientError::Unreadable { .. }) => {
                    return None;
                }
                TurnEvent::Failed(error) => return Some(error.to_string()),
                TurnEvent::Update(_) | TurnEvent::Decision(_) => {}
            }
        }
        Some("the turn ended without an answer".to_owned())
    }

    /// Whether the agent takes a task's prompt at all.
    pub(super) fn accepts(&self, task: &Task) -> Result<(), Refusal> {
        let (blocks, client) = (content(task)?, self.client());
        // Without a client it is being left.
        let checked = client.map_or(Ok(()), |client| client.check_prompt(&blocks));
        checked.map_err(|error| Refusal::Never(format!("the task's prompt cannot be used: {error}")))
    }

    /// Uses the session for a task, or for none.
    pub(super) fn occupy(&self, task: Option<&str>) {
        let task = task.map(str::to_owned);
        *self.usage() = Usage { task, trace: None, is_cancelled: false, since: Instant::now() };
    }

    /// The trace of the task whose turn it is.
    pub(super) fn trace(&self) -> Option<String> {
        self.usage().trace.clone()
    }

    /// It is used now.
    pub(super) fn touch(&self) {
        self.usage().since = Instant::now();
    }

    /// The task that has the session.
    pub(super) fn occupant(&self) -> Option<String> {
        self.usage().task.clone()
    }

    pub(super) fn is_occupied(&self) -> bool {
        self.usage().task.is_some()
    }

    /// How long nothing has begun or ended here.
    pub(super) fn idle_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.usage().since)
    }
}

/// A task's prompt.
pub(super) fn content(task: &Task) -> Result<Vec<ContentBlock>, Refusal> {
    let blocks: Result<Vec<ContentBlock>, serde_json::Error> = match &task.prompt {
        Prompt::Text(text) => Ok(vec![ContentBlock::from(text.clone())]),
        Prompt::Blocks(blocks) => blocks.iter().map(|block| serde_json::from_str(block.get())).collect(),
    };
    blocks.map_err(|error| Refusal::Never(format!("the task's prompt cannot be used: {error}")))
}

async fn enter(client: &AcpClient, task: &Task, workspace: &Workspace) -> Result<String, Refusal> {
    let again = |error: ClientError| match error {
        ClientError::Refused { error, .. } if is_full(&error) => Refusal::Full,
        error => Refusal::Again(error.to_string()),
    };
    client.initialize().await.map_err(|error| Refusal::NoAgent(error.to_string()))?;
    match &task.session {
        None => match client.new_session(workspace).await {
            Ok(opened) => Ok(opened.session_id.0.to_string()),
            Err(ClientError::Refused { method, error }) if !is_full(&error) => {
                Err(Refusal::Shut(ClientError::Refused { method, error }.to_string()))
            }
            Err(error) => Err(again(error)),
        },
        Some(session) => match client.load_session(session, workspace).await {
            Ok(_) => Ok(session.clone()),
            Err(error @ ClientError::NotOffered { .. }) => Err(Refusal::Never(format!(
                "session {session:?} is served by no proxy any more, and {error}: it cannot be gone on with"
            ))),
            Err(ClientError::Refused { method, error }) if !is_full(&error) => {
                let error = ClientError::Refused { method, error };
                Err(Refusal::Never(format!("session {session:?} cannot be loaded: {error}")))
            }
            Err(error) => Err(again(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use acp_proto::method;
    use acp_rpc::{Frame, View};
    use serde_json::json;

    use super::*;

    /// An agent that plays one turn, which ends when it is cancelled.
    async fn one_turn(link: acp_link::Link) {
        let (mut rx, mut prompt) = (link.rx, None);
        while let Some(arrival) = rx.recv().await {
            let frame = Frame::from(arrival.line);
            let answer = match (frame.view(), &prompt) {
                (View::Request { id, method: method::SESSION_PROMPT, .. }, _) => {
                    prompt = Some(id.clone());
                    continue;
                }
                (View::Request { id, .. }, _) => {
                    Frame::response(id, &json!({ "protocolVersion": 1, "sessionId": "s" }))
                }
                (View::Notification { method: method::SESSION_CANCEL, .. }, Some(id)) => {
                    Frame::response(id, &json!({ "stopReason": "cancelled" }))
                }
                _ => continue,
            };
            link.tx.send(answer.raw()).await.expect("sent");
        }
    }

    #[tokio::test]
    async fn a_turn_that_was_cancelled_before_its_prompt_is_cancelled() {
        let (ours, theirs) = acp_link::memory(16);
        tokio::spawn(one_turn(theirs));
        let (client, _events) = AcpClient::connect(ours, None, ClientOptions::default());
        client.initialize().await.expect("initialized");
        let task_session = TaskSession::new("s".to_owned(), client, DecisionReasons::default(), None);
        let task = Task::parse(br#"{"v":1,"id":"t","prompt":"words"}"#).expect("a task");
        task_session.occupy(Some(&task.id));
        task_session.cancel().await;
        let ended = tokio::time::timeout(Duration::from_secs(60), task_session.prompt(&task, None)).await;
        assert_eq!(ended, Ok(None));
    }
}
