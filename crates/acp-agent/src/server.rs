//! The server: gives every connection an agent of its own, and all of them one database.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use acp_dialect::{ClientDialect, DialectChoice};
use acp_link::process_guard::ProcessGuard;
use acp_link::{Link, LinkSettings, Listener};
use acp_policy::{Policy, ToolPatterns};
use acp_script::agent::{Agent, AgentConfig, Fence, TOOL_NAMES};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::claims::Claims;
use crate::connection::converse;
use crate::identity;
use crate::offer::Abilities;
use crate::provider::{self, Choice, Provider, ProviderError};
use crate::store::{SessionStore, SessionStoreError};

/// How to start the agent.
#[derive(Clone, Debug, Default)]
pub struct AgentServerSettings {
    /// The folder that sessions must lie in, and the one they work in when the client names none.
    pub path: Option<PathBuf>,
    /// Debug lines on standard error.
    pub debug: bool,
    /// Who thinks.
    pub choice: Choice,
    /// Whether files may be changed.
    pub allow_edit: bool,
    /// Whether tasks may be delegated.
    pub enable_delegate: bool,
    /// Whether MCP servers are used.
    pub enable_mcp: bool,
    /// MCP servers of every session, as `session/new` names them, beside those that clients name.
    pub servers: Vec<serde_json::Value>,
    /// Which form of the protocol to speak.
    pub speak: DialectChoice,
    /// Where sessions are kept.
    pub state: State,
    /// How permission is given when no pattern says otherwise.
    pub policy: Policy,
    /// Tools that need no permission.
    pub allow: ToolPatterns,
    /// Tools that are never used.
    pub deny: ToolPatterns,
    /// The token that clients must sign in with.
    pub token: Option<String>,
    /// Who ends the agent's commands and MCP servers when it cannot; without it they outlive a kill.
    pub process_guard: Option<ProcessGuard>,
}

/// Where sessions are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// In memory.
    #[default]
    Memory,
    /// In this folder, and nowhere else.
    Folder(PathBuf),
    /// In this folder; in memory if that is not possible.
    Usually(PathBuf),
}

/// Why the agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentServeError {
    /// The database.
    #[error(transparent)]
    Store(#[from] SessionStoreError),
    /// The model.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// A pattern for tools that there are not.
    #[error(
        "cannot use {flag} {pattern}: there is no such tool; there are {}, mcp__SERVER__TOOL, and for all of a kind Read, Edit, \
         Search, Bash, Think",
        TOOL_NAMES.join(", ")
    )]
    Pattern {
        /// Where it was given.
        flag: &'static str,
        /// The pattern.
        pattern: String,
    },
    /// The working folder.
    #[error("cannot work in {path:?}: {reason}; name a folder with --path")]
    Path {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Own standard streams.
    #[error("cannot use standard input and output: {0}")]
    Stdio(io::Error),
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) settings: AgentServerSettings,
    pub(crate) store: SessionStore,
    pub(crate) claims: Arc<Claims>,
    pub(crate) provider: Option<Arc<dyn Provider>>,
    pub(crate) abilities: Abilities,
    pub(crate) work_dir: PathBuf,
    pub(crate) fence: Fence,
    prefix: String,
    stop: watch::Sender<bool>,
}

/// Agents for any number of connections.
pub struct AgentServer {
    shared: Arc<Shared>,
    config: AgentConfig,
    warning: Option<String>,
    base: u64,
    connections: AtomicU64,
}

