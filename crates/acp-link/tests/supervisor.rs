//! No descendant survives, whatever it did to get away and however we end.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child as Process, Command, Stdio};
use std::time::Duration;

use acp_link::child::{SpawnError, SpawnOptions, StopStage, spawn};
use acp_testkit::live::{assert_gone, is_running};
use common::{LONG, next, probe, sh};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// An agent whose helper forked twice, started a session of its own, and ignores every polite signal.
const RUNAWAY: &str = r#"
(setsid sh -c 'trap "" TERM HUP INT; echo runaway $$; exec sleep 1000' &)
read line
"#;

fn supervised(mut options: SpawnOptions) -> SpawnOptions {
    options.supervisor = Some(probe());
    options
}

fn number(line: &str) -> u32 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_supervised_agent_looks_like_any_other() {
    let (mut link, mut child) = spawn(&supervised(sh("echo $$; cat; exit 7"))).unwrap();
    assert_eq!(number(&next(&mut link).await), child.pid(), "the pid is the agent's own");
    link.tx.send("through").await.unwrap();
    assert_eq!(next(&mut link).await, "through");
    let exit = child.shutdown(LONG).await;
    assert_eq!((exit.code, exit.signal, exit.stage), (Some(7), None, StopStage::Eof));
    assert_eq!(exit.survivors, []);
}

#[tokio::test]
async fn its_signal_is_passed_on_as_a_signal() {
    let (_link, mut child) = spawn(&supervised(sh("kill -SEGV $$"))).unwrap();
    let exit = child.wait().await;
    assert_eq!((exit.code, exit.signal), (None, Some(11)));
}

#[tokio::test]
async fn an_agent_that_ends_at_once_still_says_how() {
    for _ in 0..50 {
        let (_link, mut child) = spawn(&supervised(SpawnOptions::new("false"))).unwrap();
        let exit = child.wait().await;
        assert_eq!((exit.code, exit.signal), (Some(1), None));
    }
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let error = spawn(&supervised(SpawnOptions::new("no-such-agent-anywhere"))).unwrap_err();
    assert!(matches!(error, SpawnError::Program { .. }), "{error}");
    assert!(error.to_string().contains("is it installed"), "{error}");
    let mut options = SpawnOptions::new("cat");
    options.supervisor = Some("/no/such/supervisor".into());
    let error = spawn(&options).unwrap_err();
    assert!(matches!(error, SpawnError::Supervisor { .. }), "{error}");
    options.supervisor = Some("/bin/true".into());
    let error = spawn(&options).unwrap_err().to_string();
    assert!(error.contains("is it a program with a supervisor in it?"), "{error}");
}

#[tokio::test]
async fn a_runaway_is_killed_after_the_agent_and_named() {
    let (mut link, mut child) = spawn(&supervised(sh(RUNAWAY))).unwrap();
    let runaway = number(&next(&mut link).await);
    let exit = child.shutdown(LONG).await;
    assert_eq!((exit.code, exit.stage), (Some(1), StopStage::Eof));
    assert_eq!(exit.survivors.iter().map(|it| it.pid).collect::<Vec<_>>(), [runaway]);
    assert!(["sleep", "sh"].contains(&&*exit.survivors[0].name), "{exit}");
    assert!(!is_running(runaway));
}

#[tokio::test]
async fn a_helper_that_ends_with_the_agent_is_no_survivor() {
    // It ends when its own input does, a moment after the agent.
    let mut options = supervised(sh("(cat <&3 >/dev/null &) 3<&0; echo up; read x"));
    options.linger = LONG;
    let (mut link, mut child) = spawn(&options).unwrap();
    assert_eq!(next(&mut link).await, "up");
    let exit = child.shutdown(LONG).await;
    assert_eq!(exit.survivors, []);
}

#[tokio::test]
async fn a_stubborn_agent_goes_through_every_stage() {
    let script = "trap '' TERM; echo up; while :; do sleep 1000; done";
    let (mut link, mut child) = spawn(&supervised(sh(script))).unwrap();
    assert_eq!(next(&mut link).await, "up");
    let exit = child.shutdown(Duration::from_millis(50)).await;
    assert_eq!((exit.signal, exit.stage), (Some(9), StopStage::Kill));
}

