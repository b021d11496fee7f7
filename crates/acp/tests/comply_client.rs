//! `acp comply-client` against `acp prompt`: a real client, its driver, the agent that it starts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const ACP: &str = env!("CARGO_BIN_EXE_acp");

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(ACP);
    command.arg("comply-client").args(args).current_dir(folder).env_remove("ACP_CONFIG");
    command.output().expect("acp runs")
}

fn write(folder: &Path, name: &str, content: &Value) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content.to_string()).expect("a file");
    path
}

/// A test whose steps are these.
fn test(claims: &[&str], more: &Value, steps: &Value) -> Value {
    let mut test = json!({
        "side": "client", "title": "A test", "description": "Of a client.", "severity": "required", "docs": [],
        "requirements": claims, "steps": steps,
    });
    test.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    test
}

/// The outcome of each test by its id, and the whole results.
fn outcomes(folder: &Path, driver: &str) -> (Value, Value) {
    let output = run(folder, &["--driver", driver, "tests", "--format", "json"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let results: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{words}"));
    let tests = results["agents"][0]["tests"].as_array().cloned().unwrap_or_default();
    let by_id = tests.into_iter().map(|test| (test["id"].as_str().unwrap_or_default().to_owned(), test));
    (Value::Object(by_id.collect()), results)
}

fn read_a_line(expected: &str) -> Value {
    test(
        &["C-FS-02"],
        &json!({
            "preconditions": [{ "cap": "client.fs.readTextFile" }],
            "sandbox": { "files": [{ "path": "five.txt", "text": "one\ntwo\nthree\n" }] },
        }),
        &json!([
            { "drive": { "verb": "prompt" } },
            { "send": { "jsonrpc": "2.0", "id": 1, "method": "fs/read_text_file",
                "params": { "sessionId": "${sessionId}", "path": "${sandbox}/five.txt", "line": 2, "limit": 1 } } },
            { "expect": { "messages": [{ "response": { "id": 1, "result": { "content": expected } }, "shows": ["C-FS-02"] }] } },
            { "answer": { "to": "session/prompt", "result": { "stopReason": "end_turn" } } },
        ]),
    )
}

fn launches() -> Value {
    test(
        &["C-TRN-04"],
        &json!({ "init": { "stub": { "child": true, "environment": { "EXAM_X": "a\nb" } } } }),
        &json!([
            { "drive": { "verb": "prompt" } },
            { "expectAgent": { "launch": 1, "stdin": "^pipe$", "stdout": "^pipe$", "env": { "EXAM_X": "^a\nb$" } },
                "shows": ["C-TRN-04"] },
            { "expectProcess": { "pid": "${childPid}", "running": true } },
            { "stderr": { "text": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", "times": 4096 } },
            { "alive": {} },
            { "answer": { "to": "session/prompt", "result": { "stopReason": "end_turn" } } },
            { "drive": { "verb": "quit", "wait": "done" } },
            { "expectAgent": { "launch": 1, "eof": true, "endedBy": "^eof$", "gone": true } },
            { "expectProcess": { "pid": "${childPid}", "running": false } },
        ]),
    )
}

fn writes_outside() -> Value {
    test(
        &["C-FS-06"],
        &json!({ "preconditions": [{ "cap": "client.fs.writeTextFile" }],
            "sandbox": { "files": [{ "path": "in", "link": "${outside}/secret" }], "outside": [{ "path": "secret", "text": "canary" }] } }),
        &json!([
            { "drive": { "verb": "prompt" } },
            { "send": { "jsonrpc": "2.0", "id": 1, "method": "fs/write_text_file",
                "params": { "sessionId": "${sessionId}", "path": "${sandbox}/in", "content": "changed" } } },
            { "expect": { "messages": [{ "response": { "id": 1, "error": {} } }] }, "shows": ["C-FS-06"] },
            { "expectFile": { "path": "${outside}/secret", "exact": "canary" }, "shows": ["C-FS-06"] },
            { "answer": { "to": "session/prompt", "result": { "stopReason": "end_turn" } } },
        ]),
    )
}

#[test]
fn a_real_client_is_started_asked_watched_and_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let tests = folder.path().join("tests");
    std::fs::create_dir(&tests).expect("a folder");
    write(&tests, "required.read.jsont", &read_a_line("^two\\n?$"));
    write(&tests, "required.wrong.jsont", &read_a_line("^three"));
    write(&tests, "required.launches.jsont", &launches());
    write(&tests, "required.jail.jsont", &writes_outside());
    let logout = json!([{ "drive": { "verb": "open" } }, { "drive": { "verb": "logout" } }]);
    write(&tests, "required.logout.jsont", &test(&["C-AUTH-01"], &json!({}), &logout));
    let (tests, results) = outcomes(folder.path(), "acp-prompt");
    let verdict = |id: &str| tests[id]["verdict"].as_str().unwrap_or_default().to_owned();
    assert_eq!(verdict("required.read"), "PASS", "{:#}", tests["required.read"]);
    assert_eq!(verdict("required.wrong"), "FAIL", "{:#}", tests["required.wrong"]);
    assert_eq!(verdict("required.launches"), "PASS", "{:#}", tests["required.launches"]);
    assert_eq!(verdict("required.jail"), "PASS", "{:#}", tests["required.jail"]);
    assert_eq!(verdict("required.logout"), "NA", "{:#}", tests["required.logout"]);
    let agent = &results["agents"][0];
    assert_eq!(agent["side"], "client");
    assert_eq!(agent["header"]["agentInfo"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_driver_that_starts_no_client_is_an_error_and_no_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("tests")).expect("a folder");
    write(&folder.path().join("tests"), "required.read.jsont", &read_a_line("two"));
    let driver = json!({
        "name": "broken", "kind": "command", "agent": { "form": "shell" }, "own": ["wire", "fs"],
        "base": ["sh", "-c", "echo no such thing >&2; exit 7"],
        "verbs": { "prompt": { "run": ["${text}"], "opens": true, "background": true } },
    });
    write(folder.path(), "broken.json", &driver);
    let output = run(folder.path(), &["--driver", "broken.json", "tests", "--format", "terminal"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("exit code 7") && text.contains("no such thing"), "{text}");
}

#[test]
fn what_is_wrong_with_the_arguments_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "t.jsont", &read_a_line("two"));
    for (args, words) in [
        (&["t.jsont"][..], "--driver NAME"),
        (&["t.jsont", "--driver", "acp-promt"], "did you mean acp-prompt?"),
        (&["t.jsont", "--driver", "acp-prompt", "--test", "x*"], "--test \"x*\" matches none"),
        (&["t.jsont", "--driver", "./absent.json"], "cannot read ./absent.json"),
    ] {
        let output = run(folder.path(), args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words), "{text}");
    }
}
