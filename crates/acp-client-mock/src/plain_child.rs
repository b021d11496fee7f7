//! Agents that are started, or ended, in ways that the product's client does not have.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::Stdio;

use acp_link::{LinkSettings, stream};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use tokio::process::{Child, ChildStderr, Command};

use crate::launch::{AgentLaunch, AgentProcess, AgentStdio, EndSignal, StartedAgent};

/// A process in a group of its own.
struct PlainChild {
    child: Child,
    /// Held, and never read.
    _stderr: Option<ChildStderr>,
}

/// Starts an agent as the launch says.
pub(crate) fn start(
    program: &OsStr,
    args: &[OsString],
    launch: &AgentLaunch,
) -> Result<StartedAgent, String> {
    let started = match launch.stdio {
        AgentStdio::Pipes => on_pipes(program, args, launch),
        AgentStdio::Tty => on_tty(program, args, launch),
        AgentStdio::BinaryMessages => {
            return Err("binary messages need an agent at a WebSocket address, not a command".to_owned());
        }
    };
    started.map_err(|error| format!("cannot start agent {}: {error}", program.display()))
}

fn stderr_of(launch: &AgentLaunch) -> Stdio {
    if launch.reads_stderr { Stdio::null() } else { Stdio::piped() }
}

fn on_pipes(program: &OsStr, args: &[OsString], launch: &AgentLaunch) -> io::Result<StartedAgent> {
    let env = launch.env.iter().map(|(name, value)| (name, value));
    let mut command = Command::new(program);
    command.args(args).envs(env).current_dir(&launch.cwd).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr_of(launch));
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the process has no pipes"));
    };
    let link = stream::link(stdout, stdin, &LinkSettings::default());
    let stderr = child.stderr.take();
    Ok(StartedAgent { link, process: Some(Box::new(PlainChild { child, _stderr: stderr })) })
}

fn on_tty(program: &OsStr, args: &[OsString], launch: &AgentLaunch) -> io::Result<StartedAgent> {
    let (pty, pts) = pty_process::open().map_err(io::Error::other)?;
    let mut modes = tcgetattr(&pty)?;
    modes.make_raw();
    tcsetattr(&pty, OptionalActions::Now, &modes)?;
    let env = launch.env.iter().map(|(name, value)| (name, value));
    let command = pty_process::Command::new(program).args(args).envs(env).current_dir(&launch.cwd);
    let mut child = command.stderr(stderr_of(launch)).spawn(pts).map_err(io::Error::other)?;
    let (reader, writer) = pty.into_split();
    let link = stream::link(reader, writer, &LinkSettings::default());
    let stderr = child.stderr.take();
    Ok(StartedAgent { link, process: Some(Box::new(PlainChild { child, _stderr: stderr })) })
}

impl AgentProcess for PlainChild {
    fn signal(&mut self, signal: EndSignal, descendants: bool) {
        let signal = match signal {
            EndSignal::Term => Signal::TERM,
            EndSignal::Kill => Signal::KILL,
        };
        // Its number is its own until it is collected.
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let _ = match pid {
            Some(pid) if descendants => kill_process_group(pid, signal),
            Some(pid) => kill_process(pid, signal),
            None => Ok(()),
        };
    }

    fn wait(&mut self) -> BoxFuture<'_, Option<i32>> {
        async { self.child.wait().await.ok()?.code() }.boxed()
    }
}
