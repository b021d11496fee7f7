//! A server's process: its own group, a bounded standard error, gone when dropped.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use acp_link::leash::{self, Held, Leash};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::ServerSpec;

pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
    held: Option<Held>,
    stderr: Tail,
    following: tokio::task::JoinHandle<()>,
}

impl Process {
    /// Starts the program of a stdio spec.
    pub(crate) fn start(
        spec: &ServerSpec,
        stderr_limit: usize,
        leash: Option<&Leash>,
    ) -> std::io::Result<(Self, ChildStdout, ChildStdin)> {
        let ServerSpec::Stdio { command, args, env, cwd } = spec else {
            return Err(std::io::Error::other("not a program"));
        };
        let mut starter = Command::new(command);
        for secret in acp_link::credentials::all() {
            starter.env_remove(secret);
        }
        starter.args(args).envs(env.iter().map(|(k, v)| (k, v)));
        if let Some(cwd) = cwd {
            starter.current_dir(cwd);
        }
        starter.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        starter.process_group(0).kill_on_drop(true);
        let mark = leash.map(Leash::mark);
        starter.envs(mark.iter().map(|mark| (leash::VARIABLE, mark)));
        let mut child = starter.spawn()?;
        let held = mark.zip(child.id()).and_then(|(mark, id)| mark.hold(id));
        let (Some(stdin), Some(stdout), Some(err)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(std::io::Error::other("its standard streams are missing"));
        };
        let stderr = Tail::new(stderr_limit);
        let following = tokio::spawn(stderr.clone().follow(err));
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok((Self { child, group, held, stderr, following }, stdout, stdin))
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    pub(crate) fn stderr(&self) -> &Tail {
        &self.stderr
    }

    /// Waits for the end that closing its standard input asks for; past `grace`, and for whatever the
    /// program left behind in its group or under its mark, there is SIGKILL.
    pub(crate) async fn finish(&mut self, grace: Duration) -> Option<ExitStatus> {
        let ended = tokio::time::timeout(grace, self.child.wait()).await;
        self.kill_group();
        match ended {
            Ok(status) => status.ok(),
            Err(_) => self.child.wait().await.ok(),
        }
    }

    /// The exit status, if the process has ended or does so shortly. Its last words are then read too, unless
    /// something that it left behind holds them open.
    pub(crate) async fn ended_within(&mut self, grace: Duration) -> Option<ExitStatus> {
        let status = tokio::time::timeout(grace, self.child.wait()).await.ok()?.ok();
        self.held = None; // its number may be another's now
        if !self.following.is_finished() {
            let _ = tokio::time::timeout(grace, &mut self.following).await;
        }
        status
    }

    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if let Some(held) = self.held.take() {
            held.kill();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_group();
    }
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
