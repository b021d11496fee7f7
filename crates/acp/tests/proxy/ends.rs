//! Many clients, and every way in which a conversation ends.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Barrier;

use acp_dialect::Dialect;
use serde_json::Value;

use crate::talker::Talker;
use crate::{ACP, Place, Proxy, rest, wait};

#[test]
fn many_clients_have_an_agent_each() {
    const CLIENTS: usize = 12;
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1")]);
    let folder = place.path.display().to_string();
    let together = Barrier::new(CLIENTS + 1);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (proxy, folder, together) = (&proxy, &folder, &together);
            scope.spawn(move || {
                // Every form at once.
                let dialect = Dialect::ALL[number % Dialect::ALL.len()];
                // A go client cannot be told from a v1 client.
                let dialect = if dialect == Dialect::GO { Dialect::V1 } else { dialect };
                let mut talker = Talker::new(dialect, proxy.connect(), folder);
                talker.initialize();
                talker.new_session();
                together.wait();
                together.wait();
                let turn = talker.prompt(&format!("Say 'I am number {number}'"));
                talker.result(turn);
                assert!(talker.text.contains(&format!("I am number {number}")), "{}", talker.text);
                let others = talker.wire.iter().filter(|(_, line)| line.contains("I am number")).count();
                let own = talker
                    .wire
                    .iter()
                    .filter(|(_, line)| line.contains(&format!("I am number {number}")))
                    .count();
                assert_eq!(own, others, "another client's words arrived");
            });
        }
        together.wait();
        assert_eq!(place.processes().len(), 2 * CLIENTS, "an agent and its supervisor for each client");
        together.wait();
    });
    place.wait_for_processes(0);
    assert_eq!(proxy.stop().0, Some(0));
}

#[test]
fn a_client_that_goes_away_in_the_middle_of_a_turn_leaves_no_process() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1")]);
    for dialect in [Dialect::V1, Dialect::DELTA] {
        let mut talker = Talker::new(dialect, proxy.connect(), &place.path.display().to_string());
        talker.initialize();
        talker.new_session();
        talker.prompt("Count slowly to 900");
        while talker.chunks == 0 {
            talker.hear();
        }
        assert_eq!(place.processes().len(), 2);
        drop(talker);
        place.wait_for_processes(0);
    }
    assert_eq!(proxy.stop().0, Some(0));
}

#[test]
fn an_agent_that_ignores_the_end_of_its_input_is_ended_all_the_same() {
    let place = Place::new();
    // The mark of this place is in the command line of the shell and of its child.
    let stubborn = format!("sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' {}", place.file("state"));
    let proxy = Proxy::tcp(&place, &["--command", &stubborn, "--client-dialect", "v1", "--grace", "200ms"]);
    let stream = proxy.connect();
    place.wait_for_processes(2);
    drop(stream);
    place.wait_for_processes(0);
}

#[test]
fn a_proxy_that_is_told_to_stop_ends_everything_and_exits_with_zero() {
    for signal in ["-TERM", "-INT"] {
        let place = Place::new();
        let mut proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1"), "--drain", "0s"]);
        let mut talkers: Vec<Talker> = [Dialect::V1, Dialect::DELTA, Dialect::PROBE]
            .into_iter()
            .map(|dialect| {
                let mut talker = Talker::new(dialect, proxy.connect(), &place.path.display().to_string());
                talker.initialize();
                talker.new_session();
                talker
            })
            .collect();
        let turn = talkers[0].prompt("Count slowly to 900");
        while talkers[0].chunks == 0 {
            talkers[0].hear();
        }
        proxy.signal(signal);
        let answer = talkers[0].result(turn);
        assert_eq!(answer["stopReason"], "cancelled", "{answer}");
        for talker in &mut talkers {
            while talker.line().is_some() {}
        }
        assert_eq!(wait(&mut proxy.process), Some(0), "{}", proxy.said());
        assert_eq!(place.processes(), Vec::<String>::new());
    }
}

