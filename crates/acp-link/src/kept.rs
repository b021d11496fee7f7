//! A command whose every descendant ends with us, however we end and whatever it did to get away: a
//! [supervisor] stands between, as with agents. Linux only.
//!
//! Unlike an agent, a command may leave processes behind when it ends by itself: they stay for as long as we live and have
//! not [released](RunningCommand::release) it.
//!
//! Only its reaper can find a process that has cleared its environment in a session of its own: it has neither our
//! group nor our mark. The mark is for the case that the supervisor itself is killed. Variables for the loader
//! (`LD_PRELOAD`) reach the command under another name, so that its code does not get into the supervisor.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::unix::pipe;

use crate::child::Exit;
use crate::child::report::{self, Failure, Starting};
use crate::process_guard::{self, ProcessGuard, ProcessMark};
use crate::supervisor;

/// A command that is ready to be started. Set its input and output on [`command`](PreparedCommand::command).
#[derive(Debug)]
pub struct PreparedCommand {
    /// What is started.
    pub command: Command,
    starting: Starting,
    mark: ProcessMark,
}

/// A command that was started.
#[derive(Debug)]
pub struct RunningCommand {
    keeper: Child,
    lifeline: OwnedFd,
    pid: Pid,
    mark: Arc<ProcessMark>,
}

/// Tells how a command ended.
#[derive(Debug)]
pub struct CommandEnd {
    report: report::Report,
    pipe: pipe::Receiver,
    mark: Arc<ProcessMark>,
}

/// Puts a supervisor before a command: its program, arguments, environment and folder are taken over. The supervisor is
/// the program of the process guard, and its mark is for the case that the supervisor is killed, with us or without.
pub fn wrap(command: &Command, process_guard: &ProcessGuard) -> io::Result<PreparedCommand> {
    let mark = process_guard.mark();
    let (mut wrapped, starting) =
        report::keeping(command.get_program(), command.get_args(), &process_guard.program())?;
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(supervisor::passed_on(name), value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped.env(process_guard::VARIABLE, &mark).process_group(0);
    Ok(PreparedCommand { command: wrapped, starting, mark })
}

impl PreparedCommand {
    /// Starts it, and waits (a millisecond or two) until it runs. Must be called inside a tokio runtime.
    pub fn spawn(self) -> io::Result<(RunningCommand, CommandEnd)> {
        let PreparedCommand { mut command, starting, mark } = self;
        let started = starting.start(&mut command);
        drop(command); // and with it our ends of its pipes
        let (keeper, pid, supervised) = started.map_err(|failure| match failure {
            Failure::Agent(error) | Failure::Supervisor(error) => error,
        })?;
        let mark = Arc::new(mark);
        let pipe = pipe::Receiver::from_owned_fd(supervised.report.clone_fd()?)?;
        let ending = CommandEnd { report: supervised.report, pipe, mark: Arc::clone(&mark) };
        Ok((RunningCommand { keeper, lifeline: supervised.lifeline, pid, mark }, ending))
    }
}

impl RunningCommand {
    /// The command's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Our ends of those of its streams that were set to be pipes.
    pub fn streams(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.keeper.stdin.take(), self.keeper.stdout.take(), self.keeper.stderr.take())
    }

    /// Sends a signal to the command's process group, as long as the command runs.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.keeper), signal);
    }

    /// Kills the command and everything that came from it.
    pub fn kill(self) {
        self.end(report::KILL_NOW);
    }

    /// Lets go of a command that has ended: what is left of its process group is killed, the rest is its user's.
    pub fn release(self) {
        self.end(report::RELEASE);
    }

    fn end(mut self, word: &[u8]) {
        let _ = rustix::io::write(&self.lifeline, word);
        std::thread::spawn(move || {
            // The lifeline is open until it has obeyed: its end would mean that we are gone. Who waits for the process guard
            // hears of the mark until then.
            let RunningCommand { keeper, lifeline, mark, .. } = &mut self;
            let _ = keeper.wait();
            let _ = (lifeline, mark);
        });
    }
}

impl CommandEnd {
    /// Waits for the end of the command; `None` when the supervisor did not live to tell. What it watched over is killed
    /// then, as far as it has the command's mark. Cancel safe.
    pub async fn wait(&mut self) -> Option<Exit> {
        let exit = self.told().await;
        if exit.is_none() {
            let mark = Arc::clone(&self.mark);
            std::thread::spawn(move || mark.kill());
        }
        exit
    }

    async fn told(&mut self) -> Option<Exit> {
        loop {
            if let Some(exit) = self.report.exit() {
                return Some(exit);
            }
            let mut piece = [0; 256];
            self.pipe.readable().await.ok()?;
            match self.pipe.try_read(&mut piece) {
                Ok(0) => return self.report.exit(),
                Ok(count) => self.report.said(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}
