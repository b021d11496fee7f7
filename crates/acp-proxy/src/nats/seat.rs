//! A session that tasks are done in: an agent of its own behind the proxy, and a client of ours in front of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use acp_dialect::Dialect;
use acp_host::{AcpClient, ClientError, ClientOptions, Events, Question, Workspace};
use acp_policy::Rules;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;

use super::booking::Bookings;
use super::payload::Task;
use crate::desk::is_full;
use crate::proxy::{Guest, Outcome, Proxy};
use crate::witness::Reasons;

/// A session that is open here.
pub(super) struct Seat {
    pub(super) session: String,
    /// Our client, until the seat is left: as long as it is there, so is the relay.
    client: std::sync::Mutex<Option<AcpClient>>,
    /// Held during a turn.
    pub(super) turn: Mutex<()>,
    /// The tasks that want a turn, or have it.
    pub(super) bookings: Bookings,
    /// The task of the turn.
    pub(super) task: std::sync::Mutex<Option<String>>,
    /// Its trace, once its prompt is sent.
    pub(super) trace: std::sync::Mutex<Option<String>>,
    /// Whether that turn is to be cancelled, be its prompt sent or not.
    pub(super) cancelled: AtomicBool,
    pub(super) used: std::sync::Mutex<Instant>,
    /// Why permission requests were answered as they were.
    pub(super) reasons: Reasons,
    /// The relay between our client and the agent.
    relay: Mutex<Option<JoinHandle<Outcome>>>,
}

/// Why a task cannot begin.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Another attempt may succeed.
    Again(String),
    /// Soon it is known who has the session: whoever has it is leaving it, or cannot be heard, or we are leaving ourselves.
    Soon(&'static str),
    /// None will.
    Never(String),
    /// It is not the task's fault: no agent can be opened. Another proxy's may be.
    NoAgent(String),
    /// The agent refused the session, be it this one alone or any.
    Shut(String),
    /// There is no place for another session here. Another proxy may have one.
    Full,
}

impl Refusal {
    /// The same, and where an agent went away by itself, in the words of who saw it go: to its client it only refused.
    fn told_by(self, outcome: Option<Outcome>) -> Refusal {
        let Some(Outcome::AgentFailed(why)) = outcome else { return self };
        match self {
            Refusal::NoAgent(_) => Refusal::NoAgent(why),
            Refusal::Shut(_) => Refusal::Shut(why),
            other => other,
        }
    }
}

/// A new seat, and what must be looked after for it.
pub(super) struct Opened {
    pub(super) seat: Arc<Seat>,
    pub(super) events: Events,
    pub(super) questions: mpsc::Receiver<Question>,
}

/// Opens, or loads, the session that a task needs.
pub(super) async fn open(
    proxy: &Arc<Proxy>,
    task: &Task,
    rules: &Rules,
    workspace: &Workspace,
    stop: watch::Receiver<bool>,
) -> Result<Opened, Refusal> {
    let came = Came::to(proxy, rules, stop);
    match enter(&came.client, task, workspace).await {
        Ok(session) => {
            let Came { client, events, questions, reasons, relay } = came;
            let seat = Arc::new(Seat::new(session, client, reasons, Some(relay)));
            Ok(Opened { seat, events, questions })
        }
        Err(refusal) => Err(refusal.told_by(came.go().await)),
    }
}

/// Whether an agent can be opened, is one, and opens sessions: why not.
pub(super) async fn probe(
    proxy: &Arc<Proxy>,
    workspace: &Workspace,
    stop: watch::Receiver<bool>,
) -> Result<(), String> {
    let came = Came::to(proxy, &Rules::default(), stop);
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
            Some(Outcome::AgentFailed(why)) => why,
            _ => error.to_string(),
        }),
    }
}

/// Our client, in a conversation with an agent.
struct Came {
    client: AcpClient,
    events: Events,
    questions: mpsc::Receiver<Question>,
    reasons: Reasons,
    relay: JoinHandle<Outcome>,
}

impl Came {
    fn to(proxy: &Arc<Proxy>, rules: &Rules, stop: watch::Receiver<bool>) -> Came {
        let (ours, theirs) = acp_link::memory(256);
        let reasons = Reasons::default();
        let relay = {
            let (proxy, reasons) = (proxy.clone(), Some(reasons.clone()));
            // It came from the queue: it is let in, and speaks v1.
            let guest = Guest { admitted: true, trace: None, form: Some(Dialect::V1), reasons };
            tokio::spawn(async move { proxy.serve_guest(theirs, guest, stop).await })
        };
        let (ask, questions) = mpsc::channel(16);
        let (rules, leash) = (rules.clone(), proxy.settings.leash.clone());
        let options = ClientOptions { rules, person: Some(ask), leash, ..ClientOptions::default() };
        let (client, events) = AcpClient::connect(ours, None, options);
        Came { client, events, questions, reasons, relay }
    }

    /// How the conversation ended, if that is known.
    async fn go(self) -> Option<Outcome> {
        self.client.close(Duration::ZERO).await;
        // The relay ends when nobody is at its other end.
        drop((self.client, self.events));
        self.relay.await.ok()
    }
}

impl Seat {
    fn new(session: String, client: AcpClient, reasons: Reasons, relay: Option<JoinHandle<Outcome>>) -> Seat {
        Seat {
            session,
            client: std::sync::Mutex::new(Some(client)),
            turn: Mutex::default(),
            bookings: Bookings::default(),
            task: std::sync::Mutex::default(),
            trace: std::sync::Mutex::default(),
            cancelled: AtomicBool::new(false),
            used: std::sync::Mutex::new(Instant::now()),
            reasons,
            relay: Mutex::new(relay),
        }
    }

    /// Our client, as long as the seat is not left.
    pub(super) fn client(&self) -> Option<AcpClient> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Cancels the running turn, or one that is about to begin.
    pub(super) async fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
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
    use acp_rpc::{Frame, View};
    use serde_json::json;

    use super::*;

    /// An agent that plays one turn, which ends when it is cancelled.
    async fn one_turn(link: acp_link::Link) {
        let (mut rx, mut prompt) = (link.rx, None);
        while let Some(arrival) = rx.recv().await {
            let frame = Frame::from(arrival.line);
            let answer = match (frame.view(), &prompt) {
                (View::Request { id, method: "session/prompt", .. }, _) => {
                    prompt = Some(id.clone());
                    continue;
                }
                (View::Request { id, .. }, _) => {
                    Frame::response(id, &json!({ "protocolVersion": 1, "sessionId": "s" }))
                }
                (View::Notification { method: "session/cancel", .. }, Some(id)) => {
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
        let seat = Seat::new("s".to_owned(), client, Reasons::default(), None);
        let task = Task::parse(br#"{"v":1,"id":"t","prompt":"words"}"#).expect("a task");
        seat.occupy(Some(&task.id));
        seat.cancel().await;
        let ended = tokio::time::timeout(Duration::from_secs(60), seat.prompt(&task, None)).await;
        assert_eq!(ended, Ok(None));
    }
}