#[test]
fn a_proxy_that_is_told_twice_waits_for_nothing_and_leaves_no_process() {
    let place = Place::new();
    let mut proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1"), "--drain", "10m"]);
    let mut talker = Talker::new(Dialect::V1, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    talker.new_session();
    talker.prompt("Count slowly to 900");
    while talker.chunks == 0 {
        talker.hear();
    }
    proxy.signal("-INT");
    // The first one has been heard when nobody new is let in.
    let began = std::time::Instant::now();
    while std::net::TcpStream::connect(proxy.address).is_ok() {
        assert!(began.elapsed() < crate::PATIENCE, "it still listens");
    }
    // What comes right after the first one is the same wish.
    while proxy.process.try_wait().expect("its state").is_none() {
        proxy.signal("-INT");
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(began.elapsed() < crate::PATIENCE, "it still waits");
    }
    assert_eq!(wait(&mut proxy.process), Some(3), "{}", proxy.said());
    assert!(proxy.said().contains("told to stop a second time"), "{}", proxy.said());
    place.wait_for_processes(0);
}

#[test]
fn a_proxy_on_standard_streams_that_is_told_to_stop_leaves_no_process() {
    let place = Place::new();
    let mut process = Command::new(ACP)
        .args(["proxy", "--client-dialect", "v1", "--command", &place.mock("--dialect v1")])
        .env("XDG_STATE_HOME", &place.path)
        .current_dir(&place.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("acp runs");
    place.wait_for_processes(2);
    let done = Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
    assert!(done.is_ok_and(|status| status.success()));
    assert_eq!(wait(&mut process), Some(0));
    place.wait_for_processes(0);
}

#[test]
fn a_killed_proxy_leaves_no_process_either() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--client-dialect", "v1", "--command", &place.mock("--dialect v1")]);
    let _stream = proxy.connect();
    place.wait_for_processes(2);
    proxy.signal("-KILL");
    place.wait_for_processes(0);
}

#[test]
fn a_client_is_told_when_its_agent_is_gone() {
    let place = Place::new();
    for (dialect, agent, hello) in [
        ("v1", "probe", r#"{"jsonrpc":"2.0","id":41,"method":"initialize","params":{"protocolVersion":1}}"#),
        ("v1", "v1", r#"{"jsonrpc":"2.0","id":41,"method":"initialize","params":{"protocolVersion":1}}"#),
        (
            "probe",
            "v1",
            r#"{"jsonrpc":"2.0","id":41,"method":"initialize","params":{"protocolVersion":"1"}}"#,
        ),
    ] {
        let args =
            ["--command", "sh -c 'read line; exit 3'", "--client-dialect", dialect, "--dialect", agent];
        let proxy = Proxy::tcp(&place, &args);
        let mut stream = proxy.connect();
        writeln!(stream, "{hello}").expect("a connection");
        let said = rest(&stream);
        let answer: Value = serde_json::from_str(&said).expect("one answer, then the end");
        assert_eq!(answer["id"], 41);
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("the agent is gone"), "{answer}");
        proxy.wait_for_words("the agent ended: exit code 3");
        drop(stream);
        assert_eq!(proxy.stop().0, Some(0), "the proxy itself goes on");
    }
}

#[test]
fn what_an_agent_said_before_it_died_is_in_the_log_and_cannot_steer_a_terminal() {
    let place = Place::new();
    let agent = place.shell("printf 'first\\n\\n\\033[31mno key\\n' >&2; read line; exit 3\n");
    let proxy = Proxy::tcp(&place, &["--command", &agent]);
    let mut stream = proxy.connect();
    writeln!(stream, r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":1}}}}"#)
        .expect("a connection");
    let told = rest(&stream);
    assert!(!told.contains("no key"), "that is the operator's: {told}");
    let words =
        "the agent ended: exit code 3; its last words on standard error: first | \u{fffd}[31mno key\n";
    proxy.wait_for_words(words);
}

#[test]
fn an_agent_that_cannot_start_is_an_answer() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", "no-such-agent --acp"]);
    let mut stream = proxy.connect();
    writeln!(
        stream,
        r#"{{"jsonrpc":"2.0","id":"a","method":"initialize","params":{{"protocolVersion":1}}}}"#
    )
    .expect("a connection");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("an answer");
    let answer: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(answer["id"], "a");
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("cannot start agent \"no-such-agent\""), "{answer}");
    assert_eq!(rest(&stream), "");
}
