//! What is under test, and how a test gets a connection of its own to it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use acp_dialect::{Dialect, TranslationOptions, Unasked};
use acp_link::child::{self, Child, Exit, SpawnError};
use acp_link::{Address, ConnectError, Link, LinkSettings};
use acp_relay::{SessionAliases, translated_resuming};

use crate::cell::Cell;
use crate::forms::Refused;
use crate::real::{PrepareError, Real};
use crate::wire::AtEof;

/// An agent under test.
#[derive(Debug, Clone)]
pub struct Target {
    /// The column's name in reports.
    pub name: String,
    /// How to reach it.
    pub way: Way,
    /// The version that is known beforehand, for instance from a profile.
    pub version: Option<String>,
    /// The form of the protocol that it speaks. Tests in v1 are translated; tests in a form's own words are not.
    pub dialect: Dialect,
}

/// How to reach an agent.
#[derive(Debug, Clone)]
pub enum Way {
    /// Start it as a child process. Arguments and values may name `${sandbox}`, `${home}`, `${temp}` and `${modelUrl}`,
    /// the address of a scripted model of its own.
    Start {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// Further environment variables.
        env: BTreeMap<String, String>,
        /// The folder it is started in; without it, each test's own home.
        cwd: Option<PathBuf>,
    },
    /// Start an installed agent as its profile says.
    Real(Arc<Real>),
    /// Connect to where it listens, and show this token.
    Connect(Address, Option<String>),
}

/// A connection that belongs to one test.
pub struct Connection {
    /// The wire.
    pub link: Link,
    /// The process, when we started it.
    pub child: Option<Child>,
}

/// The agent could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It did not accept the connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It was started to listen on a port, and does not.
    #[error("it does not listen: started as `{command}`, {why}")]
    Deaf {
        /// How it was started.
        command: String,
        /// What happened instead.
        why: String,
    },
}

/// The address of the scripted model in a command line.
const MODEL_URL: &str = "${modelUrl}";
/// How long an agent may take until it listens.
const LISTENING: Duration = Duration::from_secs(20);

/// Variables of ours that an agent under test must not see: they would reach into the user's own settings.
const HIDDEN: &[&str] =
    &["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"];

impl Target {
    /// An agent that is started by a command line.
    pub fn start(
        name: impl Into<String>,
        program: impl Into<String>,
        args: impl IntoIterator<Item = String>,
    ) -> Target {
        Target {
            name: name.into(),
            way: Way::Start {
                program: program.into(),
                args: args.into_iter().collect(),
                env: BTreeMap::new(),
                cwd: None,
            },
            version: None,
            dialect: Dialect::V1,
        }
    }

    /// An agent that listens.
    pub fn connect(name: impl Into<String>, address: Address) -> Target {
        Target { name: name.into(), way: Way::Connect(address, None), version: None, dialect: Dialect::V1 }
    }

    /// The same agent, which is shown this token when it listens.
    #[must_use]
    pub fn showing(mut self, token: Option<String>) -> Target {
        if let Way::Connect(_, shown) = &mut self.way {
            *shown = token;
        }
        self
    }

    /// An installed agent, by its profile.
    pub fn real(real: Real) -> Target {
        Target {
            name: real.profile.name.clone(),
            version: real.profile.version().map(str::to_owned),
            way: Way::Real(Arc::new(real)),
            dialect: Dialect::V1,
        }
    }

    /// Whether the agent's process is ours to stop and start.
    pub fn is_ours(&self) -> bool {
        !matches!(self.way, Way::Connect(..))
    }

    /// Whether a second connection to the same agent can be made.
    pub fn takes_connections(&self) -> bool {
        match &self.way {
            Way::Connect(..) => true,
            Way::Real(real) => real.over_tcp,
            Way::Start { .. } => false,
        }
    }

    /// How reports describe it.
    pub fn describe(&self) -> String {
        match &self.way {
            Way::Start { program, args, .. } => {
                let mut line = program.clone();
                for arg in args {
                    line.push(' ');
                    line.push_str(arg);
                }
                line
            }
            Way::Real(real) => real.describe(),
            Way::Connect(address, _) => address.to_string(),
        }
    }

    /// What may be wrong with its command line when it does not start or ends before it answers: an argument that is a file
    /// in our working folder, but not in the agent's.
    pub fn hint(&self) -> Option<String> {
        let Way::Start { args, cwd: None, .. } = &self.way else { return None };
        let is_here =
            |arg: &&String| Path::new(arg.as_str()).is_relative() && Path::new(arg.as_str()).is_file();
        let file = args.iter().find(is_here)?;
        Some(format!(
            "agents start in a folder of their own, and `{file}` is in this one: write it as `./{file}`"
        ))
    }

    /// Whether its model is ours: its profile says so, or its command names `${modelUrl}`.
    pub fn has_model(&self) -> bool {
        match &self.way {
            Way::Start { program, args, env, .. } => {
                std::iter::once(program).chain(args).chain(env.values()).any(|text| text.contains(MODEL_URL))
            }
            Way::Real(real) => real.has_model(),
            Way::Connect(..) => false,
        }
    }

