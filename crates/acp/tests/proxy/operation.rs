//! Operating a proxy: health, numbers, logs, doors, limits, an orderly end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use acp_dialect::Dialect;
use serde_json::{Value, json};

use crate::ops_page::{get, numbers};
use crate::talker::Talker;
use crate::{PATIENCE, Place, Proxy, rest, wait};

fn talker(place: &Place, proxy: &Proxy) -> Talker {
    let mut talker = Talker::new(Dialect::V1, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    talker
}

#[test]
fn health_readiness_and_numbers_are_served() {
    let place = Place::new();
    let args = ["--command", &place.mock("--dialect v1"), "--ops", "127.0.0.1:0", "--drain", "60s"];
    let mut proxy = Proxy::tcp(&place, &args);
    let ops = proxy.ops.expect("an address");
    assert_eq!(get(ops, "/healthz"), (200, "alive\n".to_owned()));
    assert_eq!(get(ops, "/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(get(ops, "/other").0, 404);
    let mut talker = talker(&place, &proxy);
    talker.new_session();
    let turn = talker.prompt("Say 'hello'");
    talker.result(turn);
    let found = numbers(ops);
    for (name, wanted) in [
        ("acp_proxy_connections", 1.0),
        ("acp_proxy_connections_total", 1.0),
        ("acp_proxy_sessions", 1.0),
        ("acp_proxy_sessions_total", 1.0),
        ("acp_proxy_turns_total{stop_reason=\"end_turn\"}", 1.0),
        ("acp_proxy_turns_running", 0.0),
        ("acp_proxy_lines_total{dir=\"c2a\"}", 3.0),
        ("acp_journal_healthy", 1.0),
        ("acp_proxy_ready", 1.0),
    ] {
        assert_eq!(found.get(name), Some(&wanted), "{name} in {found:#?}");
    }
    assert!(found["acp_proxy_bytes_total{dir=\"a2c\"}"] > 100.0);
    assert!(found["acp_journal_bytes_total"] > found["acp_proxy_bytes_total{dir=\"a2c\"}"]);
    // Told to stop in the middle of a turn: not ready, but alive, and the turn goes on.
    let turn = talker.prompt("Count slowly to 900");
    let before = talker.chunks;
    while talker.chunks == before {
        talker.hear();
    }
    proxy.signal("-TERM");
    let began = Instant::now();
    while get(ops, "/readyz").0 != 503 {
        assert!(began.elapsed() < PATIENCE);
    }
    assert!(get(ops, "/readyz").1.contains("shutting down"));
    assert_eq!(get(ops, "/healthz").0, 200);
    // New work is refused, the old goes on until it is cancelled.
    let next = talker.ask("session/new", json!({ "cwd": place.path, "mcpServers": [] }));
    let answer = talker.answer(next);
    assert!(answer["error"]["message"].as_str().is_some_and(|why| why.contains("shutting down")), "{answer}");
    let began = Instant::now();
    while TcpStream::connect(proxy.address).is_ok() {
        assert!(began.elapsed() < PATIENCE, "somebody new is let in");
    }
    talker.cancel();
    assert_eq!(talker.result(turn)["stopReason"], "cancelled");
    assert_eq!(wait(&mut proxy.process), Some(0), "{}", proxy.said());
    place.wait_for_processes(0);
}

#[test]
fn the_log_is_one_object_per_line_and_names_the_trace() {
    let place = Place::new();
    let args = ["--command", &place.mock("--dialect v1"), "--log-format", "json", "--policy", "read"];
    let proxy = Proxy::tcp(&place, &args);
    let mut talker = talker(&place, &proxy);
    talker.new_session();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let params = json!({
        "sessionId": talker.session, "_meta": { "traceparent": trace },
        "prompt": [{ "type": "text", "text": "Ask for permission" }],
    });
    let turn = talker.ask("session/prompt", params);
    talker.result(turn);
    drop(talker);
    place.wait_for_processes(0);
    let (code, said) = proxy.stop();
    assert_eq!(code, Some(0));
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(
        lines
            .iter()
            .all(|line| line["ts"].is_string() && line["level"].is_string() && line["message"].is_string())
    );
    let traced: Vec<&str> = lines
        .iter()
        .filter(|line| line["traceparent"] == trace && line["conversation"] == 1)
        .filter_map(|line| line["message"].as_str()?.split(" (").next())
        .collect();
    assert_eq!(traced, ["turn begins", "turn ends: end_turn"]);
    let decided = lines.iter().find(|line| line["verdict"].is_string()).expect("a decision");
    assert_eq!(decided["verdict"], "deny");
    assert!(decided["reason"].as_str().is_some_and(|reason| reason.contains("policy read")), "{decided}");
}

fn web_socket(proxy: &Proxy, headers: &str) -> (u16, BufReader<TcpStream>) {
    let mut stream = proxy.connect();
    write!(
        stream,
        "GET /acp HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    )
    .expect("asked");
    let mut reader = BufReader::new(stream);
    let mut status = String::new();
    reader.read_line(&mut status).expect("a status");
    (status.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), reader)
}

#[test]
fn pages_of_other_origins_cannot_open_a_web_socket() {
    let place = Place::new();
    let talk = place.path.join("talk.ndjson");
    let hello =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } });
    let entry = json!({ "t": 0, "dir": "c2a", "line": hello.to_string() });
    std::fs::write(&talk, format!("{entry}\n")).expect("a recording");
    let (mock, talk) = (place.mock("--dialect v1"), talk.display().to_string());
    let good = ["--allow-origin", "https://good.example"];
    let proxy = ["proxy", "--listen", "ws://127.0.0.1:0", "--command", &mock];
    let served: [(&[&str], bool); 3] = [
        (&[&proxy[..], &good].concat(), true),
        (&[&["mock", "--port", "0", "--websocket"], &good[..]].concat(), true),
        (&["replay", &talk, "--as-agent", "--listen", "ws://127.0.0.1:0"], false),
    ];
    for (args, lets_in) in served {
        let server = Proxy::start(&place, place.acp(args));
        assert_eq!(web_socket(&server, "").0, 101, "a program that is no browser: {args:?}");
        let (status, _) = web_socket(&server, "Origin: https://good.example\r\n");
        assert_eq!(status == 101, lets_in, "{args:?}");
        let (status, mut reader) = web_socket(&server, "Origin: https://evil.example\r\n");
        let mut text = String::new();
        let _ = reader.read_to_string(&mut text);
        assert_eq!(status, 403, "{args:?}");
        assert!(text.contains("may not connect"), "{text}");
    }
}

