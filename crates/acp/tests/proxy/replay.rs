//! Recorded conversations again: as text, as frames, as events, and as an agent.

use std::io::Write;
use std::process::Stdio;

use acp_proxy::event::Event;
use serde_json::{Value, json};

use crate::{ACP, Place, Proxy, lines_of};

/// What a command printed. It must succeed.
fn output(place: &Place, args: &[&str]) -> String {
    let output = place.acp(args).output().expect("acp runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// A turn with a tool call and permission, through the proxy. What the client printed.
fn recorded(place: &Place) -> String {
    let proxy = Proxy::tcp(place, &["--command", &place.mock("--dialect v1"), "--record", "talk.ndjson"]);
    let address = format!("tcp://{}", proxy.address);
    let printed = output(place, &["prompt", "Read notes.txt", "--connect", &address, "--policy", "read"]);
    assert_eq!(proxy.stop().0, Some(0));
    printed
}

#[test]
fn a_recorded_turn_played_by_the_agent_prints_the_same() {
    let place = Place::new();
    let printed = recorded(&place);
    assert!(printed.contains("on disk"), "{printed}");
    // The file is gone: what is read now was recorded.
    std::fs::write(place.path.join("notes.txt"), "something else\n").expect("a file");
    let list = output(&place, &["replay", "--list"]);
    let session = list.split('\t').nth(3).expect("a session").to_owned();
    let name = list.split('\t').next().expect("a name").to_owned();
    for what in ["talk.ndjson", &session, &name] {
        let agent = format!("{ACP} replay {what} --as-agent");
        let again = output(&place, &["prompt", "Read notes.txt", "--command", &agent, "--policy", "read"]);
        assert_eq!(again, printed, "{what}");
        let patient = format!("{agent} --timing --speed 4");
        let again = output(&place, &["prompt", "Read notes.txt", "--command", &patient, "--policy", "read"]);
        assert_eq!(again, printed, "{what}, at its own pace");
    }
}

#[test]
fn a_played_agent_can_be_reached_over_tcp_and_web_socket() {
    let place = Place::new();
    let printed = recorded(&place);
    for transport in ["tcp", "ws"] {
        let listen = format!("{transport}://127.0.0.1:0");
        let command = place.acp(&["replay", "talk.ndjson", "--as-agent", "--listen", &listen]);
        let agent = Proxy::start(&place, command);
        let address = format!("{transport}://{}", agent.address);
        for _ in 0..2 {
            let again =
                output(&place, &["prompt", "Read notes.txt", "--connect", &address, "--policy", "read"]);
            assert_eq!(again, printed, "each client begins at the beginning");
        }
    }
}

#[test]
fn a_recording_is_shown_as_text_frames_and_events() {
    let place = Place::new();
    let printed = recorded(&place);
    let text = output(&place, &["replay", "talk.ndjson"]);
    assert!(text.contains("> Read notes.txt\n"), "{text}");
    for line in printed.lines() {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
    // Frames are a transcript again, the same one.
    let frames = output(&place, &["replay", "talk.ndjson", "--format", "json"]);
    std::fs::write(place.path.join("again.ndjson"), frames).expect("a file");
    assert_eq!(lines_of(place.path.join("again.ndjson")), lines_of(place.path.join("talk.ndjson")));
    let journal = output(&place, &["replay", &place.journal().display().to_string(), "--format", "json"]);
    std::fs::write(place.path.join("journal.ndjson"), journal).expect("a file");
    assert_eq!(lines_of(place.path.join("journal.ndjson")), lines_of(place.path.join("talk.ndjson")));
    let judged = place.acp(&["lint", "journal.ndjson"]).output().expect("acp runs");
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
    // Events add up.
    let events = output(&place, &["replay", "talk.ndjson", "--format", "events"]);
    let events: Vec<Event> =
        events.lines().map(|line| Event::parse(line.as_bytes()).expect("an event")).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event.body.kind()).collect();
    assert_eq!(kinds.first(), Some(&"session"), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "turn_end").count(), 1, "{kinds:?}");
    assert!(kinds.contains(&"turn_start") && kinds.contains(&"text"), "{kinds:?}");
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
}

/// Asks the played agent over standard streams.
fn asked(place: &Place, lines: &[Value]) -> Vec<Value> {
    let mut command = place.acp(&["replay", "made.ndjson", "--as-agent"]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("acp runs");
    let mut stdin = process.stdin.take().expect("a pipe");
    for line in lines {
        writeln!(stdin, "{line}").expect("sent");
    }
    drop(stdin);
    let output = process.wait_with_output().expect("its end");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn made(place: &Place, frames: &[(&str, Value)]) {
    let lines: String = frames
        .iter()
        .enumerate()
        .map(|(t, (dir, frame))| {
            format!("{}\n", json!({ "t": t as f64 / 100.0, "dir": dir, "frame": frame }))
        })
        .collect();
    std::fs::write(place.path.join("made.ndjson"), lines).expect("a file");
}

fn request(id: Value, method: &str, params: Value) -> Value {
    frame([("id", id), ("method", method.into()), ("params", params)])
}

fn result(id: Value, result: Value) -> Value {
    frame([("id", id), ("result", result)])
}

fn frame(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let version = [("jsonrpc", Value::from("2.0"))];
    version.into_iter().chain(members).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn prompt(id: Value, session: &str, text: &str) -> Value {
    request(
        id,
        "session/prompt",
        json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] }),
    )
}

fn chunk(session: &str, text: &str) -> Value {
    let update =
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } })
}

