//! Nothing that comes of a kept command outlives us, whatever it did to get away.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use acp_link::kept;
use acp_link::process_guard::ProcessGuard;
use acp_testkit::live::{assert_gone, is_running};
use common::probe;
use rustix::process::{Pid, Signal, kill_process};

struct Keeper {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    said: Vec<String>,
}

impl Keeper {
    fn start(script: &str) -> Keeper {
        let mut command = Command::new(probe());
        command.args(["keeper", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().expect("the probe");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        Keeper { process, lines, said: Vec::new() }
    }

    /// The number behind a word.
    fn number(&mut self, word: &str) -> u32 {
        loop {
            if let Some(at) = self.said.iter().position(|line| line.starts_with(word)) {
                let line = self.said.remove(at);
                return line.rsplit(' ').next().and_then(|it| it.parse().ok()).unwrap_or_default();
            }
            self.said.push(self.lines.next().expect("a line").expect("text"));
        }
    }

    fn kill(&mut self) {
        kill_process(Pid::from_child(&self.process), Signal::KILL).expect("killed");
        self.process.wait().expect("its end");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Without our mark in its environment, in a session of its own, with none of our pipes.
const AWAY: &str = "setsid env -i /bin/sleep 1000 </dev/null >/dev/null 2>&1 &";

#[test]
fn who_cleared_its_environment_in_a_session_of_its_own_is_ended_with_us() {
    for script in [
        format!("{AWAY} echo child $!; wait"),
        format!("({AWAY} echo child $!); sleep 1000"),
        format!("trap '' TERM HUP; {AWAY} echo child $!; sleep 1000"),
        format!("{AWAY} echo child $!"),
    ] {
        let mut keeper = Keeper::start(&script);
        let child = keeper.number("child");
        keeper.number("started");
        assert!(is_running(child), "{script}");
        keeper.kill();
        assert_gone(child, &script);
    }
}

#[test]
fn a_command_tells_how_it_ended_and_what_it_left_behind_stays_until_it_is_released() {
    let mut keeper =
        Keeper::start(&format!("{AWAY} echo away $!; sleep 1000 >/dev/null & echo near $!; exit 3"));
    let (away, near) = (keeper.number("away"), keeper.number("near"));
    assert_eq!(keeper.number("ended"), 3);
    assert!(is_running(away) && is_running(near));
    keeper.process.stdin.as_mut().expect("its input").write_all(b"\n").expect("heard");
    keeper.number("released");
    assert_gone(near, "what is left of the group");
    assert!(is_running(away), "a daemon is its user's");
    kill_process(Pid::from_raw(i32::try_from(away).expect("a pid")).expect("a pid"), Signal::KILL)
        .expect("killed");
}

/// A supervisor that a signal ends before it begins, the first so many times.
fn interrupted(folder: &Path, signal: &str, times: u32) -> ProcessGuard {
    let path = folder.join("supervisor");
    let script = format!(
        "#!/bin/sh\nif test \"$1\" = __supervise; then\n  echo >> \"$0.log\"\n  \
         test $(wc -l < \"$0.log\") -gt {times} || kill -{signal} $$\nfi\nexec '{}' \"$@\"\n",
        probe().display()
    );
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a program");
    ProcessGuard::new(path)
}

#[tokio::test]
async fn a_signal_in_the_moment_of_the_start_does_not_fail_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    for (signal, times) in [("TERM", 1), ("HUP", 2)] {
        let process_guard = interrupted(folder.path(), signal, times);
        let mut command = Command::new("sh");
        command.args(["-c", "echo run >> runs; exit 7"]).current_dir(folder.path());
        let (kept, mut ending) =
            kept::wrap(&command, &process_guard).expect("a command").spawn().expect("a start");
        assert_eq!(ending.wait().await.and_then(|exit| exit.code), Some(7));
        kept.release();
        let runs = std::fs::read_to_string(folder.path().join("runs")).expect("it ran");
        assert_eq!(runs, "run\n", "{signal}: once");
        std::fs::remove_file(folder.path().join("runs")).expect("removed");
        std::fs::remove_file(folder.path().join("supervisor.log")).expect("removed");
    }
}

#[tokio::test]
async fn a_supervisor_that_signals_end_again_and_again_is_told_as_that() {
    let folder = tempfile::tempdir().expect("a folder");
    for (signal, told) in [("TERM", "signal 15"), ("KILL", "signal 9")] {
        let process_guard = interrupted(folder.path(), signal, 99);
        let error = kept::wrap(&Command::new("true"), &process_guard)
            .expect("a command")
            .spawn()
            .expect_err("no start");
        assert!(error.to_string().contains(told), "{error}");
    }
    let tries = std::fs::read_to_string(folder.path().join("supervisor.log")).expect("a log").len();
    assert_eq!(tries, 3 + 1, "a killed one may have begun");
}

#[test]
fn a_command_ends_with_a_supervisor_that_is_killed() {
    let mut keeper = Keeper::start("setsid sleep 1000 & echo child $!; echo command $$; wait");
    let (child, command) = (keeper.number("child"), keeper.number("command"));
    keeper.number("started");
    let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).expect("it runs");
    let supervisor = stat.rsplit(')').next().and_then(|it| it.split_whitespace().nth(1)?.parse().ok());
    kill_process(supervisor.and_then(Pid::from_raw).expect("a number"), Signal::KILL).expect("killed");
    assert_gone(command, "the command");
    assert_gone(child, "what it started");
}

#[tokio::test]
async fn what_a_command_tells_the_loader_does_not_concern_its_supervisor() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("sh");
    command.args(["-c", "exec /usr/bin/env"]).env("LD_PRELOAD", "/nowhere/evil.so").env("PLAIN", "1");
    let said = folder.path().join("said");
    let mut wrapped = kept::wrap(&command, &ProcessGuard::new(probe())).expect("a command");
    let file = std::fs::File::create(&said).expect("a file");
    wrapped.command.stdout(file.try_clone().expect("a copy")).stderr(file);
    let (kept, mut ending) = wrapped.spawn().expect("a start");
    assert_eq!(ending.wait().await.and_then(|exit| exit.code), Some(0));
    kept.release();
    let said = std::fs::read_to_string(said).expect("text");
    assert_eq!(said.matches("cannot be preloaded").count(), 2, "sh and env: {said}");
    assert!(said.contains("\nLD_PRELOAD=/nowhere/evil.so\n") && said.contains("\nPLAIN=1\n"), "{said}");
    assert!(!said.contains("ACP_SUPERVISE_"), "{said}");
}
