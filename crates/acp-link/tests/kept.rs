//! Nothing that comes of a kept command outlives us, whatever it did to get away.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{assert_gone, probe, runs};
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
        assert!(runs(child), "{script}");
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
    assert!(runs(away) && runs(near));
    keeper.process.stdin.as_mut().expect("its input").write_all(b"\n").expect("heard");
    keeper.number("released");
    assert_gone(near, "what is left of the group");
    assert!(runs(away), "a daemon is its user's");
    kill_process(Pid::from_raw(i32::try_from(away).expect("a pid")).expect("a pid"), Signal::KILL)
        .expect("killed");
}
