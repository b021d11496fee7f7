//! What we and a supervisor say to each other: a lifeline from us, a report from it.
//!
//! Both are pipes that the supervisor opens through our `/proc/…/fd`, so that no descriptor is ever inheritable
//! (one that is would leak into whatever another thread happens to start). The lifeline is silent: when it ends,
//! we have. The report has one fact per line.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::{Exit, SpawnOptions, StopStage, Survivor};
use crate::supervisor::{ARGUMENT, FORWARDED};

/// Written to the lifeline: kill everything without waiting.
pub(crate) const KILL_NOW: &[u8] = b"K";
/// Written to the lifeline of a command that has ended: kill what is left of its group, leave the rest alone.
pub(crate) const RELEASE: &[u8] = b"R";
/// In place of a time to linger: stay after the program has ended, until there is nobody left or a word comes.
pub(crate) const KEEP: &str = "keep";
/// How long a supervisor may take to start the agent.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// How often a supervisor is started that a signal ends before it begins.
const ATTEMPTS: u32 = 3;

/// Our ends of the two pipes.
#[derive(Debug)]
pub(crate) struct Supervised {
    pub(crate) lifeline: OwnedFd,
    pub(crate) report: Report,
}

/// Our end of the report, and what was read of it.
#[derive(Debug)]
pub(crate) struct Report {
    fd: OwnedFd,
    said: Vec<u8>,
}

/// All ends, until the supervisor has opened its own.
#[derive(Debug)]
pub(crate) struct Starting {
    ours: Supervised,
    _theirs: (OwnedFd, OwnedFd),
}

pub(crate) enum Failure {
    Agent(io::Error),
    Supervisor(io::Error),
}

/// The command that starts the supervisor, which starts the agent.
pub(super) fn command(options: &SpawnOptions, supervisor: &Path) -> io::Result<(Command, Starting)> {
    let linger = options.linger.as_millis().to_string();
    let args = options.args.iter().map(OsString::as_os_str);
    supervising(supervisor, &linger, &options.program, args)
}

/// The command that starts a supervisor which stays for as long as the program and what it left behind.
pub(crate) fn keeping<'a>(
    program: &OsStr,
    args: impl Iterator<Item = &'a OsStr>,
    supervisor: &Path,
) -> io::Result<(Command, Starting)> {
    supervising(supervisor, KEEP, program, args)
}