#[test]
fn the_trace_of_a_connection_is_given_to_its_requests() {
    let place = Place::new();
    let script = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"authMethods":[]}}'
read -r line; printf '%s\n' "$line" >seen.txt; cat >/dev/null
"#;
    let agent = place.shell(script);
    let proxy = Proxy::listen(&place, "ws", &["--command", &agent]);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (status, mut reader) = web_socket(&proxy, &format!("traceparent: {trace}\r\n"));
    assert_eq!(status, 101);
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
    ] {
        // A masked text frame; the mask is zero.
        let mut frame = vec![0x81, 0x80 | u8::try_from(line.len()).expect("short"), 0, 0, 0, 0];
        frame.extend_from_slice(line.as_bytes());
        reader.get_mut().write_all(&frame).expect("sent");
    }
    let began = Instant::now();
    loop {
        let seen = std::fs::read_to_string(place.path.join("seen.txt")).unwrap_or_default();
        if seen.ends_with('\n') {
            let wanted = format!(
                r#"{{"jsonrpc":"2.0","id":2,"method":"session/new","params":{{"_meta":{{"traceparent":"{trace}"}},"cwd":"/","mcpServers":[]}}}}"#
            );
            assert_eq!(seen.trim_end(), wanted);
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{}", proxy.said());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_token_is_demanded_at_every_door_that_others_can_reach() {
    let place = Place::new();
    for listen in ["tcp://0.0.0.0:0", "ws://0.0.0.0:0/acp"] {
        let output = place.acp(&["proxy", "--agent", "mock", "--listen", listen]).output().expect("acp runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--listen-token"), "{said}");
    }
    let empty = ["proxy", "--agent", "mock", "--listen", "tcp://127.0.0.1:0", "--listen-token", ""];
    let output = place.acp(&empty).output().expect("acp runs");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    for transport in ["tcp", "ws"] {
        let mut command = place.acp(&["proxy", "--listen", &format!("{transport}://0.0.0.0:0")]);
        command.args(["--command", &place.mock("--dialect v1")]).env("ACP_LISTEN_TOKEN", "s3cret");
        let mut proxy = Proxy::start(&place, command);
        proxy.address.set_ip([127, 0, 0, 1].into());
        let address = format!("{transport}://{}", proxy.address);
        let prompt = |token: Option<&str>| {
            let mut command = place.acp(&["prompt", "Say 'let in'", "--connect", &address]);
            if let Some(token) = token {
                command.env("ACP_CONNECT_TOKEN", token);
            }
            command.output().expect("acp runs")
        };
        let good = prompt(Some("s3cret"));
        assert!(
            String::from_utf8_lossy(&good.stdout).contains("let in"),
            "{}",
            String::from_utf8_lossy(&good.stderr)
        );
        for bad in [None, Some("wrong")] {
            let refused = prompt(bad);
            let said = String::from_utf8_lossy(&refused.stderr);
            assert!(!refused.status.success() && said.contains("token"), "{transport} {bad:?}: {said}");
            assert!(transport == "ws" || said.contains("ACP_CONNECT_TOKEN"), "{bad:?}: {said}");
        }
        for args in [
            &["comply", "--test", "init.version-echo", "--allow-incomplete"][..],
            &["harness", "--scenarios", "happy-path"],
        ] {
            let judge = |token: &str| {
                let mut command = place.acp(args);
                command.args(["--connect", &address]).env("ACP_CONNECT_TOKEN", token);
                command.output().expect("acp runs")
            };
            let said = |output: &std::process::Output| {
                format!(
                    "{}{}",
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                )
            };
            let good = judge("s3cret");
            assert_eq!(good.status.code(), Some(0), "{transport} {args:?}: {}", said(&good));
            for token in ["", "wrong"] {
                let refused = judge(token);
                let said = said(&refused);
                assert_eq!(refused.status.code(), Some(3), "{transport} {args:?} {token:?}: {said}");
                assert!(!said.contains("NOT CONFORMANT") && said.contains("token"), "{said}");
            }
        }
        if transport == "tcp" {
            let mut stream = proxy.connect();
            writeln!(stream, r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{}}}}"#)
                .expect("sent");
            let answer: Value = serde_json::from_str(&rest(&stream)).expect("JSON");
            assert_eq!(answer["error"]["code"], -32600, "no login of the agent helps: {answer}");
        }
        assert!(!proxy.said().contains("s3cret"));
    }
}

