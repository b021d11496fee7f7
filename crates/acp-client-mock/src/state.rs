//! What a client has open, and what all of its parts share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acp_host::{AcpClient, UserQuestion};
use acp_rpc::Frame;
use acp_script::client_habits::{ElicitationAnswers, PermissionAnswers};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::launch::{AgentProcess, AgentStarter};
use crate::manners::ClientManners;
use crate::nature::ClientNature;
use crate::wire::{SharedQuirks, WireEnd};

/// What all parts of a client share.
pub(crate) struct Shared {
    pub(crate) nature: ClientNature,
    pub(crate) manners: Box<dyn ClientManners>,
    pub(crate) quirks: SharedQuirks,
    pub(crate) agents: Arc<dyn AgentStarter>,
    pub(crate) workspace: PathBuf,
    pub(crate) events: mpsc::UnboundedSender<Value>,
    /// Where the product's client puts its questions.
    pub(crate) person: mpsc::Sender<UserQuestion>,
    /// How permission questions are answered from now on.
    pub(crate) permission: watch::Sender<PermissionAnswers>,
    /// How many questions are shown at once.
    pub(crate) screen: Semaphore,
    /// What the wires ended by themselves.
    pub(crate) ends: mpsc::UnboundedSender<(usize, WireEnd)>,
    state: Mutex<State>,
}

/// What a client has open and was given.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) launches: usize,
    pub(crate) connection: Option<Connection>,
    pub(crate) session: Option<OpenSession>,
    /// The session to come back to.
    pub(crate) last_session: Option<String>,
    /// Whether a session was wanted and the agent asked for a login.
    pub(crate) wants_login: bool,
    pub(crate) servers: Vec<Value>,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) attached: Vec<PathBuf>,
    pub(crate) form: FormAnswer,
}

/// How the next form is answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormAnswer {
    pub(crate) values: Option<Map<String, Value>>,
    pub(crate) action: Option<ElicitationAnswers>,
}

/// A connection to an agent.
pub(crate) struct Connection {
    pub(crate) launch: usize,
    pub(crate) client: AcpClient,
    pub(crate) process: Option<Box<dyn AgentProcess>>,
    /// The agent's answer to initialize.
    pub(crate) agent: Value,
    /// Whether the agent has gone.
    pub(crate) is_gone: Arc<AtomicBool>,
    /// Ends when both sides have.
    pub(crate) wire: tokio::task::JoinHandle<()>,
}

/// The session that the client works in.
#[derive(Clone, Debug)]
pub(crate) struct OpenSession {
    pub(crate) id: String,
    /// The options, as the agent told them last.
    pub(crate) options: Vec<Value>,
    /// The modes.
    pub(crate) modes: Vec<String>,
}

impl Connection {
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }
}

impl OpenSession {
    /// From the answer that opened it.
    pub(crate) fn new(id: &str, answer: &Value) -> Self {
        let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
        let modes = list(answer.pointer("/modes/availableModes"));
        Self {
            id: id.to_owned(),
            options: list(answer.get("configOptions")),
            modes: modes.iter().filter_map(|mode| Some(mode.get("id")?.as_str()?.to_owned())).collect(),
        }
    }
}

/// Where a new client's parts find each other.
pub(crate) struct Wiring {
    pub(crate) events: mpsc::UnboundedSender<Value>,
    pub(crate) person: mpsc::Sender<UserQuestion>,
    pub(crate) ends: mpsc::UnboundedSender<(usize, WireEnd)>,
}

impl Shared {
    pub(crate) fn new(
        nature: ClientNature,
        manners: Box<dyn ClientManners>,
        workspace: PathBuf,
        agents: Arc<dyn AgentStarter>,
        wiring: Wiring,
    ) -> Self {
        let habits = &nature.habits;
        let Wiring { events, person, ends } = wiring;
        Self {
            quirks: Arc::new(Mutex::new(crate::quirk::all(&nature.switches, habits))),
            permission: watch::channel(habits.permission).0,
            screen: Semaphore::new(if habits.one_question_at_a_time { 1 } else { Semaphore::MAX_PERMITS }),
            state: Mutex::default(),
            nature,
            manners,
            agents,
            workspace,
            events,
            person,
            ends,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an event to the driver of the client.
    pub(crate) fn tell(&self, event: Value) {
        // One that does not listen misses nothing.
        let _ = self.events.send(event);
    }

    pub(crate) fn complain(&self, verb: Option<&str>, message: &str) {
        self.tell(match verb {
            Some(verb) => json!({ "event": "error", "verb": verb, "message": message }),
            None => json!({ "event": "error", "message": message }),
        });
    }

    /// The client of the open connection.
    pub(crate) fn client(&self) -> Option<AcpClient> {
        self.state().connection.as_ref().filter(|open| !open.is_gone()).map(|open| open.client.clone())
    }

    /// The client and its session.
    pub(crate) fn open(&self) -> Option<(AcpClient, OpenSession)> {
        let state = self.state();
        let open = state.connection.as_ref().filter(|open| !open.is_gone())?;
        Some((open.client.clone(), state.session.clone()?))
    }
}

/// The result of a response, as it came.
pub(crate) fn result_of(frame: &Frame) -> Value {
    frame.result().and_then(|result| serde_json::from_str(result).ok()).unwrap_or_default()
}
