//! The process guard: a small process beside us that ends our commands when we are gone, in whatever way.
//!
//! It is a re-exec of a program that calls [`main`] for its hidden command [`ARGUMENT`], started with the first
//! command. Its standard input is a pipe from us: `+N` puts the process group N under the process guard, `-N` lets it go. When the
//! pipe ends we are gone, and every group that is still under the process guard is told to terminate, and killed if it does not.
//!
//! A command is known before it runs: `?M` says that one with the mark M in its environment is about to, `!M` that the
//! mark is no longer of interest. So a command is ended though we were killed in the moment between its start and the
//! `+N`, and (on Linux) so is what it started in a group or session of its own.
//!
//! Who ends a command itself does that through [`GuardedProcess`], so that what has its mark ends with it. What a command left
//! behind that ended by itself stays.
//!
//! A group is let go before its leader is collected, so its number is never a stranger's. Between fork and exec a
//! command holds the pipe, so nothing is ended too early.

use std::ffi::OsStr;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group, test_kill_process_group};

/// The hidden command that makes a program the process guard.
pub const ARGUMENT: &str = "__leash";

/// The variable that has a command's [`ProcessMark`], after the marks of the programs that we run under.
pub const VARIABLE: &str = "ACP_LEASH";

/// What the guard calls itself.
#[cfg(target_os = "linux")]
pub(crate) const NAME: &str = "command-guard";

/// How long a guard may take once whom it guards for is gone.
#[cfg(target_os = "linux")]
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// How long groups may take to end by themselves before they are killed.
const GRACE: Duration = Duration::from_millis(500);
/// The name of a supervisor's process, as the kernel has it.
const SUPERVISOR: &str = "agent-guard";
/// How long supervisors may take to end what they watch over.
const SUPERVISORS_GRACE: Duration = Duration::from_secs(4);
/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(10);
/// How many looks in a row have to find nobody.
const QUIET: u32 = 3;

/// Who ends our commands if we cannot. Clones are the same one; it is gone when the last of them is.
#[derive(Clone, Debug)]
pub struct ProcessGuard(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    program: PathBuf,
    guard: Option<Child>,
    /// What the guard has to know, each as it is told.
    held: Vec<String>,
    /// How many marks were made, and what makes them ours.
    marks: u64,
    name: String,
}

/// A command that is about to start. Put it into its environment under the name [`VARIABLE`].
#[derive(Debug)]
pub struct ProcessMark {
    process_guard: ProcessGuard,
    word: String,
    value: String,
}

/// A command under the process guard. Drop it before you collect the process that leads the group: later its number may be a
/// stranger's.
#[derive(Debug)]
pub struct GuardedProcess {
    mark: ProcessMark,
    group: Pid,
}

impl ProcessGuard {
    /// A process guard by a program whose `__leash` command calls [`main`], such as `acp` itself. Nothing is started yet.
    pub fn new(program: impl Into<PathBuf>) -> ProcessGuard {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let name = format!("{}-{since:x}", std::process::id());
        let state = State { program: program.into(), guard: None, held: Vec::new(), marks: 0, name };
        ProcessGuard(Arc::new(Mutex::new(state)))
    }

    /// By this program itself: the commands that it runs for agents do not outlive it.
    pub fn by_this_program() -> Option<ProcessGuard> {
        std::env::current_exe().ok().map(ProcessGuard::new)
    }

    /// Announces a command. Where that fails, it runs without.
    #[must_use]
    pub fn mark(&self) -> ProcessMark {
        let mut state = self.state();
        state.marks += 1;
        let word = format!("{}-{}", state.name, state.marks);
        state.tell('?', &word);
        let outer = std::env::var(VARIABLE).unwrap_or_default();
        let value = if outer.is_empty() { word.clone() } else { format!("{outer} {word}") };
        ProcessMark { process_guard: self.clone(), word, value }
    }

    /// The program that is started for it.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.state().program.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProcessMark {
    /// Puts the process group that a process of this number leads under the process guard: it is the command of this mark.
    #[must_use]
    pub fn hold(self, leader: u32) -> Option<GuardedProcess> {
        let group = Pid::from_raw(i32::try_from(leader).ok()?)?;
        self.process_guard.state().tell('+', &group.as_raw_nonzero().to_string());
        Some(GuardedProcess { mark: self, group })
    }

    /// Kills every process that has the mark. This takes some moments.
    pub fn kill(&self) {
        let (deadline, mut quiet) = (Instant::now() + GRACE, 0);
        // A process that has just been started shows its environment a moment later.
        while quiet < QUIET && Instant::now() < deadline {
            let marked = self.marked();
            send(&marked, Signal::KILL);
            quiet = if marked.is_empty() { quiet + 1 } else { 0 };
            std::thread::sleep(LOOK);
        }
    }

    fn marked(&self) -> Vec<Pid> {
        marked(std::slice::from_ref(&self.word))
    }
}

