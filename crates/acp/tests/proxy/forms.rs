//! The other commands towards an agent of a foreign form: they speak v1, the wire does not.

use std::io::Write;
use std::process::{Command, Stdio};

use acp_dialect::Dialect;

use crate::{ACP, Place, lines_of};

fn foreign() -> impl Iterator<Item = Dialect> {
    Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::V1)
}

/// What is on a wire of this form only.
fn mark(dialect: Dialect) -> &'static str {
    match dialect.as_str() {
        "v1" => "agent_message_chunk",
        "2025.1" => "session_id",
        "probe" => "newSession",
        "go" => "\"content\":[\"text\"",
        "delta" => "assistant.message_delta",
        other => panic!("no peer speaks {other}"),
    }
}

#[test]
fn prompt_reads_a_file_for_an_agent_of_any_form() {
    for dialect in Dialect::ALL {
        let place = Place::new();
        let output = Command::new(ACP)
            .args(["prompt", "Read notes.txt", "--policy", "read", "--record", "talk.ndjson"])
            .args(["--agent", "mock", "--dialect", dialect.as_str()])
            .current_dir(&place.path)
            .stdin(Stdio::null())
            .output()
            .expect("acp runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{dialect}: {said} {error}");
        assert!(said.contains("on disk"), "{dialect}: {said} {error}");
        let wire: String = lines_of(place.file("talk.ndjson")).into_iter().map(|(_, line)| line).collect();
        assert!(wire.contains(mark(dialect)), "{dialect}: the transcript holds what was on the wire: {wire}");
    }
}

