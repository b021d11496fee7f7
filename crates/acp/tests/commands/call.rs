//! `acp call`

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::{ACP, Place, texts};

#[test]
fn a_request_is_answered_with_its_result() {
    let place = Place::new();
    let (code, out, err) = place.acp(&["call", "session/list", "--agent", "mock"]);
    assert_eq!(code, 0, "{out}{err}");
    let result: Value = serde_json::from_str(&out).expect("a result");
    assert!(result["sessions"].is_array(), "{out}");
}

#[test]
fn a_session_is_opened_for_params_that_name_it() {
    let place = Place::new();
    let params = r#"{"sessionId": "${session}", "prompt": [{"type": "text", "text": "Say 'hello there'"}]}"#;
    let (code, out, err) = place.acp(&["call", "session/prompt", params, "--agent", "mock"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("<- {") && out.contains("session/update") && out.contains("hello"), "{out}");
    assert!(out.trim_end().ends_with('}') && out.contains("\"stopReason\": \"end_turn\""), "{out}");
    assert!(!out.contains("protocolVersion"), "the handshake is not shown: {out}");
    let (_, out, _) = place.acp(&["call", "session/prompt", params, "--agent", "mock", "--verbose"]);
    assert!(out.contains("protocolVersion") && out.contains("-> {"), "{out}");
}

#[test]
fn programs_get_every_frame_of_the_agent_and_nothing_else() {
    let place = Place::new();
    let params = r#"{"sessionId": "${session}", "prompt": [{"type": "text", "text": "Say 'hi'"}]}"#;
    let args = ["call", "session/prompt", params, "--agent", "mock", "--format", "json", "--verbose"];
    let (code, out, _) = place.acp(&args);
    assert_eq!(code, 0);
    let frames: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("a frame")).collect();
    assert!(frames.len() >= 4, "{out}");
    assert!(frames.iter().all(|frame| frame["jsonrpc"] == "2.0"), "{out}");
    assert_eq!(frames.last().expect("an answer")["result"]["stopReason"], "end_turn");
}

#[test]
fn the_agents_own_requests_are_answered_by_the_policy() {
    let place = Place::new();
    place.write("greeting.txt", "good morning\n");
    let params = r#"{"sessionId": "${session}", "prompt": [{"type": "text", "text": "Read greeting.txt"}]}"#;
    let (_, out, _) = place.acp(&["call", "session/prompt", params, "--agent", "mock", "--policy", "read"]);
    assert!(out.contains("fs/read_text_file") && out.contains("good morning"), "{out}");
    let (_, out, _) = place.acp(&["call", "session/prompt", params, "--agent", "mock", "--policy", "none"]);
    assert!(!out.contains("good morning"), "{out}");
}

#[test]
fn an_error_is_exit_code_1_and_printed() {
    let place = Place::new();
    let (code, out, err) = place.acp(&["call", "no/such_method", "--agent", "mock"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.starts_with("error {") && out.contains("-32601"), "{out}");
}

#[test]
fn a_line_is_sent_as_it_is() {
    let place = Place::new();
    let line = r#"{"jsonrpc":"2.0","id":"my-id","method":"session/list","params":{},"odd":1.50}"#;
    let (code, out, err) = place.acp(&["call", "--raw", line, "--agent", "mock", "--format", "json"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("\"id\":\"my-id\""), "{out}");
    let (code, out, err) = place.acp(&["call", "--raw", "{broken", "--agent", "mock", "--wait", "500ms"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("-32700"), "the agent's complaint is shown: {out}");
}

#[test]
fn a_notification_has_no_answer_and_params_come_from_a_file_or_a_pipe() {
    let place = Place::new();
    let params = r#"{"sessionId": "${session}"}"#;
    let (code, out, err) =
        place.acp(&["call", "--notify", "session/cancel", params, "--agent", "mock", "--wait", "100ms"]);
    assert_eq!(code, 0, "{out}{err}");
    // The mock may still announce its commands.
    assert!(out.lines().all(|line| line.starts_with("<- ") && line.contains("session/update")), "{out}");
    place.write("params.json", r#"{"protocolVersion": 1, "clientCapabilities": {}}"#);
    let args = ["call", "initialize", "@params.json", "--no-initialize", "--agent", "mock"];
    let (code, out, err) = place.acp(&args);
    assert_eq!(code, 0, "{out}{err}");
    let mut child = place
        .command(ACP, &["call", "session/list", "-", "--agent", "mock"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("acp starts");
    child.stdin.take().expect("input").write_all(b"{}").expect("written");
    let (code, out, _) = texts(&child.wait_with_output().expect("it ends"));
    assert_eq!(code, 0, "{out}");
}

#[test]
fn a_transcript_can_be_linted() {
    let place = Place::new();
    let (code, ..) = place.acp(&["call", "session/list", "--agent", "mock", "--record", "talk.ndjson"]);
    assert_eq!(code, 0);
    let (code, out, err) = place.acp(&["lint", "talk.ndjson"]);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn what_is_wrong_is_said_before_anything_starts() {
    let place = Place::new();
    for (args, code, words) in [
        (&["call"][..], 2, "METHOD"),
        (&["call", "session/list", "{\"a\":}", "--agent", "mock"], 2, "PARAMS is not JSON"),
        (&["call", "session/list", "7", "--agent", "mock"], 2, "an object or an array"),
        (&["call", "session/list", "@nowhere.json", "--agent", "mock"], 2, "cannot read nowhere.json"),
        (&["call", "session/list"], 2, "which agent?"),
        (&["call", "session/list", "--agent", "mock", "--policy", "all"], 2, "there is no policy"),
        (&["call", "session/list", "--command", "sleep 60", "--timeout", "300ms"], 3, "did not answer"),
        (
            &[
                "call",
                "--raw",
                r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#,
                "--command",
                "sleep 60",
                "--no-initialize",
                "--timeout",
                "300ms",
            ],
            3,
            "no answer",
        ),
        (&["call", "session/load", "{}", "--session=none", "--agent", "mock"], 1, "session/load"),
    ] {
        let (got, out, err) = place.acp(args);
        assert_eq!(got, code, "{args:?}: {out}{err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
}
