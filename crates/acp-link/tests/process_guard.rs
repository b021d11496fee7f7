//! What is under the process guard ends when its holder is gone, and nothing else does.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use acp_testkit::live::{assert_gone, is_running};
use common::{LONG, probe};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

struct Holder {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// What was said while something else was waited for.
    said: Vec<String>,
}

impl Holder {
    fn start(script: &str) -> Holder {
        let mut command = Command::new(probe());
        command.args(["holder", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Holder { process, lines, said: Vec::new() }
    }

    fn line(&mut self, beginning: &str) -> String {
        loop {
            if let Some(at) = self.said.iter().position(|line| line.starts_with(beginning)) {
                return self.said.remove(at);
            }
            self.said.push(self.lines.next().expect("a line").unwrap());
        }
    }

    fn held(&mut self) -> u32 {
        number(&self.line("held"))
    }

    /// Lets it go on, and gives the command that it lets go of.
    fn free(&mut self) -> u32 {
        self.process.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        number(&self.line("free"))
    }

    /// The process that holds the other end of its process guard. Its command line is to be seen a moment after it was started.
    fn guard(&self) -> u32 {
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(guard) = self.find_guard() {
                return guard;
            }
            assert!(Instant::now() < deadline, "there is no process guard");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn find_guard(&self) -> Option<u32> {
        let holder = self.process.id();
        let children = std::fs::read_to_string(format!("/proc/{holder}/task/{holder}/children")).unwrap();
        let is_guard = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|it| it.contains("__leash"))
        };
        children.split_whitespace().map(|pid| pid.parse().unwrap()).find(is_guard)
    }

    fn end(&mut self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.process), signal).unwrap();
        self.process.wait().unwrap();
    }
}

fn number(line: &str) -> u32 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn kill(number: u32) {
    kill_process(Pid::from_raw(i32::try_from(number).unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn who_is_on_the_leash_ends_with_its_holder_and_who_was_let_go_does_not() {
    for signal in [Signal::KILL, Signal::INT] {
        let mut holder = Holder::start("exec sleep 1000");
        let (held, free, guard) = (holder.held(), holder.free(), holder.guard());
        holder.end(signal);
        assert_gone(held, "the command");
        assert_gone(guard, "the process guard");
        assert!(is_running(free), "who was let go is left alone");
        kill(free);
    }
}

#[test]
fn who_ignores_a_polite_end_is_killed_with_all_of_its_group() {
    let mut holder = Holder::start("trap '' TERM; sleep 1000 & echo child $!; wait");
    let held = holder.held();
    let child = number(&holder.line("child"));
    holder.end(Signal::KILL);
    assert_gone(held, "the command");
    assert_gone(child, "its child");
}

#[test]
fn who_was_started_a_moment_before_the_end_is_ended_too() {
    let mut holder = Holder::start("exec sleep 1000 # unheld");
    let held = holder.held();
    holder.end(Signal::KILL);
    assert_gone(held, "the command");
}

#[test]
fn who_went_into_a_session_of_its_own_is_ended_too() {
    let mut holder = Holder::start("setsid sleep 1000 & echo child $!; wait");
    let held = holder.held();
    let child = number(&holder.line("child"));
    let session = |pid: u32| {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(3)) == Some(&*pid.to_string())
        })
    };
    let deadline = Instant::now() + LONG;
    while !session(child) {
        assert!(Instant::now() < deadline, "it has no session of its own");
        std::thread::sleep(Duration::from_millis(5));
    }
    holder.end(Signal::KILL);
    assert_gone(held, "the command");
    assert_gone(child, "its child");
}

#[test]
fn a_leash_that_breaks_is_replaced_by_one_that_knows_everything() {
    let mut holder = Holder::start("exec sleep 1000");
    let (held, guard) = (holder.held(), holder.guard());
    kill(guard);
    assert_gone(guard, "the process guard");
    let free = holder.free();
    assert_ne!(holder.guard(), guard);
    holder.end(Signal::KILL);
    assert_gone(held, "the command");
    assert!(is_running(free), "who was let go is left alone");
    kill(free);
}