    /// Makes the agent ready for a test that lives in `cell`: what to start, or where to connect. `model` is the
    /// address of its model.
    pub(crate) async fn prepare(
        &self,
        cell: &Cell,
        supervisor: Option<&Path>,
        wire: &LinkSettings,
        model: Option<&str>,
    ) -> Result<Start, PrepareError> {
        let (mut options, port) = match &self.way {
            Way::Start { program, args, env, cwd } => {
                let mut options = start_options(program, args, env, cell, model);
                options.cwd = cwd.clone().or(options.cwd);
                (options, None)
            }
            Way::Real(real) => {
                let ready = real.ready(cell, model).await?;
                (ready.options, ready.port.map(|port| (port, real.command(port))))
            }
            Way::Connect(address, token) => {
                let (address, token) = (address.clone(), token.clone());
                return Ok(Start::Address { address, token, wire: wire.clone() });
            }
        };
        options.supervisor = supervisor.map(PathBuf::from);
        options.wire = wire.clone();
        Ok(Start::Process(Box::new(options), port))
    }

    /// Opens a further connection to the process that was kept because it listens, or a fresh one.
    pub(crate) async fn open_again(
        &self,
        start: &Start,
        kept: Option<Child>,
    ) -> Result<Connection, OpenError> {
        match (start, kept) {
            (Start::Process(options, Some((port, _))), Some(child)) => {
                let link = local(*port).connect(&options.wire, None).await?;
                Ok(Connection { link, child: Some(child) })
            }
            _ => self.open(start).await,
        }
    }

    /// Opens a fresh connection.
    pub(crate) async fn open(&self, start: &Start) -> Result<Connection, OpenError> {
        match start {
            Start::Process(options, port) => {
                let (link, child) = child::spawn(options)?;
                match port {
                    None => Ok(Connection { link, child: Some(child) }),
                    Some((port, command)) => listening(options, link, child, *port, command).await,
                }
            }
            Start::Address { address, token, wire } => {
                Ok(Connection { link: address.connect(wire, token.as_deref()).await?, child: None })
            }
        }
    }
}

/// A port of this machine on which an agent that we started listens.
fn local(port: u16) -> Address {
    Address::tcp(format_args!("127.0.0.1:{port}"))
}

/// How a test reaches its agent: everything is filled in.
#[derive(Debug)]
pub(crate) enum Start {
    /// A process to start; when it is not spoken to over its pipes, the port on which it will listen, and how it was
    /// started in words.
    Process(Box<child::SpawnOptions>, Option<(u16, String)>),
    /// An address to connect to.
    Address {
        /// The address.
        address: Address,
        /// The token that is shown there.
        token: Option<String>,
        /// The limits of the wire.
        wire: LinkSettings,
    },
}

impl Start {
    /// Whether a process of ours is spoken to over TCP.
    pub fn is_over_tcp(&self) -> bool {
        matches!(self, Start::Process(_, Some(_)))
    }
}

/// Waits until the agent that was just started takes a connection.
async fn listening(
    options: &child::SpawnOptions,
    stdio: Link,
    mut child: Child,
    port: u16,
    command: &str,
) -> Result<Connection, OpenError> {
    let Link { tx, mut rx } = stdio;
    // Its pipes stay open, and whatever it says there is read, as long as it runs.
    tokio::spawn(async move {
        while rx.recv().await.is_some() {}
        drop(tx);
    });
    let until = tokio::time::Instant::now() + LISTENING;
    let why = loop {
        if let Ok(link) = local(port).connect(&options.wire, None).await {
            return Ok(Connection { link, child: Some(child) });
        }
        tokio::select! {
            exit = child.wait() => break format!("it ended with {exit}"),
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
        if tokio::time::Instant::now() >= until {
            break format!("nothing listened within {} s", LISTENING.as_secs());
        }
    };
    child.shutdown(Duration::from_millis(500)).await;
    Err(OpenError::Deaf { command: command.to_owned(), why })
}

fn start_options(
    program: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
    cell: &Cell,
    model: Option<&str>,
) -> child::SpawnOptions {
    let fill = |text: &str| cell.fill_in(text).replace(MODEL_URL, model.unwrap_or_default());
    let mut options = child::SpawnOptions::new(fill(program)).args(args.iter().map(|arg| fill(arg)));
    options.env = vec![
        ("HOME".into(), cell.home.clone().into_os_string()),
        ("TMPDIR".into(), cell.temp.clone().into_os_string()),
        ("ACP_COMPLY".into(), "1".into()),
    ];
    options.env.extend(env.iter().map(|(key, value)| (OsString::from(key), OsString::from(fill(value)))));
    options.env_remove = HIDDEN.iter().map(OsString::from).collect();
    options.cwd = Some(cell.home.clone());
    options
}

impl Connection {
    /// The connection as one to an agent that speaks v1, whatever it speaks. `sessions` is what the connections of one
    /// test leave to each other; `refused` is told what cannot be said to it.
    #[must_use]
    pub(crate) fn translated(
        mut self,
        dialect: Dialect,
        cell: &Cell,
        sessions: &SessionAliases,
        refused: &Refused,
    ) -> Connection {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let options = TranslationOptions {
            work_dir: cell.sandbox.to_string_lossy().into_owned(),
            permission: Unasked::Allow,
            load_session: true,
            session_prefix: format!("session_{:x}_{count:x}", std::process::id()),
            ..TranslationOptions::default()
        };
        self.link = translated_resuming(self.link, dialect, options, refused.observers(dialect), sessions);
        self
    }
}

/// How an agent's process ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The exit, with what survived it.
    pub exit: Exit,
    /// The end of its standard error.
    pub stderr: String,
    /// What it did when its input ended.
    pub at_eof: AtEof,
}
