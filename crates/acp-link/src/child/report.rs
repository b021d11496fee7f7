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
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::{Exit, Options, Stage, Survivor};
use crate::supervisor::ARGUMENT;

/// Written to the lifeline: kill everything without waiting.
pub(crate) const KILL_NOW: &[u8] = b"K";
/// Written to the lifeline of a command that has ended: kill what is left of its group, leave the rest alone.
pub(crate) const RELEASE: &[u8] = b"R";
/// In place of a time to linger: stay after the program has ended, until there is nobody left or a word comes.
pub(crate) const KEEP: &str = "keep";
/// How long a supervisor may take to start the agent.
const START_PATIENCE: Duration = Duration::from_secs(20);

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
pub(super) fn command(options: &Options, supervisor: &Path) -> io::Result<(Command, Starting)> {
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
    /// Waits until the supervisor says that the agent runs, or that it cannot.
    pub(crate) fn wait(mut self, supervisor: Pid) -> Result<(Pid, Supervised), Failure> {
        let line = self.first_line(supervisor).map_err(Failure::Supervisor)?;
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match (word, rest.parse::<i32>().ok()) {
            ("pid", Some(raw)) if let Some(pid) = Pid::from_raw(raw) => Ok((pid, self.ours)),
            ("error", Some(code)) => Err(Failure::Agent(io::Error::from_raw_os_error(code))),
            _ => Err(Failure::Supervisor(io::Error::other(format!("it said {line:?}")))),
        }
    }

    fn first_line(&mut self, supervisor: Pid) -> io::Result<String> {
        let deadline = Instant::now() + START_PATIENCE;
        let report = &mut self.ours.report;
        loop {
            // Before reading: what it said before it ended must not be missed.
            let ended = ended(supervisor);
            report.read_available()?;
            if let Some(end) = report.said.iter().position(|&byte| byte == b'\n') {
                // What follows is for later: an agent may end before we have read that it runs.
                let line: Vec<u8> = report.said.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if ended {
                return Err(io::Error::other("it ended at once; is it a program with a supervisor in it?"));
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

/// Whether the process has ended; does not reap it.
fn ended(pid: Pid) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_)) | Err(rustix::io::Errno::CHILD))
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
        let mut exit = Exit { code: None, signal: None, stage: Stage::Unasked, survivors: Vec::new() };
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
        stage: Stage::Unasked,
        survivors: Vec::new(),
    }
}
