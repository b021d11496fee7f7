//! Real child processes, without a supervisor.
#![cfg(target_os = "linux")]

mod common;

use std::time::{Duration, Instant};

use acp_link::child::{SpawnError, SpawnOptions, Stderr, StopStage, spawn};
use acp_link::{LinkEnd, LinkSettings};
use acp_rpc::Line;
use acp_testkit::live::assert_gone;
use common::{LONG, next, probe, sh};

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn an_echo_answers_and_ends_with_its_input() {
    let (mut link, mut child) = spawn(&SpawnOptions::new("cat")).unwrap();
    link.tx.send("hello").await.unwrap();
    assert_eq!(next(&mut link).await, "hello");
    let exit = child.shutdown(LONG).await;
    assert_eq!((exit.code, exit.signal, exit.stage), (Some(0), None, StopStage::Eof));
    assert_eq!(link.rx.recv().await, None);
    assert_eq!(link.rx.end(), Some(&LinkEnd::Eof));
    let error = link.tx.send("too late").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot send: our side has already ended its output");
}

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let (_link, mut child) = spawn(&sh("exit 7")).unwrap();
    let exit = child.wait().await;
    assert_eq!((exit.code, exit.signal, exit.stage), (Some(7), None, StopStage::Unasked));
    let (_link, mut child) = spawn(&sh("kill -USR1 $$")).unwrap();
    let exit = child.wait().await;
    assert_eq!((exit.code, exit.signal), (None, Some(10)));
    assert_eq!(exit.to_string(), "killed by signal 10");
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let error = spawn(&SpawnOptions::new("no-such-agent-anywhere")).unwrap_err();
    assert!(matches!(error, SpawnError::Program { .. }));
    let text = error.to_string();
    assert!(text.contains("\"no-such-agent-anywhere\"") && text.contains("is it installed"), "{text}");
    let mut nowhere = SpawnOptions::new("cat");
    nowhere.cwd = Some("/no/such/folder".into());
    let text = spawn(&nowhere).unwrap_err().to_string();
    assert_eq!(text, "cannot start agent \"cat\" in /no/such/folder: not a folder");
}

#[tokio::test]
async fn environment_and_folder_are_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = sh("pwd; echo \"$WORD ${HOME-none}\"");
    options.cwd = Some(folder.path().canonicalize().unwrap());
    options.env = vec![("WORD".into(), "here".into()), ("PATH".into(), std::env::var_os("PATH").unwrap())];
    options.env_clear = true;
    let (mut link, _child) = spawn(&options).unwrap();
    assert_eq!(next(&mut link).await, folder.path().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(next(&mut link).await, "here none");
}

#[tokio::test]
async fn who_ignores_the_end_of_input_is_terminated() {
    // A busy machine may take longer than the grace to end it; with grace enough it is never killed.
    for grace in [SHORT, 10 * SHORT, LONG] {
        let (mut link, mut child) = spawn(&sh("echo up; exec sleep 1000")).unwrap();
        assert_eq!(next(&mut link).await, "up");
        let exit = child.shutdown(grace).await;
        if exit.stage == StopStage::Term {
            assert_eq!(exit.signal, Some(15));
            return;
        }
    }
    panic!("it was killed instead");
}

#[tokio::test]
async fn who_ignores_the_signal_too_is_killed() {
    let (mut link, mut child) = spawn(&sh("trap '' TERM; echo up; while :; do sleep 1000; done")).unwrap();
    assert_eq!(next(&mut link).await, "up");
    let exit = child.shutdown(SHORT).await;
    assert_eq!((exit.signal, exit.stage), (Some(9), StopStage::Kill));
}

