//! Peers that speak a form which they should not.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use acp_dialect::Dialect;
use serde_json::Value;

use crate::talker::Talker;
use crate::{Place, Proxy, rest};

fn say(mut stream: &TcpStream, line: &str) {
    stream.write_all(format!("{line}\n").as_bytes()).expect("a connection");
}

/// The one answer before the end of the connection.
fn answer(stream: &TcpStream) -> (Value, String) {
    let said = rest(stream);
    let answer: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    let why = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
    (answer, why)
}

#[test]
fn a_client_of_no_known_form_is_told_so_and_closed() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1")]);
    let stream = proxy.connect();
    say(&stream, r#"{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"3.0"}}"#);
    let (reply, why) = answer(&stream);
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&5.into(), &(-32600).into()), "{reply}");
    assert!(why.contains("3.0") && why.contains("name the dialect"), "{why}");
    let stream = proxy.connect();
    say(&stream, "what is this");
    let (reply, _) = answer(&stream);
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&Value::Null, &(-32700).into()), "{reply}");
    let stream = proxy.connect();
    say(&stream, "GET /acp HTTP/1.1");
    let (reply, why) = answer(&stream);
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&Value::Null, &(-32700).into()), "{reply}");
    assert!(why.contains("an HTTP request came"), "{why}");
    assert_eq!(place.processes(), Vec::<String>::new(), "nobody starts an agent for a stranger");
}

#[test]
fn a_page_of_a_browser_reaches_no_agent_whatever_form_is_named() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1"), "--client-dialect", "v1"]);
    let stream = proxy.connect();
    // What a page may send anywhere without asking: any text in the body of a request.
    let body =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n";
    let head =
        "POST / HTTP/1.1\r\nhost: 127.0.0.1\r\norigin: https://evil.example\r\ncontent-type: text/plain\r\n";
    say(&stream, &format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    assert_eq!(rest(&stream), "", "not a word is answered");
    place.wait_for_processes(0);
}

#[test]
fn a_client_that_speaks_a_third_form_is_told_so_and_closed() {
    let place = Place::new();
    let args = ["--command", &place.mock("--dialect v1"), "--client-dialect", "probe"];
    let proxy = Proxy::tcp(&place, &args);
    let stream = proxy.connect();
    say(
        &stream,
        r#"{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"2025-01-01"}}"#,
    );
    let (reply, why) = answer(&stream);
    assert_eq!(reply["id"], 5);
    assert!(why.contains("delta") && why.contains("probe"), "{why}");
    place.wait_for_processes(0);
    proxy.wait_for_words("the client was refused");
}

