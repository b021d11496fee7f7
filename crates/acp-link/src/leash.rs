//! The leash: a small process beside us that ends our commands when we are gone, in whatever way.
//!
//! It is a re-exec of a program that calls [`main`] for its hidden command [`ARGUMENT`], started with the first
//! command. Its standard input is a pipe from us: `+N` puts the process group N on the leash, `-N` lets it go. When the
//! pipe ends we are gone, and every group that is still on the leash is told to terminate, and killed if it does not.

use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// The hidden command that makes a program the leash.
pub const ARGUMENT: &str = "__leash";

/// How long groups may take to end by themselves before they are killed.
const GRACE: Duration = Duration::from_millis(500);
/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// Who ends our commands if we cannot. Clones are the same one; it is gone when the last of them is.
#[derive(Clone, Debug)]
pub struct Leash(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    program: PathBuf,
    guard: Option<Child>,
    held: Vec<Pid>,
}

/// A process group on the leash. Drop it before you collect the process that leads the group: later its number may be
/// a stranger's.
#[derive(Debug)]
pub struct Held {
    leash: Leash,
    group: Pid,
}

impl Leash {
    /// A leash by a program whose `__leash` command calls [`main`], such as `acp` itself. Nothing is started yet.
    pub fn new(program: impl Into<PathBuf>) -> Leash {
        Leash(Arc::new(Mutex::new(State { program: program.into(), guard: None, held: Vec::new() })))
    }

    /// Starts what has to be started, so that [`hold`](Leash::hold) takes no time after a command has begun.
    pub fn ready(&self) {
        let mut state = self.state();
        if state.guard.is_none() {
            state.start();
        }
    }

    /// Puts the process group that a process of this number leads on the leash. Where that fails, it runs without.
    pub fn hold(&self, leader: u32) -> Option<Held> {
        let group = Pid::from_raw(i32::try_from(leader).ok()?)?;
        let mut state = self.state();
        state.held.push(group);
        state.tell('+', group);
        Some(Held { leash: self.clone(), group })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.leash.state();
        state.held.retain(|group| *group != self.group);
        state.tell('-', self.group);
    }
}

impl State {
    /// Who does not listen any more is replaced by another one, who is told everything.
    fn tell(&mut self, sign: char, group: Pid) {
        let told = self.guard.as_mut().is_some_and(|guard| say(guard, sign, group).is_ok());
        if !told {
            self.end();
            if !self.held.is_empty() {
                self.start();
            }
        }
    }

    fn start(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg(ARGUMENT).current_dir("/").process_group(0);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(mut guard) = started else { return };
        // One that was stopped must not stop us.
        let ready = guard.stdin.as_ref().is_some_and(|pipe| fcntl_setfl(pipe, OFlags::NONBLOCK).is_ok());
        let told = ready && self.held.iter().all(|group| say(&mut guard, '+', *group).is_ok());
        self.guard = Some(guard);
        if !told {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.kill();
            let _ = guard.wait();
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.end(); // nothing is held any more
    }
}

/// A line this short is written whole or not at all.
fn say(guard: &mut Child, sign: char, group: Pid) -> io::Result<()> {
    let Some(pipe) = &mut guard.stdin else { return Err(io::ErrorKind::BrokenPipe.into()) };
    pipe.write_all(format!("{sign}{}\n", group.as_raw_nonzero()).as_bytes())
}

/// Runs as the leash; programs call this first thing, before they start a runtime or a thread.
pub fn main() -> ExitCode {
    // `pkill -9 acp` shall not hit the one that cleans up after it.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"command-guard");
    let mut held: Vec<Pid> = Vec::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some((puts, group)) = parse(&line) else { continue };
        held.retain(|it| *it != group);
        if puts {
            held.push(group);
        }
    }
    end(&held);
    ExitCode::SUCCESS
}

fn parse(line: &str) -> Option<(bool, Pid)> {
    let (puts, number) =
        line.strip_prefix('+').map(|it| (true, it)).or(line.strip_prefix('-').map(|it| (false, it)))?;
    let group = number.parse().ok().filter(|group| *group > 1).and_then(Pid::from_raw)?;
    Some((puts, group))
}

fn end(groups: &[Pid]) {
    for group in groups {
        let _ = kill_process_group(*group, Signal::TERM);
    }
    let deadline = Instant::now() + GRACE;
    while groups.iter().any(|group| test_kill_process_group(*group).is_ok()) && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
    for group in groups {
        let _ = kill_process_group(*group, Signal::KILL);
    }
}
