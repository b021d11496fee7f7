//! The server: listens, and gives every connection an agent of its own.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use acp_dialect::{ClientDialect, DialectChoice};
use acp_link::process_guard::ProcessGuard;
use acp_link::{Link, LinkSettings, Listener, Tap};
use acp_rpc::Direction;
use acp_script::agent::{AgentConfig, Auth, Habits};
use acp_script::defects::Defect;
use acp_script::faults::{Fault, FaultAction};
use acp_script::variants::{HabitsError, Variant};
use acp_script::{MockAgent, Switch};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use crate::connection::{Ending, converse};
use crate::forms;
use crate::store::{MockStore, MockStoreError};
use crate::watch::Watch;

/// What to serve.
#[derive(Clone, Debug, Default)]
pub struct MockSettings {
    /// How each agent shall be. Its `id_prefix` and `started` are set for each connection.
    pub agent: AgentConfig,
    /// What goes wrong between the agent and its client.
    pub faults: Vec<Fault>,
    /// What the agent does wrong besides.
    pub switches: Vec<Switch>,
    /// Which form of the protocol to speak.
    pub speak: DialectChoice,
    /// The answer to the agent's permission requests when the client's form cannot be asked.
    pub unasked: acp_dialect::Unasked,
    /// Where sessions are kept; without it, in memory.
    pub state_dir: Option<PathBuf>,
    /// The same ids in every run.
    pub seed: Option<u64>,
    /// Appends what each client did to this file.
    pub journal: Option<PathBuf>,
    /// Tells every frame on standard error.
    pub verbose: bool,
    /// Records the conversation (of stdio, or of the first connection) as a transcript.
    pub record: Option<PathBuf>,
    /// Who ends the agent's MCP servers when it cannot; without it they may outlive a kill.
    pub process_guard: Option<ProcessGuard>,
}

impl MockSettings {
    /// Makes the agent wrong in this way too.
    pub fn add_defect(&mut self, defect: &Defect) {
        self.faults.extend(defect.faults.iter().cloned());
        self.switches.extend(defect.switch);
    }

