//! The supervisor's life on Linux.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::{Instant, sleep, timeout_at};

use super::{ARGUMENT, FORWARDED, processes};
use crate::child::Survivor;
use crate::child::report::{KEEP, RELEASE};
use crate::process_guard;

/// Only wakes us up: it is also sent when the *thread* that started us ends, so the parent's number decides.
const PARENT_DIED: Signal = Signal::URG;
/// How often the parent's number is looked at when there is no lifeline.
const LOOK: Duration = Duration::from_millis(200);
/// A process that cannot be killed (stuck in the kernel, or not ours) is not waited for any longer than this.
const SWEEP_PATIENCE: Duration = Duration::from_secs(5);
/// How often a guard that is still at work is looked at.
const GUARD_LOOK: Duration = Duration::from_millis(10);
/// How long, in milliseconds, a kept command may take to end after it was told to because we are gone.
const KEPT_LINGER: u32 = 500;
/// How many survivors are named.
const NAMED: usize = 100;

struct Settings {
    parent: Pid,
    lifeline: PathBuf,
    report: PathBuf,
    linger: Duration,
    /// Stay after the program has ended, until nobody is left or a word comes.
    keeps: bool,
    program: OsString,
    args: Vec<OsString>,
}

pub(super) fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(settings) = parse(args) else {
        eprintln!("{ARGUMENT} is for internal use: PARENT LIFELINE REPORT LINGER PROGRAM [ARGS…]");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.and_then(|runtime| runtime.block_on(supervise(&settings)));
    outcome.unwrap_or_else(|error| {
        eprintln!("{ARGUMENT}: {error}");
        ExitCode::from(3)
    })
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Settings> {
    let mut args = args.into_iter();
    let mut number = || args.next()?.to_str()?.parse::<u32>().ok();
    let (parent, lifeline, report) = (number()?, number()?, number()?);
    let linger = args.next()?;
    let keeps = linger == KEEP;
    let linger = if keeps { KEPT_LINGER } else { linger.to_str()?.parse().ok()? };
    Some(Settings {
        parent: Pid::from_raw(i32::try_from(parent).ok()?)?,
        lifeline: format!("/proc/{parent}/fd/{lifeline}").into(),
        report: format!("/proc/{parent}/fd/{report}").into(),
        linger: Duration::from_millis(linger.into()),
        keeps,
        program: args.next()?,
        args: args.collect(),
    })
}

/// Why watching ended.
enum Turn {
    AgentEnded,
    /// The program has ended, and so has everything that came from it.
    Nobody,
    Release,
    ParentGone,
    KillNow,
}

async fn supervise(settings: &Settings) -> io::Result<ExitCode> {
    // `pkill -9 acp` shall not hit the one that cleans up after it.
    rustix::thread::set_name(c"agent-guard")?;
    set_child_subreaper(Some(getpid()))?;
    set_parent_process_death_signal(Some(PARENT_DIED))?;
    let mut signals = Listening::start()?;
    let lifeline = open_lifeline(settings);
    let mut report = Report(File::options().write(true).open(&settings.report).ok());
    if getppid() != Some(settings.parent) {
        return Ok(ExitCode::from(3));
    }
    let agent = match start(settings) {
        Ok(agent) => agent,
        Err(error) => {
            report.line(format_args!(
                "error {}",
                error.raw_os_error().unwrap_or(rustix::io::Errno::INVAL.raw_os_error())
            ));
            return Ok(ExitCode::from(3));
        }
    };
    report.line(format_args!("pid {}", agent.as_raw_nonzero()));
    release_stdio()?;

    let mut family = Family { agent, status: None };
    let mut lifeline = lifeline;
    let mut turn = family.watch(settings, &mut lifeline, &mut signals).await;
    if settings.keeps && matches!(turn, Turn::AgentEnded) {
        report.exit(family.status);
        turn = family.stay(settings, &mut lifeline, &mut signals).await;
    }
    let survivors = family.end(turn, settings.linger, &mut signals).await;
    for survivor in survivors.iter().take(NAMED) {
        report.line(format_args!("survivor {} {}", survivor.pid, survivor.name));
    }
    Ok(report.exit(family.status))
}

fn open_lifeline(settings: &Settings) -> Option<pipe::Receiver> {
    pipe::OpenOptions::new().open_receiver(&settings.lifeline).ok()
}

fn start(settings: &Settings) -> io::Result<Pid> {
    let mut command = Command::new(&settings.program);
    for (name, own, value) in super::taken_over() {
        command.env_remove(name).env(own, value);
    }
    let child = command.args(&settings.args).process_group(0).spawn()?;
    Ok(Pid::from_child(&child))
}

/// The agent's pipes are the agent's: while we hold them, nobody can see that it closed one.
fn release_stdio() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

struct Listening {
    child: Signals,
    parent_died: Signals,
    forwarded: Vec<(Signal, Signals)>,
}

impl Listening {
    fn start() -> io::Result<Listening> {
        let listen = |it: Signal| signal(SignalKind::from_raw(it.as_raw()));
        Ok(Listening {
            child: listen(Signal::CHILD)?,
            parent_died: listen(PARENT_DIED)?,
            forwarded: FORWARDED.into_iter().map(|it| Ok((it, listen(it)?))).collect::<io::Result<_>>()?,
        })
    }

    async fn next_forwarded(forwarded: &mut [(Signal, Signals)]) -> Signal {
        std::future::poll_fn(|cx| {
            for (signal, stream) in forwarded.iter_mut() {
                if stream.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// The agent and everything that came from it.
struct Family {
    agent: Pid,
    status: Option<std::process::ExitStatus>,
}

impl Family {
    async fn watch(
        &mut self,
        settings: &Settings,
        lifeline: &mut Option<pipe::Receiver>,
        signals: &mut Listening,
    ) -> Turn {
        loop {
            self.reap();
            if self.status.is_some() {
                return Turn::AgentEnded;
            }
            if let Some(turn) = self.next(settings, lifeline, signals).await {
                return turn;
            }
        }
    }

    /// Stays with what the program left behind.
    async fn stay(
        &mut self,
        settings: &Settings,
        lifeline: &mut Option<pipe::Receiver>,
        signals: &mut Listening,
    ) -> Turn {
        loop {
            if self.reap() {
                return Turn::Nobody;
            }
            if let Some(turn) = self.next(settings, lifeline, signals).await {
                return turn;
            }
        }
    }

    /// Waits for the next thing that happens; a turn if it is one.
    async fn next(
        &self,
        settings: &Settings,
        lifeline: &mut Option<pipe::Receiver>,
        signals: &mut Listening,
    ) -> Option<Turn> {
        let mut said = [0];
        if getppid() != Some(settings.parent) {
            return Some(Turn::ParentGone);
        }
        let blind = lifeline.is_none();
        let heard = async {
            match lifeline {
                Some(lifeline) => lifeline.read(&mut said).await.unwrap_or(0),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = signals.child.recv() => {}
            _ = signals.parent_died.recv() => {}
            signal = Listening::next_forwarded(&mut signals.forwarded) => self.signal(signal),
            count = heard => return Some(match (count, &said) {
                (0, _) => Turn::ParentGone,
                (_, word) if word == RELEASE => Turn::Release,
                _ => Turn::KillNow,
            }),
            () = sleep(LOOK), if blind => {}
        }
        None
    }

    /// Ends everything that is left and says what had to be killed although the agent had already ended.
    async fn end(&mut self, turn: Turn, linger: Duration, signals: &mut Listening) -> Vec<Survivor> {
        match turn {
            Turn::Nobody => return Vec::new(),
            Turn::Release if self.status.is_some() => {
                self.end_group();
                return Vec::new();
            }
            Turn::AgentEnded => {}
            Turn::ParentGone => {
                self.signal(Signal::TERM);
            }
            Turn::KillNow | Turn::Release => {
                self.sweep().await;
                return Vec::new();
            }
        }
        let deadline = Instant::now() + linger;
        while !self.reap() && timeout_at(deadline, signals.child.recv()).await.is_ok() {}
        // A guard ends what the agent left behind and then itself: it is no leftover of the agent.
        let deadline = Instant::now() + process_guard::PATIENCE;
        while !self.reap() && Instant::now() < deadline && has_guard(&processes::descendants(getpid())) {
            sleep(GUARD_LOOK).await;
        }
        self.sweep().await
    }

    /// Kills what is left of the program's group. Only descendants can be in it, or else the number is another's.
    fn end_group(&self) {
        let family = processes::descendants(getpid());
        for process in processes::in_group(self.agent) {
            let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid.filter(|_| family.iter().any(|it| it.pid == process.pid)) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            let _ = kill_process_group(self.agent, signal);
        }
    }

    /// Reaps who has ended; true when nobody is left. As everyone's reaper we have no child only when we have no
    /// descendant.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.agent => {
                    self.status = Some(ExitStatusExt::from_raw(status.as_raw()));
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Kills descendants until there are none; one that forks meanwhile is found in the next round.
    async fn sweep(&mut self) -> Vec<Survivor> {
        let deadline = Instant::now() + SWEEP_PATIENCE;
        let mut killed: Vec<Survivor> = Vec::new();
        let mut pause = Duration::from_micros(200);
        while !self.reap() && Instant::now() < deadline {
            for process in processes::descendants(getpid()) {
                if let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                if process.name != process_guard::NAME && !killed.iter().any(|it| it.pid == process.pid) {
                    killed.push(process);
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        killed
    }
}

fn has_guard(left: &[Survivor]) -> bool {
    left.iter().any(|process| process.name == process_guard::NAME)
}

/// One fact per line, to whoever started us; nobody may be there any more.
struct Report(Option<File>);

impl Report {
    fn line(&mut self, fact: std::fmt::Arguments<'_>) {
        if let Some(file) = &mut self.0 {
            let _ = file.write_all(format!("{fact}\n").as_bytes());
        }
    }

    /// Reports the agent's status and makes it ours, as far as a status can be passed on.
    fn exit(&mut self, status: Option<std::process::ExitStatus>) -> ExitCode {
        let Some(status) = status else { return ExitCode::from(3) };
        if let Some(signal) = status.signal() {
            self.line(format_args!("signal {signal}"));
            return ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX));
        }
        let code = status.code().unwrap_or_default();
        self.line(format_args!("code {code}"));
        ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
    }
}
