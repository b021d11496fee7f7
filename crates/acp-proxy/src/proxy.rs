//! One conversation after another, or many at once: a client comes, an agent is opened for it, the two are joined, and
//! nothing is left when one of them is gone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use acp_link::Link;
use acp_link::child::Child;
use acp_relay::Observer;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::admit;
use crate::conversation::{ClientInfo, Conversation};
use crate::endings::{farewell, stopped};
use crate::folders::FolderOpener;
use crate::gatekeeper::{EvictIdleSession, SharedLimits};
use crate::handle::ConversationHandle;
use crate::log::{ConversationLog, ProxyLog};
use crate::settings::ProxySettings;
use crate::traffic::Traffic;
use tracing::Level;

/// Why there is no agent for a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AgentUnavailable(String);

impl AgentUnavailable {
    /// For this reason.
    pub fn new(reason: impl std::fmt::Display) -> AgentUnavailable {
        AgentUnavailable(reason.to_string())
    }
}

/// An agent that was opened: its link, and its process if we started one.
pub type OpenedAgent = (Link, Option<Child>);

/// Opens an agent for one client.
pub type Opener = Arc<dyn Fn() -> BoxFuture<'static, Result<OpenedAgent, AgentUnavailable>> + Send + Sync>;

/// How a conversation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The client left.
    Left,
    /// The agent could not be opened, or went away by itself: why.
    AgentFailed(String),
    /// The client, or the agent, spoke a form that it should not: which.
    Refused(String),
    /// We were told to stop.
    Stopped,
    /// We were told to end this one conversation: why.
    Closed(String),
    /// We cannot go on: why.
    Fault(String),
}

impl Outcome {
    /// The outcome in words.
    #[must_use]
    pub fn describe(&self) -> &str {
        match self {
            Outcome::Left => "the client left",
            Outcome::Stopped => "the proxy was told to stop",
            Outcome::AgentFailed(why)
            | Outcome::Refused(why)
            | Outcome::Fault(why)
            | Outcome::Closed(why) => why,
        }
    }
}

/// Observes every conversation of a proxy.
pub trait ObserverFactory: Send + Sync {
    /// A client has an agent, and their conversation begins. `handle` reaches it as long as it lasts.
    fn observe(&self, client: &ClientInfo, handle: ConversationHandle) -> Box<dyn Observer>;
}

/// Joins each client to an agent of its own.
pub struct Proxy {
    pub(crate) settings: ProxySettings,
    pub(crate) open: Opener,
    pub(crate) logs: ConversationLog,
    pub(crate) log: ProxyLog,
    count: AtomicU64,
    /// When it began, in milliseconds since 1970: part of the session ids that translations make.
    pub(crate) base: u64,
    /// Session ids that differ on the two sides, from conversations that have ended: of clients, of agents.
    pub(crate) known: Mutex<[Vec<(String, String)>; 2]>,
    pub(crate) observers: Option<Arc<dyn ObserverFactory>>,
    pub(crate) shared: Arc<SharedLimits>,
    pub(crate) traffic: Traffic,
    /// Session ids of an agent of a foreign form, where lines are decided about on their way to it.
    pub(crate) agents: acp_relay::SessionAliases,
    /// Starts agents in the folders of sessions, for agents that cannot be told a folder per session.
    pub(crate) folders: Option<FolderOpener>,
}

impl Proxy {
    /// A proxy that opens agents with `open` and logs what happens.
    #[must_use]
    pub fn new(settings: ProxySettings, open: Opener, log: ProxyLog) -> Proxy {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Proxy {
            shared: SharedLimits::new(settings.duties.clone(), &settings.metrics),
            traffic: Traffic::new(&settings.metrics),
            agents: acp_relay::SessionAliases::default(),
            folders: None,
            settings,
            open,
            logs: ConversationLog::new(log.clone()),
            log,
            count: AtomicU64::new(0),
            base: u64::try_from(now.as_millis()).unwrap_or_default(),
            known: Mutex::default(),
            observers: None,
        }
    }

    /// Gives each folder of a client an agent of its own, opened by `open`, where agents are told their folder at
    /// `initialize` and clients name one with each session.
    #[must_use]
    pub fn in_folders(mut self, open: FolderOpener) -> Proxy {
        if self.settings.agent.traits().folder_at_initialize {
            self.settings.options.per_folder = true;
            self.folders = Some(open);
        }
        self
    }

    /// Has every conversation observed, besides by the journal and the judge.
    #[must_use]
    pub fn observed_by(mut self, observers: Arc<dyn ObserverFactory>) -> Proxy {
        self.observers = Some(observers);
        self
    }

    /// How it was set up.
    #[must_use]
    pub fn settings(&self) -> &ProxySettings {
        &self.settings
    }

    /// Whether one more session can be opened (`Duties::max_sessions`).
    #[must_use]
    pub fn has_session_room(&self) -> bool {
        self.shared.has_room()
    }

    /// Waits until one more session can be opened.
    pub async fn session_room(&self) {
        self.shared.room().await;
    }

    /// Before a session is refused because there are too many, `evict` may close an idle one: it returns true when a
    /// place will be free in a moment.
    pub fn before_refusing_a_session(&self, evict: EvictIdleSession) {
        self.shared.ask_before_refusing(evict);
    }

    /// A client was turned away.
    pub(crate) fn refused(&self, why: &str) {
        self.traffic.refused.up();
        self.log.warn(&format!("a client was refused: {why}"));
    }

    /// Serves one client until it, its agent or we must go. Leaves no process behind.
    pub fn serve(&self, client: Link, stop: watch::Receiver<bool>) -> BoxFuture<'_, Outcome> {
        self.serve_known(client, ClientInfo::default(), stop)
    }

    /// Like [`serve`](Proxy::serve), for a client of which something is known.
    pub fn serve_known(
        &self,
        mut client: Link,
        info: ClientInfo,
        mut stop: watch::Receiver<bool>,
    ) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
            let _counted = self.traffic.connection();
            if let (Some(token), false) = (&self.settings.token, info.admitted) {
                let admitted = tokio::select! {
                    admitted = admit::by_token(&mut client, token) => admitted,
                    () = stopped(&mut stop) => return Outcome::Stopped,
                };
                if let Err(error) = admitted {
                    let why = error.to_string();
                    self.traffic.refused.up();
                    self.logs.tell(Level::WARN, number, &why);
                    farewell(client, &mut stop).await;
                    return Outcome::Refused(why);
                }
            }
            let outcome = Conversation::new(self, number, info, stop).run(client).await;
            self.report(number, &outcome);
            outcome
        })
    }

    /// Logs and counts how a conversation ended.
    fn report(&self, number: u64, outcome: &Outcome) {
        let level = match outcome {
            Outcome::Left | Outcome::Stopped => return,
            Outcome::AgentFailed(_) => {
                self.traffic.agents_failed.up();
                Level::WARN
            }
            Outcome::Refused(_) => Level::WARN,
            Outcome::Fault(_) => Level::ERROR,
            Outcome::Closed(_) => Level::INFO,
        };
        self.logs.tell(level, number, outcome.describe());
    }
}
