//! An agent as a child process: a link over its standard input and output, and a handle that ends it.
//!
//! The agent leads a process group of its own. With a [supervisor](crate::supervisor) none of its descendants
//! outlives it or us, whatever they did to get away and however we end; without one, what stayed in the process
//! group is killed when the agent ends or the handle is dropped.

mod busy;
mod monitor;
pub(crate) mod report;
mod stderr;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::outbox::Outbox;
use crate::{Link, LinkSettings, stream};
use busy::Busy;
use monitor::Target;
use report::Supervised;
use stderr::Tail;

/// What to start and how.
#[derive(Clone, Debug)]
pub struct SpawnOptions {
    /// The program: a path, or a name looked up on `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables set for it.
    pub env: Vec<(OsString, OsString)>,
    /// Variables it must not inherit.
    pub env_remove: Vec<OsString>,
    /// Whether it starts with nothing but `env`.
    pub env_clear: bool,
    /// Its working folder; ours when `None`.
    pub cwd: Option<PathBuf>,
    /// The program that supervises it: one whose `__supervise` command calls [`crate::supervisor::main`], such as
    /// `acp` itself. Used on Linux only.
    pub supervisor: Option<PathBuf>,
    /// What becomes of its standard error.
    pub stderr: Stderr,
    /// How long descendants may take to end by themselves after the agent has; then they are killed and reported.
    pub linger: Duration,
    /// Line limit, queue bound, flushing.
    pub wire: LinkSettings,
}

/// What becomes of an agent's standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stderr {
    /// Its last bytes, this many, are kept for [`Child::stderr_tail`].
    Keep(usize),
    /// It goes where ours goes.
    Inherit,
    /// It is thrown away.
    Discard,
}

impl SpawnOptions {
    /// A program without arguments; its environment and working folder are ours, 64 KiB of its standard error are
    /// kept, nobody supervises it.
    pub fn new(program: impl Into<OsString>) -> SpawnOptions {
        SpawnOptions {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            env_remove: Vec::new(),
            env_clear: false,
            cwd: None,
            supervisor: None,
            stderr: Stderr::Keep(64 * 1024),
            linger: Duration::from_millis(250),
            wire: LinkSettings::default(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> SpawnOptions {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// The agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program itself.
    #[error("cannot start agent {program:?}: {error}{}", hint(.error, .program))]
    Program {
        /// What was to be started.
        program: String,
        /// What the system said.
        error: io::Error,
    },
    /// The working folder.
    #[error("cannot start agent {program:?} in {}: not a folder", .cwd.display())]
    Folder {
        /// What was to be started.
        program: String,
        /// Where.
        cwd: PathBuf,
    },
    /// The supervisor.
    #[error("cannot start the supervisor {} for agent {program:?}: {error}", .supervisor.display())]
    Supervisor {
        /// What was to be started.
        program: String,
        /// Who should have watched over it.
        supervisor: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// Pipes, or the runtime.
    #[error("cannot connect to agent {program:?}: {error}")]
    Pipes {
        /// What was to be started.
        program: String,
        /// What the system said.
        error: io::Error,
    },
}

fn hint(error: &io::Error, program: &str) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if !program.contains('/') && Path::new(program).is_file() => {
            format!("; {program} in this folder is started with ./{program}")
        }
        io::ErrorKind::NotFound => "; is it installed and on PATH?".to_owned(),
        io::ErrorKind::PermissionDenied => {
            let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
            format!(
                "; is it executable? (chmod +x {name}, or name its interpreter, as in \"python3 {name}\")"
            )
        }
        _ => String::new(),
    }
}

/// How an agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// How far [`Child::shutdown`] had gone when it ended.
    pub stage: StopStage,
    /// Descendants that were still there after it and had to be killed (at most 100 are named).
    pub survivors: Vec<Survivor>,
}

/// How far an ending had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopStage {
    /// Nobody asked: it ended by itself.
    Unasked,
    /// Its input had ended.
    Eof,
    /// It was told to terminate.
    Term,
    /// It was killed.
    Kill,
}

/// A process that outlived its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// The name of its program, as the kernel has it (at most 15 characters).
    pub name: String,
}

impl Exit {
    /// Whether it exited with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "killed by signal {signal}"),
            (None, None) => f.write_str("ended, and nobody could say how"),
        }?;
        if !self.survivors.is_empty() {
            let names: Vec<String> =
                self.survivors.iter().map(|it| format!("{} ({})", it.name, it.pid)).collect();
            write!(f, "; left behind and killed: {}", names.join(", "))?;
        }
        Ok(())
    }
}

/// A running (or ended) agent. Dropping it kills the agent and what it started.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    target: Target,
    outbox: Arc<Outbox>,
    tail: Tail,
    stage: Arc<AtomicU8>,
    exit: watch::Receiver<Option<Exit>>,
}

/// Starts an agent. Must be called inside a tokio runtime.
///
/// With a supervisor this waits (a millisecond or two) until the agent runs, so that the error is the agent's own.
pub fn spawn(options: &SpawnOptions) -> Result<(Link, Child), SpawnError> {
    if let Some(cwd) = options.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(SpawnError::Folder { program: name(options), cwd: cwd.clone() });
    }
    match &options.supervisor {
        Some(supervisor) if cfg!(target_os = "linux") => spawn_supervised(options, supervisor),
        _ => {
            let mut command = Command::new(&options.program);
            command.args(&options.args);
            let process = prepare(&mut command, options)
                .spawn()
                .map_err(|error| SpawnError::Program { program: name(options), error })?;
            let pid = pid_of(&process);
            connect(options, process, pid, None)
        }
    }
}