#[test]
fn more_clients_than_allowed_are_told_so() {
    let place = Place::new();
    let args = ["--command", &place.mock("--dialect v1"), "--max-connections", "1", "--ops", "127.0.0.1:0"];
    let proxy = Proxy::tcp(&place, &args);
    let first = talker(&place, &proxy);
    let mut second = proxy.connect();
    writeln!(
        second,
        r#"{{"jsonrpc":"2.0","id":"me","method":"initialize","params":{{"protocolVersion":1}}}}"#
    )
    .expect("sent");
    let answer: Value = serde_json::from_str(&rest(&second)).expect("one answer, then the end");
    assert_eq!(answer["id"], "me");
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("at most 1 connections") && why.contains("--max-connections"), "{answer}");
    assert_eq!(numbers(proxy.ops.expect("an address"))["acp_proxy_connections_refused_total"], 1.0);
    drop(first);
    place.wait_for_processes(0);
    let began = Instant::now();
    loop {
        let mut third = proxy.connect();
        writeln!(
            third,
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":1}}}}"#
        )
        .expect("sent");
        let mut line = String::new();
        BufReader::new(&third).read_line(&mut line).expect("a line");
        if line.contains("\"result\"") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{line}");
    }
}

#[test]
fn a_line_longer_than_allowed_ends_the_conversation_with_the_reason() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1"), "--max-line", "2KiB"]);
    let mut talker = talker(&place, &proxy);
    let line =
        json!({ "jsonrpc": "2.0", "id": 9, "method": "session/new", "params": { "x": "y".repeat(5000) } });
    talker.send(&line.to_string());
    let answer: Value = serde_json::from_str(&talker.line().expect("an answer")).expect("JSON");
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("bytes is too long"), "{answer}");
    assert_eq!(talker.line(), None);
    place.wait_for_processes(0);
}