impl AgentServer {
    /// Opens the database and makes the provider ready. `env` reads environment variables.
    pub fn new(
        mut settings: AgentServerSettings,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, AgentServeError> {
        let work_dir = match &settings.path {
            Some(path) => folder(path)?,
            None => std::env::current_dir().map_err(|error| AgentServeError::Path {
                path: PathBuf::from("."),
                reason: error.to_string(),
            })?,
        };
        for (flag, patterns) in [("--allow", &settings.allow), ("--deny", &settings.deny)] {
            if let Some(pattern) = patterns.stranger(&TOOL_NAMES) {
                return Err(AgentServeError::Pattern { flag, pattern: pattern.to_string() });
            }
        }
        settings.deny = identity::by_kind(&settings.deny);
        let provider = provider::open(&settings.choice, env)?;
        let (store, warning) = open_store(&settings.state)?;
        let config = identity::config(&settings, provider.as_deref());
        let abilities = Abilities { edit: settings.allow_edit, delegate: settings.enable_delegate };
        let base = nanos();
        let prefix = format!("session_{base:x}");
        let claims = Arc::new(Claims::new(store.clone()));
        let (fence, stop) = (config.rules.fence.clone(), watch::Sender::default());
        let shared = Shared { settings, store, claims, provider, abilities, work_dir, fence, prefix, stop };
        let shared = Arc::new(shared);
        Ok(Self { shared, config, warning, base, connections: AtomicU64::new(0) })
    }

    /// What the person should know before the first session.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Ends every connection and its commands, as if its client had gone away. Whoever serves returns soon after.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }

    /// Serves one link until the client goes away or [`stop`](AgentServer::stop) is called.
    pub fn serve(&self, link: Link) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let number = self.connections.fetch_add(1, Ordering::Relaxed);
            let mut config = self.config.clone();
            if let Some(provider) = self.shared.provider.as_deref() {
                name_models(provider).await;
                config.persona = identity::config(&self.shared.settings, Some(provider)).persona;
            }
            config.id_prefix = format!("{:x}{number:x}", self.base % 0xff_ffff_ffff);
            config.started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            config.warning.clone_from(&self.warning);
            let client = ClientDialect::new(self.shared.settings.speak, self.shared.translation());
            converse(link, Agent::new(config), client, self.shared.clone()).await;
        })
    }

    /// Serves own standard input and output.
    pub fn serve_stdio(&self) -> BoxFuture<'_, Result<(), AgentServeError>> {
        Box::pin(async move {
            let link = acp_link::stdio::own(&LinkSettings::default()).map_err(AgentServeError::Stdio)?;
            self.serve(link).await;
            Ok(())
        })
    }

    /// Serves every client of a listener until it is told to stop.
    pub fn serve_clients(self: Arc<Self>, listener: Listener) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let serve = |link, _| {
                let server = self.clone();
                async move { server.serve(link).await }
            };
            let failed = |error: &io::Error| eprintln!("acp agent: cannot accept a connection: {error}");
            listener.serve(self.shared.stopped(), serve, failed).await;
        })
    }
}

impl Shared {
    /// Waits until the server is told to stop.
    pub(crate) async fn stopped(&self) {
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// What a translation must be told.
    pub(crate) fn translation(&self) -> acp_dialect::TranslationOptions {
        acp_dialect::TranslationOptions {
            work_dir: self.work_dir.to_string_lossy().into_owned(),
            load_session: true,
            token: self.settings.token.clone(),
            session_prefix: self.prefix.clone(),
            sessions: self.store.aliases().unwrap_or_default(),
            ..acp_dialect::TranslationOptions::default()
        }
    }
}

fn folder(path: &Path) -> Result<PathBuf, AgentServeError> {
    let fail = |reason: String| AgentServeError::Path { path: path.to_owned(), reason };
    let real = path.canonicalize().map_err(|error| fail(error.to_string()))?;
    if !real.is_dir() {
        return Err(fail("it is not a folder".to_owned()));
    }
    real.read_dir().map_err(|error| fail(error.to_string()))?;
    Ok(real)
}

/// A server of one's own says which models it has; a vendor's are known. Who does not say it soon is asked later, by the
/// first turn.
async fn name_models(provider: &dyn Provider) {
    if provider.models().iter().any(|model| model.id == provider::AUTO) {
        let _ = tokio::time::timeout(Duration::from_secs(2), provider.discover()).await;
    }
}

fn open_store(state: &State) -> Result<(SessionStore, Option<String>), SessionStoreError> {
    match state {
        State::Memory => Ok((SessionStore::in_memory()?, None)),
        State::Folder(folder) => Ok((SessionStore::open(folder)?, None)),
        State::Usually(folder) => match SessionStore::open(folder) {
            // Nobody asked for this folder, and nothing in it is wrong: the agent works without it, and says so.
            Err(
                error @ (SessionStoreError::InUse { .. }
                | SessionStoreError::Folder { .. }
                | SessionStoreError::Disk { .. }),
            ) => {
                let warning = format!("sessions are kept in memory only: {error}");
                Ok((SessionStore::in_memory()?, Some(warning)))
            }
            other => Ok((other?, None)),
        },
    }
}

fn nanos() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos() / 1000).unwrap_or_default() ^ (u64::from(std::process::id()) << 32)
}