#[tokio::test]
async fn termination_reaches_the_agent_through_the_supervisor() {
    let script = "trap 'echo told; exit 4' TERM; echo up; while :; do sleep 0.01; done";
    let (mut link, mut child) = spawn(&supervised(sh(script))).unwrap();
    assert_eq!(next(&mut link).await, "up");
    child.terminate();
    assert_eq!(next(&mut link).await, "told");
    let exit = child.wait().await;
    assert_eq!((exit.code, exit.stage), (Some(4), StopStage::Term));
}

#[tokio::test]
async fn killing_kills_the_runaway_too() {
    let (mut link, mut child) = spawn(&supervised(sh(RUNAWAY))).unwrap();
    let runaway = number(&next(&mut link).await);
    child.kill();
    let exit = child.wait().await;
    assert_eq!((exit.signal, exit.stage), (Some(9), StopStage::Kill));
    assert!(!is_running(runaway) && !is_running(child.pid()));
}

#[tokio::test]
async fn a_dropped_child_takes_the_runaway_with_it() {
    let (mut link, child) = spawn(&supervised(sh(RUNAWAY))).unwrap();
    let runaway = number(&next(&mut link).await);
    let agent = child.pid();
    drop(child);
    assert_gone(runaway, "the runaway");
    assert_gone(agent, "the agent");
}

#[tokio::test]
async fn an_agent_that_closes_its_output_is_seen_to() {
    let (mut link, mut child) = spawn(&supervised(sh("exec >&-; read line; exit 5"))).unwrap();
    assert_eq!(link.rx.recv().await, None, "the supervisor holds no copy");
    assert_eq!(child.shutdown(LONG).await.code, Some(5));
}

#[tokio::test]
async fn the_supervisor_outlives_the_thread_that_started_it() {
    // A parent-death signal comes when the starting thread ends, though the process goes on.
    let runtime = tokio::runtime::Handle::current();
    let thread = std::thread::spawn(move || {
        let _inside = runtime.enter();
        spawn(&supervised(SpawnOptions::new("cat"))).unwrap()
    });
    let (mut link, mut child) = thread.join().unwrap();
    for word in ["still", "there"] {
        link.tx.send(word).await.unwrap();
        assert_eq!(next(&mut link).await, word);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(child.shutdown(LONG).await.code, Some(0));
}

/// A program with a supervised agent in it, and the processes that must not survive it.
struct Parent {
    process: Process,
    agent: u32,
    runaway: u32,
}

impl Parent {
    fn start() -> Parent {
        let mut command = Command::new(probe());
        command.args(["parent", RUNAWAY]).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let agent = number(&lines.next().unwrap().unwrap());
        let runaway = number(&lines.next().unwrap().unwrap());
        assert!(is_running(agent) && is_running(runaway));
        Parent { process, agent, runaway }
    }

    fn ends_and_nothing_survives(mut self) {
        self.process.wait().unwrap();
        assert_gone(self.agent, "the agent");
        assert_gone(self.runaway, "the runaway");
    }
}

#[tokio::test]
async fn an_agent_whose_supervisor_is_killed_is_killed_too() {
    let (mut link, mut child) = spawn(&supervised(sh("echo up; exec sleep 1000"))).unwrap();
    assert_eq!(next(&mut link).await, "up");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid())).unwrap();
    let supervisor: i32 =
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    let exit = child.wait().await;
    assert_eq!(exit.signal, Some(9), "the supervisor's own end is all that is known");
    assert_gone(child.pid(), "the agent");
}

#[test]
fn nothing_survives_when_we_are_killed() {
    let parent = Parent::start();
    kill_process(Pid::from_child(&parent.process), Signal::KILL).unwrap();
    parent.ends_and_nothing_survives();
}

#[test]
fn nothing_survives_when_our_group_is_killed() {
    let parent = Parent::start();
    kill_process_group(Pid::from_child(&parent.process), Signal::KILL).unwrap();
    parent.ends_and_nothing_survives();
}

#[test]
fn nothing_survives_an_interrupt_from_the_terminal() {
    let parent = Parent::start();
    kill_process_group(Pid::from_child(&parent.process), Signal::INT).unwrap();
    parent.ends_and_nothing_survives();
}