fn supervising<'a>(
    supervisor: &Path,
    linger: &str,
    program: &OsStr,
    args: impl Iterator<Item = &'a OsStr>,
) -> io::Result<(Command, Starting)> {
    let (life_read, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
    let (fd, report_write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let mut command = Command::new(supervisor);
    command
        .arg(ARGUMENT)
        .arg(std::process::id().to_string())
        .arg(life_read.as_raw_fd().to_string())
        .arg(report_write.as_raw_fd().to_string())
        .arg(linger)
        .arg(program)
        .args(args);
    let report = Report { fd, said: Vec::new() };
    Ok((command, Starting { ours: Supervised { lifeline, report }, _theirs: (life_read, report_write) }))
}

impl Starting {
    /// Starts the supervisor, and waits until it says that the agent runs, or that it cannot.
    ///
    /// Until it has a process group of its own, a signal of the terminal (Ctrl-C) reaches it as one of ours, and ends it
    /// before it catches signals. No agent runs then, so it is started again.
    pub(crate) fn start(mut self, command: &mut Command) -> Result<(Child, Pid, Supervised), Failure> {
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            let mut supervisor = command.spawn().map_err(Failure::Supervisor)?;
            let failure = match self.wait(Pid::from_child(&supervisor)) {
                Ok(agent) => return Ok((supervisor, agent, self.ours)),
                Err(failure) => failure,
            };
            let _ = supervisor.kill();
            let status = supervisor.wait().ok();
            if left == 0 || !status.is_some_and(ended_before_it_began) {
                return Err(failure);
            }
        }
    }

    fn wait(&mut self, supervisor: Pid) -> Result<Pid, Failure> {
        let line = self.first_line(supervisor).map_err(Failure::Supervisor)?;
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match (word, rest.parse::<i32>().ok()) {
            ("pid", Some(raw)) if let Some(pid) = Pid::from_raw(raw) => Ok(pid),
            ("error", Some(code)) => Err(Failure::Agent(io::Error::from_raw_os_error(code))),
            _ => Err(Failure::Supervisor(io::Error::other(format!("it said {line:?}")))),
        }
    }

    fn first_line(&mut self, supervisor: Pid) -> io::Result<String> {
        let deadline = Instant::now() + START_PATIENCE;
        let report = &mut self.ours.report;
        loop {
            // Before reading: what it said before it ended must not be missed.
            let end = end_of(supervisor);
            report.read_available()?;
            if let Some(at) = report.said.iter().position(|&byte| byte == b'\n') {
                // What follows is for later: an agent may end before we have read that it runs.
                let line: Vec<u8> = report.said.drain(..=at).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if let Some(end) = end {
                return Err(io::Error::other(end));
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("it did not answer; is it a program with a supervisor in it?"));
            }
            let mut fds = [PollFd::new(&report.fd, PollFlags::IN)];
            // Short, because the end of the supervisor does not wake us.
            let patience = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            match poll(&mut fds, Some(&patience)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether it ended by a signal that it would have caught if it had come as far as to start an agent.
fn ended_before_it_began(status: ExitStatus) -> bool {
    status.signal().is_some_and(|signal| FORWARDED.iter().any(|it| it.as_raw() == signal))
}

/// How the supervisor ended, if it has; does not reap it.
fn end_of(pid: Pid) -> Option<String> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let signal = match waitid(WaitId::Pid(pid), options) {
        Ok(Some(status)) => status.terminating_signal(),
        Err(rustix::io::Errno::CHILD) => None,
        _ => return None,
    };
    Some(match signal {
        Some(signal) => format!("it was ended by signal {signal} before it began; try again"),
        None => "it ended at once; is it a program with a supervisor in it?".to_owned(),
    })
}

impl Report {
    fn read_available(&mut self) -> io::Result<()> {
        let mut buf = [0; 4096];
        loop {
            match rustix::io::read(&self.fd, &mut buf) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Ok(count) => self.said.extend_from_slice(&buf[..count]),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The same pipe once more, for who waits for it.
    pub(crate) fn clone_fd(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Takes what was read elsewhere.
    pub(crate) fn said(&mut self, bytes: &[u8]) {
        self.said.extend_from_slice(bytes);
    }

    /// How the agent ended; `None` when the supervisor did not live to say it.
    pub(crate) fn exit(&mut self) -> Option<Exit> {
        let _ = self.read_available();
        let mut exit = Exit { code: None, signal: None, stage: StopStage::Unasked, survivors: Vec::new() };
        for line in String::from_utf8_lossy(&self.said).lines() {
            let mut words = line.splitn(3, ' ');
            let (word, number, name) =
                (words.next(), words.next().and_then(|it| it.parse().ok()), words.next());
            match (word, number) {
                (Some("code"), Some(code)) => exit.code = Some(code),
                (Some("signal"), Some(signal)) => exit.signal = Some(signal),
                (Some("survivor"), Some(pid)) => {
                    let name = name.unwrap_or_default().to_owned();
                    exit.survivors.push(Survivor { pid: pid.unsigned_abs(), name });
                }
                _ => {}
            }
        }
        (exit.code.is_some() || exit.signal.is_some()).then_some(exit)
    }
}

pub(super) fn exit_of(status: Option<ExitStatus>) -> Exit {
    Exit {
        code: status.and_then(|it| it.code()),
        signal: status.and_then(|it| it.signal()),
        stage: StopStage::Unasked,
        survivors: Vec::new(),
    }
}