#[test]
fn a_line_that_is_too_long_is_told_to_the_client_and_kept_over_every_transport() {
    for transport in ["tcp", "ws"] {
        let place = Place::new();
        let mock = place.mock("--dialect v1");
        let proxy = Proxy::listen(&place, transport, &["--command", &mock, "--max-line", "64KiB"]);
        let address = format!("{transport}://{}", proxy.address);
        let prompted =
            place.acp(&["prompt", &"x".repeat(70_000), "--connect", &address]).output().expect("acp runs");
        let said = String::from_utf8_lossy(&prompted.stderr).into_owned();
        assert!(!prompted.status.success(), "{transport}: {said}");
        assert!(said.contains("bytes is too long to be passed on"), "{transport}: {said}");
        proxy.wait_for_words("the client was refused: a line of ");
        assert_eq!(proxy.stop().0, Some(0), "{transport}");
        let (found, _) = acp_proxy::journal::conversations(&place.journal(), None).expect("a journal");
        let outcome = found[0].closed.as_ref().map(|closed| closed.outcome.as_str()).unwrap_or_default();
        assert!(outcome.contains("the client was refused: a line of "), "{transport}: {outcome}");
    }
}

#[test]
fn a_turn_that_ends_in_time_is_not_cancelled() {
    let place = Place::new();
    let mut proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1"), "--drain", "60s"]);
    let mut talker = talker(&place, &proxy);
    talker.new_session();
    let turn = talker.prompt("Count slowly to 20");
    while talker.chunks == 0 {
        talker.hear();
    }
    proxy.signal("-TERM");
    assert_eq!(talker.result(turn)["stopReason"], "end_turn");
    assert_eq!(talker.line(), None);
    assert_eq!(wait(&mut proxy.process), Some(0));
    assert_eq!(place.processes(), Vec::<String>::new());
}

#[test]
fn a_proxy_whose_agent_cannot_be_started_is_not_ready_until_it_can() {
    let place = Place::new();
    let agent = place.path.join("agent");
    let command = agent.display().to_string();
    let proxy = Proxy::tcp(&place, &["--command", &command, "--ops", "127.0.0.1:0"]);
    let ops = proxy.ops.expect("an address");
    let (status, words) = get(ops, "/readyz");
    assert_eq!(status, 503, "{words}");
    assert!(words.contains("cannot start agent") && words.contains(&command), "{words}");
    std::fs::write(&agent, format!("#!/bin/sh\nexec {}\n", place.mock("--dialect v1"))).expect("a file");
    let made = Command::new("chmod").arg("+x").arg(&agent).status();
    assert!(made.is_ok_and(|made| made.success()));
    let began = Instant::now();
    while get(ops, "/readyz").0 != 200 {
        assert!(began.elapsed() < PATIENCE, "{}", proxy.said());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    place.wait_for_processes(0);
    talker(&place, &proxy).new_session();
}

#[test]
fn an_agent_that_ends_by_itself_with_code_0_is_told_as_that() {
    let place = Place::new();
    let quits = "sh -c 'read line; exec >&-; read line; exit 0'";
    let proxy = Proxy::tcp(&place, &["--command", quits, "--client-dialect", "v1"]);
    let mut client = proxy.connect();
    let hello =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n";
    client.write_all(hello.as_bytes()).expect("written");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an end");
    let (_, said) = proxy.stop();
    assert!(said.contains("the agent ended by itself: exit code 0"), "{said}");
    let listed = place.acp(&["replay", "--list"]).output().expect("acp runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("the agent ended by itself") && !listed.contains("the client left"), "{listed}");
}

#[test]
fn a_journal_that_was_never_written_is_no_error() {
    let place = Place::new();
    let listed = place.acp(&["replay", "--list"]).output().expect("acp runs");
    let said = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert_eq!(listed.status.code(), Some(0), "{said}");
    assert!(said.contains("no conversations are recorded"), "{said}");
}

#[test]
fn half_of_the_access_to_nats_concerns_only_who_uses_nats() {
    let place = Place::new();
    let mut relay = place.acp(&["proxy", "--command", &place.mock("--dialect v1")]);
    let relay = relay.env("ACP_NATS_USER", "me").stdin(Stdio::null()).output().expect("acp runs");
    assert_eq!(relay.status.code(), Some(0), "{}", String::from_utf8_lossy(&relay.stderr));
    let mut wanted = place.acp(&["proxy", "--agent", "mock", "--nats", "nats://127.0.0.1:1"]);
    let wanted = wanted.env("ACP_NATS_USER", "me").stdin(Stdio::null()).output().expect("acp runs");
    assert_eq!(wanted.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wanted.stderr).contains("ACP_NATS_PASSWORD"));
}
