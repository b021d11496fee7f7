//! A server's process: its own group, a bounded standard error, gone when dropped. With a process guard it runs behind a supervisor,
//! and nothing that comes of it outlives us.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use acp_link::child::Exit;
use acp_link::kept::{self, CommandEnd, RunningCommand};
use acp_link::process_guard::{self, GuardedProcess, ProcessGuard};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::ServerSpec;

pub(crate) struct Process {
    running: Running,
    id: Option<u32>,
    stderr: Tail,
    following: tokio::task::JoinHandle<()>,
}

/// What was started: the process and our ends of its streams.
type Started = (Running, Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

enum Running {
    /// Our own child, in a process group of its own.
    Child { child: Child, group: Option<Pid>, held: Option<GuardedProcess> },
    /// Behind a supervisor, with everything that came of it.
    Kept { kept: Option<RunningCommand>, ending: CommandEnd, ended: Option<ExitStatus> },
}

impl Process {
    /// Starts the program of a stdio spec.
    pub(crate) fn start(
        spec: &ServerSpec,
        stderr_limit: usize,
        process_guard: Option<&ProcessGuard>,
    ) -> std::io::Result<(Self, ChildStdout, ChildStdin)> {
        let starter = starter(spec)?;
        let (running, stdin, stdout, err) = match process_guard {
            Some(process_guard) if cfg!(target_os = "linux") => kept(&starter, process_guard)?,
            process_guard => child(starter, process_guard)?,
        };
        let (Some(stdin), Some(stdout), Some(err)) = (stdin, stdout, err) else {
            return Err(std::io::Error::other("its standard streams are missing"));
        };
        let stderr = Tail::new(stderr_limit);
        let following = tokio::spawn(stderr.clone().follow(err));
        Ok((Self { id: running.id(), running, stderr, following }, stdout, stdin))
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.id
    }

    pub(crate) fn stderr(&self) -> &Tail {
        &self.stderr
    }

    /// Waits for the end that closing its standard input asks for; past `grace`, and for whatever the
    /// program left behind, there is SIGKILL.
    pub(crate) async fn finish(&mut self, grace: Duration) -> Option<ExitStatus> {
        let ended = tokio::time::timeout(grace, self.running.wait()).await;
        self.running.kill();
        match ended {
            Ok(status) => status,
            Err(_) => self.running.wait().await,
        }
    }

    /// The exit status, if the process has ended or does so shortly. Its last words are then read too, unless
    /// something that it left behind holds them open.
    pub(crate) async fn ended_within(&mut self, grace: Duration) -> Option<ExitStatus> {
        let status = tokio::time::timeout(grace, self.running.wait()).await.ok()??;
        if !self.following.is_finished() {
            let _ = tokio::time::timeout(grace, &mut self.following).await;
        }
        Some(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.running.kill();
    }
}

impl Running {
    fn id(&self) -> Option<u32> {
        match self {
            Running::Child { child, .. } => child.id(),
            Running::Kept { kept, .. } => kept.as_ref().map(RunningCommand::pid),
        }
    }

    /// Waits for its end. Cancel safe.
    async fn wait(&mut self) -> Option<ExitStatus> {
        match self {
            Running::Child { child, held, .. } => {
                let status = child.wait().await.ok();
                *held = None; // its number may be another's now
                status
            }
            Running::Kept { ending, ended, .. } => {
                if ended.is_none() {
                    *ended = Some(status(ending.wait().await.as_ref()));
                }
                *ended
            }
        }
    }

    fn kill(&mut self) {
        match self {
            Running::Child { group, held, .. } => {
                if let Some(group) = group.take() {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                if let Some(held) = held.take() {
                    held.kill();
                }
            }
            Running::Kept { kept, .. } => {
                if let Some(kept) = kept.take() {
                    kept.kill();
                }
            }
        }
    }
}

/// What the system would have said of a child of our own; SIGKILL for one whose supervisor was killed.
fn status(exit: Option<&Exit>) -> ExitStatus {
    let raw = match exit {
        Some(Exit { code: Some(code), .. }) => code << 8,
        Some(Exit { signal: Some(signal), .. }) => *signal,
        _ => Signal::KILL.as_raw(),
    };
    ExitStatus::from_raw(raw)
}

fn starter(spec: &ServerSpec) -> std::io::Result<std::process::Command> {
    let ServerSpec::Stdio { command, args, env, cwd } = spec else {
        return Err(std::io::Error::other("not a program"));
    };
    let mut starter = std::process::Command::new(command);
    for secret in acp_link::credentials::all() {
        starter.env_remove(secret);
    }
    starter.args(args).envs(env.iter().map(|(k, v)| (k, v)));
    if let Some(cwd) = cwd {
        starter.current_dir(cwd);
    }
    Ok(starter)
}

fn kept(command: &std::process::Command, process_guard: &ProcessGuard) -> std::io::Result<Started> {
    let mut wrapped = kept::wrap(command, process_guard)?;
    wrapped.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut kept, ending) = wrapped.spawn()?;
    let (stdin, stdout, stderr) = kept.streams();
    let stdin = stdin.map(ChildStdin::from_std).transpose()?;
    let stdout = stdout.map(ChildStdout::from_std).transpose()?;
    let stderr = stderr.map(ChildStderr::from_std).transpose()?;
    Ok((Running::Kept { kept: Some(kept), ending, ended: None }, stdin, stdout, stderr))
}

fn child(command: std::process::Command, process_guard: Option<&ProcessGuard>) -> std::io::Result<Started> {
    let mut starter = Command::from(command);
    starter.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    starter.process_group(0).kill_on_drop(true);
    let mark = process_guard.map(ProcessGuard::mark);
    starter.envs(mark.iter().map(|mark| (process_guard::VARIABLE, mark)));
    let mut child = starter.spawn()?;
    let held = mark.zip(child.id()).and_then(|(mark, id)| mark.hold(id));
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    Ok((Running::Child { child, group, held }, stdin, stdout, stderr))
}

/// The last bytes of a stream.
#[derive(Clone)]
pub(crate) struct Tail {
    bytes: Arc<Mutex<Vec<u8>>>,
    limit: usize,
}

impl Tail {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Arc::default(), limit }
    }

    pub(crate) fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    async fn follow(self, mut from: impl AsyncReadExt + Unpin) {
        let mut chunk = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut chunk).await {
            let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.extend_from_slice(&chunk[..n]);
            let surplus = bytes.len().saturating_sub(self.limit);
            bytes.drain(..surplus);
        }
    }
}
