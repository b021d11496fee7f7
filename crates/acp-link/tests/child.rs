//! Real child processes.

use std::time::{Duration, Instant};

use acp_link::child::{Options, SpawnError, Stage, spawn};
use acp_link::{End, Link};
use acp_rpc::Line;

const GRACE: Duration = Duration::from_secs(20);

fn sh(script: &str) -> Options {
    Options::new("sh").args(["-c", script])
}

async fn next(link: &mut Link) -> String {
    let arrival = tokio::time::timeout(GRACE, link.rx.recv()).await.expect("a line in time").expect("a line");
    match arrival.line {
        Line::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
        other => panic!("not text: {other:?}"),
    }
}

#[tokio::test]
async fn an_echo_answers_and_ends_with_its_input() {
    let (mut link, mut child) = spawn(&Options::new("cat")).unwrap();
    link.tx.send("hello").await.unwrap();
    assert_eq!(next(&mut link).await, "hello");
    let exit = child.shutdown(GRACE).await;
    assert_eq!((exit.code, exit.signal, exit.stage), (Some(0), None, Stage::Eof));
    assert_eq!(link.rx.recv().await, None);
    assert_eq!(link.rx.end(), Some(&End::Eof));
}

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let (_link, mut child) = spawn(&sh("exit 7")).unwrap();
    let exit = child.wait().await;
    assert_eq!((exit.code, exit.signal, exit.stage), (Some(7), None, Stage::Unasked));
    let (_link, mut child) = spawn(&sh("kill -USR1 $$")).unwrap();
    let exit = child.wait().await;
    assert_eq!((exit.code, exit.signal), (None, Some(10)));
    assert_eq!(exit.to_string(), "killed by signal 10");
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let error = spawn(&Options::new("no-such-agent-anywhere")).unwrap_err();
    assert!(matches!(error, SpawnError::Program { .. }));
    let text = error.to_string();
    assert!(text.contains("\"no-such-agent-anywhere\"") && text.contains("is it installed"), "{text}");
}

#[tokio::test]
async fn who_ignores_the_end_of_input_is_terminated() {
    let (mut link, mut child) = spawn(&sh("echo up; exec sleep 1000")).unwrap();
    assert_eq!(next(&mut link).await, "up");
    let exit = child.shutdown(Duration::from_millis(50)).await;
    assert_eq!((exit.signal, exit.stage), (Some(15), Stage::Term));
}

#[tokio::test]
async fn who_ignores_the_signal_too_is_killed() {
    let (mut link, mut child) = spawn(&sh("trap '' TERM; echo up; while :; do sleep 1000; done")).unwrap();
    assert_eq!(next(&mut link).await, "up");
    let began = Instant::now();
    let exit = child.shutdown(Duration::from_millis(50)).await;
    assert_eq!((exit.signal, exit.stage), (Some(9), Stage::Kill));
    assert!(began.elapsed() < GRACE);
}