fn spawn_supervised(options: &SpawnOptions, supervisor: &Path) -> Result<(Link, Child), SpawnError> {
    let failed = |error| SpawnError::Supervisor {
        program: name(options),
        supervisor: supervisor.to_path_buf(),
        error,
    };
    let (mut command, starting) = report::command(options, supervisor).map_err(failed)?;
    match starting.start(prepare(&mut command, options)) {
        Ok((process, agent, supervised)) => connect(options, process, agent, Some(supervised)),
        Err(report::Failure::Agent(error)) => Err(SpawnError::Program { program: name(options), error }),
        Err(report::Failure::Supervisor(error)) => Err(failed(error)),
    }
}

fn name(options: &SpawnOptions) -> String {
    options.program.to_string_lossy().into_owned()
}

fn prepare<'a>(command: &'a mut Command, options: &SpawnOptions) -> &'a mut Command {
    if options.env_clear {
        command.env_clear();
    }
    for variable in &options.env_remove {
        command.env_remove(variable);
    }
    for variable in crate::credentials::OWN {
        command.env_remove(variable);
    }
    if let Some(cwd) = &options.cwd {
        command.current_dir(cwd);
    }
    let stderr = match options.stderr {
        Stderr::Keep(_) => Stdio::piped(),
        Stderr::Inherit => Stdio::inherit(),
        Stderr::Discard => Stdio::null(),
    };
    let env = options.env.iter().map(|(key, value)| (key, value));
    command.envs(env).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr)
}

fn pid_of(process: &std::process::Child) -> Pid {
    Pid::from_child(process)
}

fn connect(
    options: &SpawnOptions,
    mut process: std::process::Child,
    pid: Pid,
    supervised: Option<Supervised>,
) -> Result<(Link, Child), SpawnError> {
    let failed = |error| SpawnError::Pipes { program: name(options), error };
    let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
    let (lifeline, report) = supervised.map(|it| (it.lifeline, it.report)).unzip();
    let target = Target::new(process, pid, lifeline);
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err(failed(io::Error::other("the process has no pipes")));
    };
    let writer = pipe::Sender::from_owned_fd(OwnedFd::from(stdin)).map_err(failed)?;
    let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout)).map_err(failed)?;
    let link = stream::link(Busy::new(reader), writer, &options.wire);

    let tail = Tail::default();
    let stderr = match (stderr, options.stderr) {
        (Some(stderr), Stderr::Keep(limit)) => Some(tokio::spawn(tail.clone().follow(stderr.into(), limit))),
        _ => None,
    };
    let stage = Arc::new(AtomicU8::new(StopStage::Unasked as u8));
    let (tell, exit) = watch::channel(None);
    let task = monitor::Monitor {
        target: target.clone(),
        stderr,
        stage: stage.clone(),
        linger: options.linger,
        report,
    };
    tokio::spawn(async move {
        let _ = tell.send(Some(task.run().await));
    });
    let child = Child { pid, target, outbox: link.tx.outbox().clone(), tail, stage, exit };
    Ok((link, child))
}

impl Child {
    /// The agent's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The end of what it wrote to standard error, when that is kept.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        self.tail.text()
    }

    /// How many bytes it wrote to standard error, kept or not.
    #[must_use]
    pub fn stderr_total(&self) -> u64 {
        self.tail.total()
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn try_wait(&self) -> Option<Exit> {
        self.exit.borrow().clone()
    }

    /// Waits until it and all its descendants are gone. Cancel safe.
    pub fn wait(&mut self) -> BoxFuture<'_, Exit> {
        Box::pin(async move {
            let known = match self.exit.wait_for(Option::is_some).await {
                Ok(exit) => exit.clone(),
                Err(_) => None,
            };
            let stage = self.stage();
            known.unwrap_or_else(|| Exit { code: None, signal: None, stage, survivors: Vec::new() })
        })
    }

    /// Ends it: ends its input (after what is queued), waits `grace`; tells it to terminate, waits `grace`; kills it.
    ///
    /// An agent that still has output to write cannot end while nobody reads it: keep receiving meanwhile, or drop
    /// the receiver first.
    pub fn shutdown(&mut self, grace: Duration) -> BoxFuture<'_, Exit> {
        Box::pin(async move {
            self.outbox.close();
            self.reach(StopStage::Eof);
            if let Ok(exit) = timeout(grace, self.wait()).await {
                return exit;
            }
            self.terminate();
            if let Ok(exit) = timeout(grace, self.wait()).await {
                return exit;
            }
            self.kill();
            self.wait().await
        })
    }

    /// Tells it, and its process group, to terminate (SIGTERM).
    pub fn terminate(&self) {
        self.reach(StopStage::Term);
        self.target.signal(Signal::TERM);
    }

    /// Kills it, and everything it started, at once.
    pub fn kill(&self) {
        self.reach(StopStage::Kill);
        self.target.kill();
    }

    fn reach(&self, stage: StopStage) {
        self.stage.fetch_max(stage as u8, Ordering::Relaxed);
    }

    fn stage(&self) -> StopStage {
        stage_from(&self.stage)
    }
}

fn stage_from(stage: &AtomicU8) -> StopStage {
    match stage.load(Ordering::Relaxed) {
        0 => StopStage::Unasked,
        1 => StopStage::Eof,
        2 => StopStage::Term,
        _ => StopStage::Kill,
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.exit.borrow().is_none() {
            self.kill();
        }
    }
}