    /// Makes the agent differ in these legal ways.
    pub fn add_variants(&mut self, variants: &[&Variant]) -> Result<(), HabitsError> {
        self.agent.habits = Habits::with(variants.iter().copied())?;
        self.faults.extend(variants.iter().flat_map(|variant| variant.faults.iter().cloned()));
        Ok(())
    }
}

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum MockServeError {
    /// The state folder.
    #[error(transparent)]
    Store(#[from] MockStoreError),
    /// Own standard streams.
    #[error("cannot use standard input and output: {0}")]
    Stdio(io::Error),
    /// The journal.
    #[error("cannot write the journal {}: {error}", path.display())]
    Journal {
        /// Where.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The recording.
    #[error(transparent)]
    Record(#[from] acp_link::tap::TapError),
}

/// Agents for any number of connections.
pub struct MockServer {
    settings: MockSettings,
    store: Arc<MockStore>,
    base: u64,
    connections: AtomicU64,
    tap: Option<Tap>,
    journal: Option<Arc<File>>,
    /// Standard output as it was before the link took it, where a fault needs it.
    stdout: OnceLock<Arc<OwnedFd>>,
}

impl MockServer {
    /// Opens the state folder, the journal and the recording.
    pub fn new(settings: MockSettings) -> Result<Self, MockServeError> {
        let store = match &settings.state_dir {
            Some(folder) if settings.agent.habits.keeps_sessions() => MockStore::in_folder(folder)?,
            _ => MockStore::in_memory(),
        };
        let journal = settings.journal.as_ref().map(open_journal).transpose()?;
        let tap = settings.record.as_ref().map(Tap::create).transpose()?;
        let base = match settings.seed {
            // Sessions of an earlier run with the same seed keep their ids to themselves.
            Some(seed) => seed.wrapping_add(store.len() as u64),
            None => nanos(),
        };
        Ok(Self {
            settings,
            store: Arc::new(store),
            base,
            connections: AtomicU64::new(0),
            tap,
            journal,
            stdout: OnceLock::new(),
        })
    }

    /// The sessions.
    pub fn store(&self) -> &MockStore {
        &self.store
    }

    /// Writes the end of the recording. Call it before the process ends in the middle of a conversation.
    pub fn finish_record(&self) {
        if let Some(Err(error)) = self.tap.as_ref().map(Tap::finish) {
            eprintln!("acp mock: {error}");
        }
    }

    /// Serves one link until the client goes away.
    pub fn serve(&self, link: Link) -> BoxFuture<'_, Ending> {
        Box::pin(async move {
            let number = self.connections.fetch_add(1, Ordering::Relaxed);
            let link = match &self.tap {
                Some(tap) if number == 0 => link.tapped(tap, Direction::ClientToAgent),
                _ => link,
            };
            let mut agent = self.settings.agent.clone();
            let agent_prefix = format!("{:x}{number:x}", self.base % 0xff_ffff_ffff);
            agent.id_prefix.clone_from(&agent_prefix);
            forms::introduce(&mut agent.persona);
            agent.started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let seed = self.settings.seed.unwrap_or(self.base).wrapping_add(number);
            let exit_delay = agent.habits.exit_delay;
            let player = MockAgent::new(agent, &self.settings.faults, seed).wrong(&self.settings.switches);
            let watch = Watch {
                verbose: self.settings.verbose,
                journal: self.journal.clone(),
                stdout: self.stdout.get().cloned(),
            };
            let client = ClientDialect::new(self.settings.speak, self.options(&agent_prefix));
            let ending = converse(
                link,
                player,
                client,
                self.store.clone(),
                watch,
                self.settings.process_guard.clone(),
            )
            .await;
            tokio::time::sleep(exit_delay).await;
            if number == 0 {
                self.finish_record();
            }
            ending
        })
    }

    /// What a translation must be told.
    fn options(&self, prefix: &str) -> acp_dialect::TranslationOptions {
        let token = match &self.settings.agent.auth {
            Auth::Required(token) => token.clone(),
            Auth::Token(token) => Some(token.clone()),
            Auth::SignedIn => None,
        };
        let work_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        acp_dialect::TranslationOptions {
            work_dir: work_dir.to_string_lossy().into_owned(),
            permission: self.settings.unasked,
            client_files: true,
            load_session: self.settings.agent.load_session,
            token,
            session_prefix: format!("session_{prefix}"),
            sessions: self.store.aliases(),
            ..acp_dialect::TranslationOptions::default()
        }
    }

    /// Serves own standard input and output.
    pub fn serve_stdio(&self) -> BoxFuture<'_, Result<Ending, MockServeError>> {
        Box::pin(async move {
            if self
                .settings
                .faults
                .iter()
                .any(|fault| fault.r#do.iter().any(|action| matches!(action, FaultAction::Grandchild(_))))
            {
                let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(MockServeError::Stdio)?;
                let _ = self.stdout.set(Arc::new(stdout));
            }
            let link = acp_link::stdio::own(&LinkSettings::default()).map_err(MockServeError::Stdio)?;
            Ok(self.serve(link).await)
        })
    }

    /// Serves every client of a listener, until one of them ends the process: with which code.
    pub fn serve_clients(self: Arc<Self>, listener: Listener) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            let (exits, mut exit) = mpsc::unbounded_channel();
            let serve = |link, _| {
                let (server, exits) = (self.clone(), exits.clone());
                async move {
                    if let Ending::Exit(code) = server.serve(link).await {
                        let _ = exits.send(code);
                    }
                }
            };
            let failed = |error: &io::Error| eprintln!("acp mock: cannot accept a connection: {error}");
            tokio::select! {
                () = listener.serve(std::future::pending(), serve, failed) => 0,
                Some(code) = exit.recv() => code,
            }
        })
    }
}

fn open_journal(path: &PathBuf) -> Result<Arc<File>, MockServeError> {
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    opened.map(Arc::new).map_err(|error| MockServeError::Journal { path: path.clone(), error })
}

fn nanos() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos() / 1000).unwrap_or_default() ^ (u64::from(std::process::id()) << 32)
}
