//! What passes between two peers of the same form, and how much of it is held on the way.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::process::{Command, Stdio};
use std::time::Duration;

use acp_dialect::Dialect;

use crate::talker::Talker;
use crate::{ACP, Place, Proxy, lines_of};

/// Lines that a translation or a careless relay would change.
const ODD: &[&[u8]] = &[
    br#"{"jsonrpc":"2.0","id":1.0e0,"method":"x","params":{"n":1.000,"big":123456789012345678901234567890,"tiny":1E-400}}"#,
    br#"{ "params" : { "e" : "\u00e9\ud83d\ude00" , "unknown" : [ 1 , 2 ] } , "method" : "y" , "extra" : true , "jsonrpc" : "2.0" }"#,
    br#"{"jsonrpc":"2.0","id":7,"id":8,"result":null,"error":null}"#,
    br#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#,
    b"this is no JSON at all",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"bad \xff\xfe bytes\"}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"é😀\"}".as_bytes(),
];

fn echoed(args: &[&str]) {
    let place = Place::new();
    let mut all = vec!["--command", "cat", "--client-dialect", "v1"];
    all.extend(args);
    let proxy = Proxy::tcp(&place, &all);
    let mut stream = proxy.connect();
    let sent: Vec<u8> = ODD.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect();
    stream.write_all(&sent).expect("a connection");
    stream.shutdown(Shutdown::Write).expect("half a connection");
    let mut back = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut back).expect("the end");
    // `cat` answers nothing: the one request is answered in its place when it is gone, under its id as it was written.
    let answer = r#"{"jsonrpc":"2.0","id":1.0e0,"error":{"code":-32603,"message":"the agent is gone: the other side ended its output"}}"#;
    let expected = [&sent[..], answer.as_bytes(), b"\n"].concat();
    assert_eq!(String::from_utf8_lossy(&back), String::from_utf8_lossy(&expected), "{args:?}");
    assert_eq!(back, expected);
    drop(stream);
    assert_eq!(proxy.stop().0, Some(0));
}

#[test]
fn the_same_form_passes_byte_for_byte() {
    echoed(&[]);
}

#[test]
fn the_same_form_passes_byte_for_byte_while_it_is_judged_and_recorded() {
    echoed(&["--lint", "--record", "talk.ndjson"]);
}

#[test]
fn a_client_that_ends_its_input_still_gets_its_answers() {
    let place = Place::new();
    let mut process = Command::new(ACP)
        .args(["proxy", "--command", &place.mock("--dialect v1"), "--record", "talk.ndjson"])
        .env("XDG_STATE_HOME", &place.path)
        .current_dir(&place.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("acp runs");
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    writeln!(process.stdin.take().expect("a pipe"), "{hello}").expect("a pipe");
    let output = process.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(0));
    let answer = String::from_utf8(output.stdout).expect("text");
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1"#), "{answer}");
    assert_eq!(place.processes(), Vec::<String>::new());
    let wire = lines_of(place.file("talk.ndjson"));
    assert_eq!(wire, [("c2a".to_owned(), hello.to_owned()), ("a2c".to_owned(), answer.trim().to_owned())]);
}

const CHUNKS: usize = 10_000;

/// An agent that answers a prompt with 10,000 chunks of about a kilobyte, as fast as they are taken.
fn flood(place: &Place) -> String {
    let script = r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"authMethods":[]}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read line; awk 'BEGIN { for (i = 0; i < 1000; i++) words = words "x"; for (i = 1; i <= 10000; i++) printf "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"%d %s \"}}}}\n", i, words }'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
cat >/dev/null
"#;
    std::fs::write(place.path.join("flood.sh"), script).expect("a file");
    format!("sh {} {}", place.file("flood.sh"), place.file("state"))
}

/// A client that first does not read at all, then slowly. `kept` is what the form makes the proxy keep, in KiB.
fn slow(client: Dialect, kept: u64) {
    let place = Place::new();
    let client_name = client.to_string();
    let proxy = Proxy::tcp(&place, &["--command", &flood(&place), "--client-dialect", &client_name]);
    let mut talker = Talker::new(client, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    talker.new_session();
    let turn = talker.prompt("Tell me a long story");
    while talker.chunks == 0 {
        talker.hear();
    }
    let before = proxy.memory();
    let mut most = before;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(50));
        most = most.max(proxy.memory());
    }
    while talker.chunks < CHUNKS {
        talker.hear();
        if talker.chunks.is_multiple_of(500) {
            most = most.max(proxy.memory());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    talker.result(turn);
    let numbers: Vec<usize> =
        talker.text.split_whitespace().step_by(2).map(|number| number.parse().expect("a number")).collect();
    assert!(numbers.into_iter().eq(1..=CHUNKS), "every chunk, once, in order");
    assert!(most < before + 3 * 1024 + kept, "memory grew from {before} to {most} KiB");
    drop(talker);
    place.wait_for_processes(0);
    assert_eq!(proxy.stop().0, Some(0));
}

#[test]
fn ten_thousand_chunks_to_a_slow_client_lose_nothing_and_memory_stays_flat() {
    slow(Dialect::V1, 0);
}

#[test]
fn ten_thousand_chunks_to_a_slow_client_of_another_form_lose_nothing_and_memory_stays_flat() {
    slow(Dialect::V2025_1, 0);
}

#[test]
fn ten_thousand_chunks_to_a_form_that_repeats_its_text_lose_nothing() {
    // The answer to a delta prompt repeats the turn's text: that is what is kept.
    slow(Dialect::DELTA, 4 * 10 * 1024);
}

#[test]
fn websockets_are_joined_to_processes_and_sockets_to_websockets() {
    let place = Place::new();
    // A v1 agent behind a WebSocket that speaks delta, behind a TCP socket that speaks probe.
    let inner =
        Proxy::listen(&place, "ws", &["--command", &place.mock("--dialect v1"), "--client-dialect", "delta"]);
    let address = format!("ws://{}/acp", inner.address);
    let outer =
        Proxy::tcp(&place, &["--connect", &address, "--dialect", "delta", "--client-dialect", "probe"]);
    let address = format!("tcp://{}", outer.address);
    let output = Command::new(ACP)
        .args(["prompt", "Say 'through three forms'", "--connect", &address, "--dialect", "probe"])
        .current_dir(&place.path)
        .stdin(Stdio::null())
        .output()
        .expect("acp runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said} {}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("through three forms"), "{said}");
    assert_eq!(outer.stop().0, Some(0));
    assert_eq!(inner.stop().0, Some(0));
    place.wait_for_processes(0);
}

#[test]
fn findings_are_told_while_the_conversation_goes_on() {
    let place = Place::new();
    let mock = place.mock("--dialect v1 --fault drop@session/update#1");
    let proxy = Proxy::tcp(&place, &["--command", &mock, "--lint", "--client-dialect", "v1"]);
    let mut stream = proxy.connect();
    stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"not absolute\",\"mcpServers\":[]}}\n").expect("a connection");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("an answer");
    assert!(line.contains("\"error\""), "{line}");
    proxy.wait_for_words("client: ");
    let said = proxy.said();
    assert!(said.lines().any(|line| line.starts_with("acp proxy: [1] error ")), "{said}");
}