#[test]
fn requests_are_matched_by_what_they_ask_and_unknown_ones_are_refused() {
    let place = Place::new();
    let end = |id: u64| result(id.into(), json!({ "stopReason": "end_turn" }));
    made(
        &place,
        &[
            ("c2a", request(1.into(), "initialize", json!({ "protocolVersion": 1 }))),
            ("a2c", result(1.into(), json!({ "protocolVersion": 1 }))),
            (
                "c2a",
                request(
                    2.into(),
                    "session/load",
                    json!({ "sessionId": "then", "cwd": "/a", "mcpServers": [] }),
                ),
            ),
            ("a2c", result(2.into(), json!({}))),
            ("c2a", prompt(3.into(), "then", "first")),
            ("a2c", chunk("then", "the first answer")),
            ("a2c", end(3)),
            ("c2a", prompt(4.into(), "then", "second")),
            ("a2c", request("q".into(), "fs/read_text_file", json!({ "sessionId": "then", "path": "/x" }))),
            ("c2a", result("q".into(), json!({ "content": "x" }))),
            ("a2c", chunk("then", "the second answer")),
            ("a2c", end(4)),
        ],
    );
    let answers = asked(
        &place,
        &[
            request(
                "a".into(),
                "initialize",
                json!({ "protocolVersion": 1, "clientInfo": { "name": "me" } }),
            ),
            request("b".into(), "session/load", json!({ "sessionId": "now", "cwd": "/b", "mcpServers": [] })),
            prompt("c".into(), "now", "second"),
            result("q".into(), json!({ "content": "anything" })),
            prompt("d".into(), "now", "never asked"),
            prompt("e".into(), "now", "second"),
            request("f".into(), "session/fork", json!({ "sessionId": "now" })),
        ],
    );
    let by_id = |id: &str| {
        answers.iter().find(|answer| answer["id"] == id && answer.get("method").is_none()).expect(id)
    };
    let texts: Vec<&Value> = answers
        .iter()
        .map(|answer| &answer["params"]["update"]["content"]["text"])
        .filter(|text| !text.is_null())
        .collect();
    assert_eq!(texts, ["the second answer", "the first answer"]);
    let sessions = answers.iter().filter_map(|answer| answer["params"]["sessionId"].as_str());
    assert!(
        sessions.into_iter().all(|session| session == "now"),
        "the session has the client's name: {answers:?}"
    );
    assert_eq!(by_id("c")["result"]["stopReason"], "end_turn");
    assert_eq!(by_id("d")["result"]["stopReason"], "end_turn", "the next one recorded");
    let why = by_id("e")["error"]["message"].as_str().expect("an error");
    assert!(why.contains("2 answers to session/prompt"), "{why}");
    assert_eq!(by_id("f")["error"]["code"], -32601);
    assert!(
        by_id("f")["error"]["message"].as_str().is_some_and(|why| why.contains("no answer to session/fork"))
    );
}

#[test]
fn what_cannot_be_replayed_is_explained() {
    let place = Place::new();
    std::fs::write(place.path.join("broken.ndjson"), "{\"t\":0,\"dir\":\"c2a\",\"line\":\"{}\"}\nnonsense\n")
        .expect("a file");
    std::fs::write(place.path.join("empty.ndjson"), "").expect("a file");
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1"}}"#;
    let foreign = json!({ "t": 0, "dir": "c2a", "line": hello });
    std::fs::write(place.path.join("foreign.ndjson"), format!("{foreign}\n")).expect("a file");
    for (what, words) in [
        ("broken.ndjson", "line 2"),
        ("empty.ndjson", "no conversation"),
        ("foreign.ndjson", "the form probe"),
        ("no-such-session", "neither a file nor a session"),
    ] {
        let output = place.acp(&["replay", what]).output().expect("acp runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{what}: {said}");
        assert!(said.contains(words), "{what}: {said}");
    }
    // A recorder that was killed may have stopped in the middle of a character.
    let whole = json!({ "t": 0, "dir": "a2c", "line": "{\"jsonrpc\":\"2.0\"}" });
    let torn = [format!("{whole}\n").as_bytes(), b"{\"t\":1,\"line\":\"\xc3"].concat();
    std::fs::write(place.path.join("torn.ndjson"), torn).expect("a file");
    let output = place.acp(&["replay", "torn.ndjson"]).output().expect("acp runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("the last line is cut off; it is left out"), "{said}");
}

#[test]
fn a_translated_conversation_is_replayed_in_its_canonical_form() {
    let place = Place::new();
    let proxy = Proxy::tcp(&place, &["--command", &place.mock("--dialect delta"), "--dialect", "delta"]);
    let address = format!("tcp://{}", proxy.address);
    let printed = output(&place, &["prompt", "Say 'told in two forms'", "--connect", &address]);
    assert_eq!(proxy.stop().0, Some(0));
    let list = output(&place, &["replay", "--list"]);
    let name = list.split('\t').next().expect("a name");
    let text = output(&place, &["replay", name]);
    assert!(text.contains("told in two forms"), "{text}");
    let agent = format!("{ACP} replay {name} --as-agent");
    let again = output(&place, &["prompt", "Say 'told in two forms'", "--command", &agent]);
    assert_eq!(again, printed);
}
