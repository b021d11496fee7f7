//! One running command: its output, its end, its death.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acp_link::leash::{self, Held, Leash};
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
    pid: Pid,
    running: Mutex<Option<Running>>,
    ring: Arc<Mutex<Ring>>,
    ended: watch::Receiver<Option<Status>>,
    pump: JoinHandle<()>,
}

/// What is there until the terminal is released.
#[derive(Debug)]
struct Running {
    child: Child,
    held: Option<Held>,
    /// Whether it is we who end it. What one that ended by itself left behind in another group is not ours to end.
    ended_by_us: bool,
}

impl Process {
    /// Starts a command in its own process group, output and errors in one stream, no input.
    pub(crate) fn start(mut command: Command, limit: usize, leash: Option<&Leash>) -> io::Result<Process> {
        let (reader, writer) = io::pipe()?;
        let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        let deaths = unix::signal(SignalKind::child())?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
        let mark = leash.map(Leash::mark);
        command.envs(mark.iter().map(|mark| (leash::VARIABLE, mark)));
        let child = command.spawn()?;
        let held = mark.and_then(|mark| mark.hold(child.id()));
        drop(command); // and with it our ends of the pipe
        let pid = Pid::from_child(&child);
        let ring = Arc::new(Mutex::new(Ring::new(limit)));
        let (tell, ended) = watch::channel(None);
        let pump = tokio::spawn(pump(reader, deaths, pid, Arc::clone(&ring), tell));
        let running = Mutex::new(Some(Running { child, held, ended_by_us: false }));
        Ok(Process { pid, running, ring, ended, pump })
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
            self.signal(Signal::KILL); // what is left of the group
            return status;
        }
        self.signal(Signal::KILL);
        self.wait().await
    }

    /// Ends the command and all of its group, at once.
    pub(crate) fn destroy(&self) {
        let Some(mut running) = lock(&self.running).take() else { return };
        running.note_its_end(self.pid);
        let Running { mut child, held, ended_by_us } = running;
        let _ = kill_process_group(self.pid, Signal::KILL);
        match held {
            Some(held) if ended_by_us => held.kill(),
            held => drop(held), // before the number can be another's
        }
        self.pump.abort();
        // A killed process ends within moments; one that hangs in the kernel is left to a thread.
        if !matches!(child.try_wait(), Ok(Some(_))) {
            std::thread::spawn(move || child.wait());
        }
    }

    /// To all of it, as long as its number is ours: the child is collected only in `destroy`.
    fn signal(&self, signal: Signal) {
        let mut running = lock(&self.running);
        let Some(running) = &mut *running else { return };
        running.note_its_end(self.pid);
        match &running.held {
            Some(held) if running.ended_by_us => held.signal(signal),
            _ => {
                let _ = kill_process_group(self.pid, signal);
            }
        }
    }
}

impl Running {
    /// It is about to be ended by us, unless it has ended before.
    fn note_its_end(&mut self, pid: Pid) {
        self.ended_by_us |= look(pid).is_none();
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
    mut deaths: unix::Signal,
    pid: Pid,
    ring: Arc<Mutex<Ring>>,
    tell: watch::Sender<Option<Status>>,
) {
    let mut buffer = vec![0; 64 << 10];
    let mut open = true;
    let status = loop {
        if let Some(status) = look(pid) {
            break status;
        }
        tokio::select! {
            read = reader.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(n) => lock(&ring).push(&buffer[..n]),
            },
            Some(()) = deaths.recv() => {}
            else => return,
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