#[tokio::test]
async fn what_stays_in_the_group_is_killed_and_named() {
    let (mut link, mut child) = spawn(&sh("sleep 1000 & echo $!; read line; exit 3")).unwrap();
    let left: u32 = next(&mut link).await.parse().unwrap();
    // It bears the shell's name until it is the program.
    let deadline = Instant::now() + LONG;
    while std::fs::read_to_string(format!("/proc/{left}/comm")).unwrap() != "sleep\n" {
        assert!(Instant::now() < deadline, "it is no sleep");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    link.tx.send("go").await.unwrap();
    let exit = child.wait().await;
    assert_eq!(exit.code, Some(3));
    assert_eq!(exit.survivors.iter().map(|it| (it.pid, &*it.name)).collect::<Vec<_>>(), [(left, "sleep")]);
    assert_gone(left, "what the agent left behind");
}

#[tokio::test]
async fn a_dropped_child_is_killed() {
    let (mut link, child) = spawn(&sh("echo $$; exec sleep 1000")).unwrap();
    let pid: u32 = next(&mut link).await.parse().unwrap();
    assert_eq!(pid, child.pid());
    drop(child);
    assert_eq!(link.rx.recv().await, None);
    assert_gone(pid, "the agent");
}

#[tokio::test]
async fn the_end_of_standard_error_is_kept() {
    let mut options = sh("i=0; while [ $i -lt 2000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; exit 1");
    options.stderr = Stderr::Keep(100);
    let (_link, mut child) = spawn(&options).unwrap();
    child.wait().await;
    let tail = child.stderr_tail();
    assert!(tail.ends_with("line 1998\nline 1999\n") && tail.len() == 100, "{tail}");
    assert_eq!(child.stderr_total(), (0..2000).map(|i| format!("line {i}\n").len() as u64).sum::<u64>());
}

#[tokio::test]
async fn a_child_that_no_longer_reads_is_an_error_not_a_hang() {
    let (mut link, mut child) = spawn(&sh("exec <&-; echo closed; sleep 1000")).unwrap();
    assert_eq!(next(&mut link).await, "closed");
    let error = loop {
        match link.tx.send("x".repeat(1000)).await {
            Ok(()) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.to_string(), "cannot send: the other side no longer reads (broken pipe)");
    child.kill();
    child.wait().await;
}

#[tokio::test]
async fn output_can_end_before_input() {
    let (mut link, mut child) = spawn(&sh("echo last; exec >&-; read line; exit ${line}")).unwrap();
    assert_eq!(next(&mut link).await, "last");
    assert_eq!(link.rx.recv().await, None);
    link.tx.send("9").await.unwrap();
    assert_eq!(child.wait().await.code, Some(9));
}

#[tokio::test]
async fn bad_lines_are_values_and_the_next_one_is_whole() {
    let mut options =
        sh(r"printf '\377\n\n\000\n'; head -c 50000000 /dev/zero | tr '\0' x; printf '\nnext\ncut \303'");
    options.wire = LinkSettings { line_limit: 1_000_000, ..LinkSettings::default() };
    let (mut link, _child) = spawn(&options).unwrap();
    let mut lines = Vec::new();
    while let Some(arrival) = link.rx.recv().await {
        lines.push(arrival.line);
    }
    let (Line::Oversized { len, head }, 6) = (&lines[3], lines.len()) else { panic!("{lines:?}") };
    assert_eq!((*len, &head[..4]), (50_000_000, &b"xxxx"[..]));
    assert_eq!(lines[0], Line::NotUtf8((&b"\xff"[..]).into()));
    assert_eq!(lines[1], Line::Text("".into()));
    assert_eq!(lines[2], Line::Text("\0".into()));
    assert_eq!(lines[4], Line::Text("next".into()));
    assert_eq!(lines[5], Line::NotUtf8((&b"cut \xc3"[..]).into()));
}

#[tokio::test]
async fn a_slow_reader_loses_nothing_and_stops_the_writer() {
    let count = 20_000;
    let options = SpawnOptions::new(probe()).args(["flood", "20000"]);
    let (mut link, mut child) = spawn(&options).unwrap();
    let tx = link.tx.clone();
    let sending = tokio::spawn(async move {
        for index in 0..count {
            tx.send(format!("{index:0200}")).await.unwrap();
        }
    });
    for index in 0..count {
        if index % 5000 == 0 {
            // The writer meanwhile fills every buffer on the way and waits.
            tokio::time::sleep(SHORT).await;
        }
        assert_eq!(next(&mut link).await, format!("{index:0200}"));
    }
    assert_eq!(next(&mut link).await, format!("seen {count}"));
    sending.await.unwrap();
    assert!(child.wait().await.success());
}

#[tokio::test]
async fn two_that_burst_before_they_read_do_not_deadlock() {
    let (mut link, mut child) = spawn(&SpawnOptions::new(probe()).args(["flood", "10000"])).unwrap();
    let mut unsent = (0..10_000).map(|index| format!("{index:0200}")).peekable();
    let mut seen = 0;
    let last = loop {
        // Sending is an arm of its own: the loop receives while the queue is full.
        tokio::select! {
            room = link.tx.ready(), if unsent.peek().is_some() => {
                room.unwrap();
                while let Some(line) = unsent.peek() {
                    if link.tx.try_send(line.as_bytes()).is_err() { break }
                    unsent.next();
                }
            }
            arrival = link.rx.recv() => match arrival {
                Some(arrival) if arrival.line.bytes().starts_with(b"seen") => break arrival.line,
                Some(_) => seen += 1,
                None => panic!("ended after {seen}"),
            }
        }
    };
    assert_eq!((seen, last), (10_000, Line::Text("seen 10000".into())));
    assert!(child.wait().await.success());
}

#[tokio::test]
async fn one_write_per_frame_on_request() {
    let mut options = SpawnOptions::new("cat");
    options.wire.flush_each = true;
    let (mut link, _child) = spawn(&options).unwrap();
    for index in 0..100 {
        link.tx.send(format!("{index}")).await.unwrap();
    }
    for index in 0..100 {
        assert_eq!(next(&mut link).await, format!("{index}"));
    }
}
