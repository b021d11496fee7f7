//! One running command: its output, its end, its death.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acp_link::child::Exit;
use acp_link::kept::{self, CommandEnd, RunningCommand};
use acp_link::process_guard::ProcessGuard;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::ring::Ring;

/// The most that a pipe holds by default limits: enough to read all that was written before an exit.
const MAX_PIPE: usize = 1 << 20;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Code(i32),
    Signal(i32),
}

#[derive(Debug)]
pub(crate) struct Process {
    running: Mutex<Option<Running>>,
    ring: Arc<Mutex<Ring>>,
    ended: watch::Receiver<Option<Status>>,
    pump: JoinHandle<()>,
}

/// What is there until the terminal is released. What a command left behind that had ended by itself, in another group, is
/// not ours to end.
#[derive(Debug)]
enum Running {
    /// Our own child, in a process group of its own.
    Child { child: Child },
    /// Behind a supervisor, with everything that came of it.
    Kept(RunningCommand),
}

impl Process {
    /// Starts a command in its own process group, output and errors in one stream, no input. With a process guard, nothing that
    /// comes of it outlives us.
    pub(crate) fn start(
        command: Command,
        limit: usize,
        process_guard: Option<&ProcessGuard>,
    ) -> io::Result<Process> {
        let (reader, writer) = io::pipe()?;
        let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        let (running, end) = match process_guard {
            Some(process_guard) if cfg!(target_os = "linux") => kept(&command, writer, process_guard)?,
            _ => child(command, writer)?,
        };
        let ring = Arc::new(Mutex::new(Ring::new(limit)));
        let (tell, ended) = watch::channel(None);
        let pump = tokio::spawn(pump(reader, end, Arc::clone(&ring), tell));
        Ok(Process { running: Mutex::new(Some(running)), ring, ended, pump })
    }

    pub(crate) fn output(&self) -> (String, bool, Option<Status>) {
        let status = *self.ended.borrow();
        let (text, truncated) = lock(&self.ring).text(status.is_none());
        (text, truncated, status)
    }

    pub(crate) async fn wait(&self) -> Status {
        let mut ended = self.ended.clone();
        let status = ended.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        // The watch ends without a status only when the terminal was released under the waiter.
        status.unwrap_or(Status::Signal(Signal::KILL.as_raw()))
    }

    /// Asks the command to end, forces it after `grace`, and waits for its end. The output stays.
    pub(crate) async fn kill(&self, grace: Duration) -> Status {
        self.signal(Signal::TERM);
        if let Ok(status) = tokio::time::timeout(grace, self.wait()).await {
            self.signal(Signal::KILL); // what is left of it
            return status;
        }
        self.signal(Signal::KILL);
        self.wait().await
    }

    /// Ends the command and all of its group, at once.
    pub(crate) fn destroy(&self) {
        let Some(running) = lock(&self.running).take() else { return };
        match running {
            Running::Child { mut child } => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                // A killed process ends within moments; one that hangs in the kernel is left to a thread.
                if !matches!(child.try_wait(), Ok(Some(_))) {
                    std::thread::spawn(move || child.wait());
                }
            }
            Running::Kept(kept) => match self.ended.borrow().is_some() {
                true => kept.release(),
                false => kept.kill(),
            },
        }
        self.pump.abort();
    }

    /// To all of it, as long as its number is ours: a child is collected only in `destroy`.
    fn signal(&self, signal: Signal) {
        let mut guard = lock(&self.running);
        match &mut *guard {
            Some(Running::Child { child }) => {
                let _ = kill_process_group(Pid::from_child(child), signal);
            }
            Some(Running::Kept(_)) if signal == Signal::KILL => {
                if let Some(Running::Kept(kept)) = guard.take() {
                    kept.kill();
                }
            }
            Some(Running::Kept(kept)) => kept.signal(signal),
            None => {}
        }
    }
}

fn child(mut command: Command, writer: io::PipeWriter) -> io::Result<(Running, End)> {
    let deaths = unix::signal(SignalKind::child())?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let child = command.spawn()?;
    let end = End::Child(Pid::from_child(&child), deaths);
    Ok((Running::Child { child }, end))
}

fn kept(
    command: &Command,
    writer: io::PipeWriter,
    process_guard: &ProcessGuard,
) -> io::Result<(Running, End)> {
    let mut wrapped = kept::wrap(command, process_guard)?;
    wrapped.command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let (kept, ending) = wrapped.spawn()?;
    Ok((Running::Kept(kept), End::Kept(ending)))
}

/// Who tells how the command ended.
enum End {
    Child(Pid, unix::Signal),
    Kept(CommandEnd),
}

impl End {
    /// Waits for it. Cancel safe.
    async fn wait(&mut self) -> Status {
        match self {
            End::Child(pid, deaths) => loop {
                if let Some(status) = look(*pid) {
                    return status;
                }
                if deaths.recv().await.is_none() {
                    std::future::pending::<()>().await;
                }
            },
            End::Kept(ending) => match ending.wait().await {
                Some(Exit { code: Some(code), .. }) => Status::Code(code),
                Some(Exit { signal: Some(signal), .. }) => Status::Signal(signal),
                _ => Status::Signal(Signal::KILL.as_raw()),
            },
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// Reads the output until it ends, and tells the exit status once what was written before the exit is read.
async fn pump(
    mut reader: pipe::Receiver,
    mut end: End,
    ring: Arc<Mutex<Ring>>,
    tell: watch::Sender<Option<Status>>,
) {
    let mut buffer = vec![0; 64 << 10];
    let mut open = true;
    let status = loop {
        tokio::select! {
            biased;
            status = end.wait() => break status,
            read = reader.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(n) => lock(&ring).push(&buffer[..n]),
            },
        }
    };
    // What the command wrote is in the pipe already; a child it left behind may keep the pipe open and full.
    let mut budget = MAX_PIPE;
    while open && budget > 0 {
        // Past tokio, which may not have heard yet that there is something to read.
        match rustix::io::read(&reader, &mut *buffer) {
            Ok(0) => open = false,
            Ok(n) => {
                lock(&ring).push(&buffer[..n]);
                budget = budget.saturating_sub(n);
            }
            Err(_) => break,
        }
    }
    tell.send_replace(Some(status));
    while open {
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => open = false,
            Ok(n) => lock(&ring).push(&buffer[..n]),
        }
    }
}

/// The exit status, without collecting the child.
fn look(pid: Pid) -> Option<Status> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = rustix::process::waitid(WaitId::Pid(pid), options).ok()??;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Status::Code(code)),
        (None, Some(signal)) => Some(Status::Signal(signal)),
        (None, None) => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