#[test]
fn chat_remembers_with_an_agent_of_any_form() {
    for dialect in foreign() {
        let place = Place::new();
        let mut process = Command::new(ACP)
            .args(["chat", "--agent", "mock", "--dialect", dialect.as_str()])
            .current_dir(&place.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("acp runs");
        let mut stdin = process.stdin.take().expect("a pipe");
        stdin.write_all(b"Remember the word kumquat.\nWhat was the word?\n").expect("a pipe");
        drop(stdin);
        let output = process.wait_with_output().expect("its end");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{dialect}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(said.matches("kumquat").count() >= 1, "{dialect}: {said}");
    }
}

#[test]
fn comply_judges_an_agent_of_any_form() {
    for dialect in foreign() {
        let place = Place::new();
        let output = Command::new(ACP)
            .args(["comply", "--agent", "mock", "--dialect", dialect.as_str(), "--format", "json"])
            .args(["--test", "session.new", "--test", "tool.completed", "--test", "trn.utf8"])
            .current_dir(&place.path)
            .stdin(Stdio::null())
            .output()
            .expect("acp runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let results: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|broken| panic!("{dialect}: {broken}: {error}"));
        let agent = &results["agents"][0];
        assert_eq!(agent["dialect"], dialect.as_str(), "{error}");
        let tests = agent["tests"].as_array().expect("tests");
        assert_eq!(tests.len(), 3, "{dialect}");
        assert_eq!(output.status.code(), Some(0), "{dialect}: {error}");
    }
}

#[test]
fn an_agent_of_another_form_than_named_is_an_error_that_names_it() {
    let place = Place::new();
    let agent = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-01-01","serverInfo":{"name":"a","version":"1"},"capabilities":{}}}"#;
    std::fs::write(place.path.join("agent.sh"), format!("read line; echo '{agent}'; cat >/dev/null\n"))
        .expect("a file");
    let command = format!("sh {}", place.file("agent.sh"));
    let output = Command::new(ACP)
        .args(["prompt", "hello", "--command", &command, "--dialect", "probe"])
        .current_dir(&place.path)
        .stdin(Stdio::null())
        .output()
        .expect("acp runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_ne!(output.status.code(), Some(0));
    assert!(error.contains("--dialect delta"), "{error}");
}

#[test]
fn what_a_form_cannot_carry_is_not_applicable_by_name_and_all_else_holds() {
    for dialect in foreign() {
        let place = Place::new();
        let tests = [
            "permission.*",
            "session.list*",
            "session.close*",
            "mode.*",
            "diff.*",
            "mcp.*",
            "cwd.*",
            "tool.*",
        ];
        let output = Command::new(ACP)
            .args(["comply", "--agent", "mock", "--dialect", dialect.as_str(), "--format", "json"])
            .args(tests.iter().flat_map(|test| ["--test", test]))
            .current_dir(&place.path)
            .stdin(Stdio::null())
            .output()
            .expect("acp runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{dialect}: {error}");
        let results: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|broken| panic!("{dialect}: {broken}: {error}"));
        let tests = results["agents"][0]["tests"].as_array().expect("tests");
        assert!(tests.len() > 30, "{dialect}: {}", tests.len());
        let named = format!("{dialect} cannot carry this: ");
        let mut lacking = Vec::new();
        for test in tests {
            let (id, verdict) = (test["id"].as_str().unwrap_or_default(), &test["verdict"]);
            let reason = test["reason"].as_str().unwrap_or_default();
            assert!(verdict == "PASS" || verdict == "NA", "{dialect}: {id} {verdict}: {reason}");
            if reason.starts_with(&named) {
                lacking.push(id);
            }
        }
        let lacks = |id: &str| lacking.contains(&id);
        let (asks, lists, modes) = match dialect.as_str() {
            "2025.1" => (false, false, false),
            "probe" => (false, false, true),
            _ => (true, true, true),
        };
        // Calibration finds out first that such an agent never asks.
        let passed = tests.iter().any(|test| test["id"] == "permission.allowed" && test["verdict"] == "PASS");
        assert_eq!(passed, asks, "{dialect}: {lacking:?}");
        assert_eq!(!lacks("session.list"), lists, "{dialect}: {lacking:?}");
        assert_eq!(!lacks("mode.set"), modes, "{dialect}: {lacking:?}");
    }
}

#[test]
fn a_session_with_an_agent_of_any_form_goes_on_in_another_process() {
    for dialect in Dialect::ALL {
        let place = Place::new();
        let mock = format!("{ACP} mock --stdio --dialect {dialect} --state-dir {}", place.file("sessions"));
        let prompt = |words: &str, more: &[&str]| {
            let output = Command::new(ACP)
                .args(["prompt", words, "--command", &mock, "--dialect", dialect.as_str(), "--json"])
                .args(more)
                .current_dir(&place.path)
                .stdin(Stdio::null())
                .output()
                .expect("acp runs");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{dialect}: {said} {error}");
            said
        };
        let first = prompt("Remember the word kumquat.", &[]);
        let session = first.lines().find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(line.get("sessionId")?.as_str()?.to_owned())
        });
        let session = session.unwrap_or_else(|| panic!("{dialect}: {first}"));
        let second = prompt("What was the word?", &["--session", &session]);
        assert!(second.contains("The word was kumquat"), "{dialect}: {second}");
    }
}

#[test]
fn a_2025_1_client_logs_in_with_a_token() {
    let lines = |token: &str| {
        [
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol_version":"2025.1","working_directory":"/"}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"session_id":"a"}}"#.to_owned(),
            format!(r#"{{"jsonrpc":"2.0","id":3,"method":"authenticate","params":{{"type":"token","token":"{token}"}}}}"#),
            r#"{"jsonrpc":"2.0","id":4,"method":"session/new","params":{"session_id":"b"}}"#.to_owned(),
        ]
        .join("\n")
            + "\n"
    };
    for (token, logged_in) in [("secret", true), ("guessed", false)] {
        let mut mock = Command::new(ACP)
            .args(["mock", "--stdio", "--dialect", "2025.1", "--require-auth", "secret"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("acp runs");
        let mut stdin = mock.stdin.take().expect("a pipe");
        stdin.write_all(lines(token).as_bytes()).expect("a pipe");
        drop(stdin);
        let output = mock.wait_with_output().expect("its end");
        let answers: Vec<serde_json::Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id).expect("an answer");
        assert_eq!(answer(2)["error"]["code"], -32002, "{}", answer(2));
        for id in [3, 4] {
            assert_eq!(answer(id)["result"]["status"] == "ok", logged_in, "{token}: {}", answer(id));
        }
    }
}