#[test]
fn a_client_that_changes_its_form_is_told_so_and_closed() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1")]);
    let mut talker = Talker::new(Dialect::DELTA, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    talker.new_session();
    let id = talker.ask("newSession", serde_json::json!({}));
    let reply = talker.answer(id);
    let why = reply["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("newSession") && why.contains("probe") && why.contains("delta"), "{reply}");
    while talker.line().is_some() {}
    place.wait_for_processes(0);
}

#[test]
fn an_agent_that_refuses_the_form_it_is_spoken_to_in_is_heard() {
    let place = Place::new();
    let args = ["--command", &place.mock("--dialect v1"), "--dialect", "probe", "--client-dialect", "delta"];
    let proxy = Proxy::tcp(&place, &args);
    let stream = proxy.connect();
    say(
        &stream,
        r#"{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"2025-01-01"}}"#,
    );
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("an answer");
    let reply: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(reply["id"], 5, "{reply}");
    let why = reply["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("protocolVersion"), "{reply}");
    drop(stream);
    place.wait_for_processes(0);
}

#[test]
fn an_agent_that_answers_in_another_form_is_named_with_the_flag_that_helps() {
    let place = Place::new();
    let hello = r#"{"jsonrpc":"2.0","id":5,"result":{"protocolVersion":"2025-01-01","serverInfo":{"name":"a","version":"1"},"capabilities":{}}}"#;
    std::fs::write(place.path.join("agent.sh"), format!("read line; echo '{hello}'; cat >/dev/null\n"))
        .expect("a file");
    let command = format!("sh {}", place.file("agent.sh"));
    let proxy = Proxy::tcp(&place, &["--command", &command, "--dialect", "v1", "--client-dialect", "probe"]);
    let stream = proxy.connect();
    say(&stream, r#"{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"1"}}"#);
    let (reply, why) = answer(&stream);
    assert_eq!(reply["id"], 5);
    assert!(why.contains("--dialect delta"), "{why}");
}

#[test]
fn what_a_peer_does_wrong_within_its_form_is_noted_and_the_connection_kept() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect v1")]);
    let mut talker = Talker::new(Dialect::V2025_1, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    talker.new_session();
    // The same session again, an answer that nobody waits for, params of the wrong shape.
    let session = talker.session.clone();
    let again = talker.ask("session/new", serde_json::json!({ "session_id": session }));
    talker.answer(again);
    talker.send(r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#);
    let wrong = talker.ask("session/prompt", serde_json::json!([1, 2]));
    talker.answer(wrong);
    let turn = talker.prompt("Say 'still here'");
    talker.result(turn);
    assert!(talker.text.contains("still here"));
    for words in ["duplicate-session", "unknown-answer", "wrong-shape"] {
        proxy.wait_for_words(words);
    }
}

/// An agent that says these lines, one after each line that it hears, and then listens on.
fn saying(place: &Place, lines: &[&str]) -> String {
    let mut script = String::new();
    for line in lines {
        script.push_str(&format!("read heard; echo '{line}'\n"));
    }
    script.push_str("cat >/dev/null\n");
    std::fs::write(place.path.join("agent.sh"), script).expect("a file");
    format!("sh {}", place.file("agent.sh"))
}

const HELLO: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}}"#;

#[test]
fn an_agent_that_answers_with_the_wrong_shape_is_noted_and_the_connection_kept() {
    let place = Place::new();
    let command = saying(
        &place,
        &[
            HELLO,
            r#"{"jsonrpc":"2.0","id":2,"result":["no session"]}"#,
            r#"{"jsonrpc":"2.0","id":3,"result":{"sessionId":"s1"}}"#,
            r#"{"jsonrpc":"2.0","id":4,"result":{"sessionId":"s1"}}"#,
        ],
    );
    let proxy = Proxy::tcp(&place, &["--command", &command, "--client-dialect", "delta"]);
    let mut talker = Talker::new(Dialect::DELTA, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    let new = serde_json::json!({ "workDir": place.path });
    let wrong = talker.ask("session/new", new.clone());
    let reply = talker.answer(wrong);
    let why = reply["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("wrong shape") && why.contains("sessionId is missing"), "{reply}");
    proxy.wait_for_words("wrong-shape session/new");
    // The connection is kept, and a session id that is given twice is noted.
    let right = talker.ask("session/new", new.clone());
    assert_eq!(talker.result(right)["sessionId"], "s1");
    let twice = talker.ask("session/new", new);
    talker.answer(twice);
    proxy.wait_for_words("duplicate-session");
}

#[test]
fn an_agent_that_changes_its_form_is_named_and_its_client_told() {
    let place = Place::new();
    let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-01-01","serverInfo":{"name":"a","version":"1"},"capabilities":{}}}"#;
    let command = saying(
        &place,
        &[hello, r#"{"jsonrpc":"2.0","method":"messageChunk","params":{"sessionId":"s","chunk":"x"}}"#],
    );
    let proxy = Proxy::tcp(&place, &["--command", &command, "--dialect", "delta", "--client-dialect", "v1"]);
    let mut talker = Talker::new(Dialect::V1, proxy.connect(), &place.path.display().to_string());
    talker.initialize();
    let new = talker.ask("session/new", serde_json::json!({ "cwd": place.path, "mcpServers": [] }));
    let reply = talker.answer(new);
    let why = reply["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("messageChunk") && why.contains("probe") && why.contains("delta"), "{reply}");
    while talker.line().is_some() {}
    proxy.wait_for_words("the agent was refused");
    place.wait_for_processes(0);
}

#[test]
fn a_go_client_hears_that_the_connection_closed_in_its_own_code() {
    for form in ["v1", "go"] {
        let place = Place::new();
        let hello =
            HELLO.replace("\"agentCapabilities\":{}", "\"agentCapabilities\":{\"promptCapabilities\":{}}");
        std::fs::write(place.path.join("agent.sh"), format!("read a; echo '{hello}'; read b; exit 0\n"))
            .expect("a file");
        let command = format!("sh {}", place.file("agent.sh"));
        let proxy = Proxy::tcp(&place, &["--command", &command, "--dialect", form, "--client-dialect", "go"]);
        let mut talker = Talker::new(Dialect::GO, proxy.connect(), &place.path.display().to_string());
        talker.initialize();
        let id = talker.ask("session/new", serde_json::json!({ "cwd": place.path, "mcpServers": [] }));
        let reply = talker.answer(id);
        assert_eq!(reply["error"]["code"], -32000, "{form}: {reply}");
    }
}

#[test]
fn a_reason_has_its_own_code_in_the_forms_that_know_one() {
    for (dialect, reason, code) in [
        (Dialect::PROBE, "tool_execution_failed", -32004),
        (Dialect::PROBE, "permission_denied", -32003),
        (Dialect::GO, "connection_closed", -32000),
        (Dialect::GO, "timeout", -32001),
        (Dialect::GO, "permission_denied", -32002),
        (Dialect::V2025_1, "permission_denied", -32002),
        (Dialect::DELTA, "timeout", -32603),
    ] {
        let place = Place::new();
        let mock = place.mock(&format!("--dialect {dialect} --fail-on-prompt --fail-reason {reason}"));
        let args = ["--command", &mock, "--dialect", dialect.as_str(), "--client-dialect", dialect.as_str()];
        let proxy = Proxy::tcp(&place, &args);
        let mut talker = Talker::new(dialect, proxy.connect(), &place.path.display().to_string());
        talker.initialize();
        talker.new_session();
        let turn = talker.prompt("Say hello");
        let reply = talker.answer(turn);
        assert_eq!(reply["error"]["code"], code, "{dialect}: {reply}");
    }
}
