//! A command whose every descendant ends with us, however we end and whatever it did to get away: a
//! [supervisor](crate::supervisor) stands between, as with agents. Linux only.
//!
//! Unlike an agent, a command may leave processes behind when it ends by itself: they stay for as long as we live and have
//! not [released](Kept::release) it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::unix::pipe;

use crate::child::Exit;
use crate::child::report::{self, Failure, Starting};

/// A command that is ready to be started. Set its input and output on [`command`](Wrapped::command).
#[derive(Debug)]
pub struct Wrapped {
    /// What is started.
    pub command: Command,
    starting: Starting,
}

/// A command that was started.
#[derive(Debug)]
pub struct Kept {
    keeper: Child,
    lifeline: OwnedFd,
}

/// Tells how a command ended.
#[derive(Debug)]
pub struct Ending {
    report: report::Report,
    pipe: pipe::Receiver,
}

/// Puts a supervisor before a command: its program, arguments, environment and folder are taken over. `program` is one
/// whose `__supervise` command calls [`crate::supervisor::main`].
pub fn wrap(command: &Command, program: &Path) -> io::Result<Wrapped> {
    let (mut wrapped, starting) = report::keeping(command.get_program(), command.get_args(), program)?;
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    Ok(Wrapped { command: wrapped, starting })
}

impl Wrapped {
    /// Starts it, and waits (a millisecond or two) until it runs. Must be called inside a tokio runtime.
    pub fn spawn(self) -> io::Result<(Kept, Ending)> {
        let Wrapped { mut command, starting } = self;
        let mut keeper = command.spawn()?;
        drop(command); // and with it our ends of its pipes
        match starting.wait(Pid::from_child(&keeper)) {
            Ok((_, supervised)) => {
                let pipe = pipe::Receiver::from_owned_fd(supervised.report.clone_fd()?)?;
                let ending = Ending { report: supervised.report, pipe };
                Ok((Kept { keeper, lifeline: supervised.lifeline }, ending))
            }
            Err(Failure::Agent(error) | Failure::Supervisor(error)) => {
                let _ = keeper.kill();
                let _ = keeper.wait();
                Err(error)
            }
        }
    }
}

impl Kept {
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
            // Open until it has obeyed: the end of the lifeline would mean that we are gone.
            let Kept { keeper, lifeline } = &mut self;
            let _ = keeper.wait();
            let _ = lifeline;
        });
    }
}

impl Ending {
    /// Waits for the end of the command; `None` when the supervisor did not live to tell. Cancel safe.
    pub async fn wait(&mut self) -> Option<Exit> {
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