impl GuardedProcess {
    /// Sends a signal to all of the command, each process once: to its group and, on Linux, to what it started in groups
    /// or sessions of its own.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
        let is_elsewhere = |process: &Pid| getpgid(Some(*process)).is_ok_and(|group| group != self.group);
        let elsewhere: Vec<Pid> = self.mark.marked().into_iter().filter(is_elsewhere).collect();
        send(&elsewhere, signal);
    }

    /// Kills all of the command, and lets go of it. This takes some moments.
    pub fn kill(self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        self.mark.kill();
    }
}

impl AsRef<OsStr> for ProcessMark {
    fn as_ref(&self) -> &OsStr {
        self.value.as_ref()
    }
}

impl Drop for ProcessMark {
    fn drop(&mut self) {
        self.process_guard.state().untell('?', '!', &self.word);
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        self.mark.process_guard.state().untell('+', '-', &self.group.as_raw_nonzero().to_string());
    }
}

impl State {
    fn tell(&mut self, sign: char, what: &str) {
        let line = format!("{sign}{what}\n");
        self.held.push(line.clone());
        self.say(&line);
    }

    /// Takes back what was told with the first sign.
    fn untell(&mut self, told: char, sign: char, what: &str) {
        let line = format!("{told}{what}\n");
        self.held.retain(|it| *it != line);
        self.say(&format!("{sign}{what}\n"));
    }

    /// Who does not listen any more is replaced by another one, who is told everything.
    fn say(&mut self, line: &str) {
        let told = self.guard.as_mut().is_some_and(|guard| say(guard, line).is_ok());
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
        let told = ready && self.held.iter().all(|line| say(&mut guard, line).is_ok());
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
fn say(guard: &mut Child, line: &str) -> io::Result<()> {
    let Some(pipe) = &mut guard.stdin else { return Err(io::ErrorKind::BrokenPipe.into()) };
    pipe.write_all(line.as_bytes())
}

/// Runs as the process guard; programs call this first thing, before they start a runtime or a thread.
pub fn main() -> ExitCode {
    // `pkill -9 acp` shall not hit the one that cleans up after it.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"command-guard");
    let (mut groups, mut marks) = (Vec::new(), Vec::new());
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some((sign, what)) = line.split_at_checked(1) else { continue };
        match (sign, parse(what)) {
            ("+", Some(group)) => groups.push(group),
            ("-", Some(group)) => groups.retain(|it| *it != group),
            ("?", _) => marks.push(what.to_owned()),
            ("!", _) => marks.retain(|it| it != what),
            _ => {}
        }
    }
    end(&groups, &marks);
    ExitCode::SUCCESS
}

fn parse(group: &str) -> Option<Pid> {
    group.parse().ok().filter(|group| *group > 1).and_then(Pid::from_raw)
}

fn end(groups: &[Pid], marks: &[String]) {
    let mut told = Vec::new();
    for group in groups {
        let _ = kill_process_group(*group, Signal::TERM);
    }
    let deadline = Instant::now() + GRACE;
    let mut quiet = 0;
    // A process that has just been started shows its environment a moment later.
    while quiet < QUIET && Instant::now() < deadline {
        let marked = marked(marks);
        let fresh: Vec<Pid> = marked.iter().filter(|pid| !told.contains(*pid)).copied().collect();
        send(&fresh, Signal::TERM);
        told.extend(fresh);
        let left = !marked.is_empty() || groups.iter().any(|group| test_kill_process_group(*group).is_ok());
        quiet = if left { 0 } else { quiet + 1 };
        std::thread::sleep(LOOK);
    }
    // A supervisor ends what it watches over, also what hides from us, and then itself: it is killed last.
    for group in groups.iter().filter(|group| !is_supervisor(**group)) {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    let (supervisors, others): (Vec<Pid>, Vec<Pid>) =
        marked(marks).into_iter().partition(|pid| is_supervisor(*pid));
    send(&others, Signal::KILL);
    let deadline = Instant::now() + SUPERVISORS_GRACE;
    while supervisors.iter().any(|pid| is_supervisor(*pid)) && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
    for group in groups {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    send(&marked(marks), Signal::KILL);
}

/// Whether this is a supervisor of ours that still runs.
fn is_supervisor(pid: Pid) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).unwrap_or_default();
    name.trim_end() == SUPERVISOR
}

fn send(processes: &[Pid], signal: Signal) {
    for process in processes {
        let _ = kill_process(*process, signal);
    }
}

/// The processes with one of the marks in their environment, where that can be seen.
fn marked(marks: &[String]) -> Vec<Pid> {
    if marks.is_empty() {
        return Vec::new();
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| parse(entry.file_name().to_str()?));
    let is_marked = |pid: &Pid| {
        let environment =
            std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        let mut variables =
            environment.split(|byte| *byte == 0).filter_map(|it| std::str::from_utf8(it).ok());
        let value = variables.find_map(|it| it.strip_prefix(VARIABLE)?.strip_prefix('='));
        value.is_some_and(|value| value.split(' ').any(|word| marks.iter().any(|mark| mark == word)))
    };
    pids.filter(is_marked).collect()
}
