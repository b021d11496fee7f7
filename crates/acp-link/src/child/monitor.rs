//! Waits for a child process to end, whatever that takes, and says how it did.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::report::{self, Report};
use super::{Exit, Survivor, stage_from};
use crate::supervisor::processes;

/// How long standard error may stay open after the process has ended before its tail counts as complete.
const STDERR_PATIENCE: Duration = Duration::from_millis(500);
/// How long a supervisor may take to kill everything before it is killed itself.
const SUPERVISOR_PATIENCE: Duration = Duration::from_secs(10);

/// Whom signals go to, as long as the process has not been reaped: afterwards its number may be someone else's.
#[derive(Clone, Debug)]
pub(super) struct Target {
    state: Arc<Mutex<State>>,
    /// Told when the supervisor has been asked to kill.
    killing: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    process: std::process::Child,
    /// The agent, and the group it leads.
    agent: Pid,
    /// Open as long as the supervisor shall let the agent live.
    lifeline: Option<OwnedFd>,
    supervised: bool,
    reaped: bool,
}

impl Target {
    pub(super) fn new(process: std::process::Child, agent: Pid, lifeline: Option<OwnedFd>) -> Target {
        let state = State { process, agent, supervised: lifeline.is_some(), lifeline, reaped: false };
        Target { state: Arc::new(Mutex::new(state)), killing: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a signal to the agent's process group, through the supervisor where there is one.
    pub(super) fn signal(&self, signal: Signal) {
        let state = self.lock();
        if state.reaped {
            return;
        }
        // It can only have ended meanwhile, which is what is wanted.
        let _ = match state.supervised {
            true => kill_process(Pid::from_child(&state.process), signal),
            false => kill_process_group(state.agent, signal),
        };
    }

    pub(super) fn kill(&self) {
        let mut state = self.lock();
        if state.reaped {
            return;
        }
        match state.lifeline.take() {
            Some(lifeline) => {
                let _ = rustix::io::write(&lifeline, report::KILL_NOW);
                self.killing.notify_one();
            }
            None => {
                let _ = kill_process_group(state.agent, Signal::KILL);
            }
        }
    }

    /// Kills a supervisor that does not obey.
    fn kill_supervisor(&self) {
        let state = self.lock();
        if !state.reaped {
            let _ = kill_process(Pid::from_child(&state.process), Signal::KILL);
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.lock().process)
    }

    /// The status, if the process has ended; reaps it.
    fn try_reap(&self) -> io::Result<Option<ExitStatus>> {
        let mut state = self.lock();
        let status = state.process.try_wait()?;
        state.reaped |= status.is_some();
        Ok(status)
    }
}

pub(super) struct Monitor {
    pub(super) target: Target,
    pub(super) stderr: Option<JoinHandle<()>>,
    pub(super) stage: Arc<AtomicU8>,
    pub(super) linger: Duration,
    pub(super) report: Option<Report>,
}

impl Monitor {
    pub(super) async fn run(mut self) -> Exit {
        let status = self.wait().await;
        let agent = self.target.lock().agent;
        let mut exit = match self.report.as_mut().map(Report::exit) {
            Some(Some(exit)) => exit,
            // The supervisor was killed: what it can no longer do, the group kill does in part.
            Some(None) => {
                let survivors = self.end_group(agent, Duration::ZERO).await;
                Exit { survivors, ..report::exit_of(status) }
            }
            None => {
                let survivors = self.end_group(agent, self.linger).await;
                Exit { survivors, ..report::exit_of(status) }
            }
        };
        exit.stage = stage_from(&self.stage);
        if let Some(stderr) = self.stderr {
            let _ = timeout(STDERR_PATIENCE, stderr).await;
        }
        exit
    }

    async fn wait(&self) -> Option<ExitStatus> {
        // No timer until a kill has been asked for: one that is pending makes every wait of the runtime dearer.
        let disobeyed = async {
            self.target.killing.notified().await;
            sleep(SUPERVISOR_PATIENCE).await;
        };
        tokio::select! {
            status = self.ended() => return status,
            () = disobeyed => self.target.kill_supervisor(),
        }
        self.ended().await
    }

    async fn ended(&self) -> Option<ExitStatus> {
        let pidfd = open_pidfd(self.target.pid());
        let mut pause = Duration::from_millis(1);
        loop {
            match self.target.try_reap() {
                Ok(None) => {}
                Ok(status) => return status,
                // Someone else reaped it; how it ended is not to be known.
                Err(_) => return None,
            }
            match &pidfd {
                Some(pidfd) if pidfd.readable().await.is_ok() => {}
                _ => {
                    sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(50));
                }
            }
        }
    }

    /// Ends what is left of the agent's process group and says what that was.
    async fn end_group(&self, group: Pid, linger: Duration) -> Vec<Survivor> {
        let deadline = Instant::now() + linger;
        let mut pause = Duration::from_millis(1);
        while test_kill_process_group(group).is_ok() {
            if Instant::now() >= deadline {
                let left = processes::in_group(group);
                let _ = kill_process_group(group, Signal::KILL);
                return left;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        Vec::new()
    }
}

#[cfg(target_os = "linux")]
fn open_pidfd(pid: Pid) -> Option<AsyncFd<OwnedFd>> {
    use crate::stream::watched;
    use tokio::io::Interest;

    let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK).ok()?;
    watched(fd, Interest::READABLE).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_pidfd(_: Pid) -> Option<AsyncFd<OwnedFd>> {
    None
}
