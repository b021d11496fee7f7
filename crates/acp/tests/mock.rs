//! The real `acp mock` and `mock-acp-server`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

struct Mock {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Mock {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_acp"))
            .arg("mock")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn send(&mut self, frame: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{frame}").unwrap();
    }

    /// Asks and gives back everything up to the answer.
    #[expect(clippy::needless_pass_by_value, reason = "the callers write the value in place")]
    fn ask(&mut self, id: i64, method: &str, params: Value) -> Vec<Value> {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        read_until(&mut self.output, id)
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_until(output: &mut impl BufRead, id: i64) -> Vec<Value> {
    let mut frames = Vec::new();
    loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the agent went away after {frames:?}");
        let frame: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        let answered = frame["id"] == id && frame.get("method").is_none();
        frames.push(frame);
        if answered {
            return frames;
        }
    }
}

#[test]
fn a_turn_over_stdio_ends_with_the_input() {
    let mut mock = Mock::start(&["--stdio", "--dialect", "v1"]);
    mock.ask(1, "initialize", json!({ "protocolVersion": 1 }));
    let session = mock.ask(2, "session/new", json!({ "cwd": "/", "mcpServers": [] })).pop().unwrap();
    let session = session["result"]["sessionId"].clone();
    let prompt =
        json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "Say 'quince jelly'" }] });
    let frames = mock.ask(3, "session/prompt", prompt);
    assert!(
        frames.iter().any(|frame| frame["params"]["update"]["content"]["text"] == "quince jelly"),
        "{frames:?}"
    );
    assert_eq!(frames.last().unwrap()["result"]["stopReason"], "end_turn");
    drop(mock.input.take());
    assert!(mock.child.wait().unwrap().success());
}

#[test]
fn the_alias_prints_its_port_and_serves_the_seeds_flags() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mock-acp-server"))
        .args(["--port", "0", "--fail-on-prompt"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    let stream = TcpStream::connect(line["listening"].as_str().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut output = BufReader::new(stream.try_clone().unwrap());
    let mut ask = |id: i64, method: &str, params: Value| {
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(&stream, "{frame}").unwrap();
        read_until(&mut output, id).pop().unwrap()
    };
    ask(1, "initialize", json!({ "protocolVersion": 1 }));
    let session =
        ask(2, "session/new", json!({ "cwd": "/", "mcpServers": [] }))["result"]["sessionId"].clone();
    let failed = ask(3, "session/prompt", json!({ "sessionId": session, "prompt": [] }));
    assert_eq!(failed["error"]["code"], -32603);
    let again = ask(4, "session/list", json!({}));
    assert_eq!(again["result"]["sessions"].as_array().unwrap().len(), 1, "still usable");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn send_permissions_asks_before_every_answer() {
    let mut mock = Mock::start(&["--send-permissions"]);
    mock.ask(1, "initialize", json!({ "protocolVersion": 1 }));
    let session = mock.ask(2, "session/new", json!({ "cwd": "/", "mcpServers": [] })).pop().unwrap();
    let prompt =
        json!({ "sessionId": session["result"]["sessionId"], "prompt": [{ "type": "text", "text": "Hi" }] });
    mock.send(&json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt }));
    let mut line = String::new();
    while !line.contains("session/request_permission") {
        line.clear();
        mock.output.read_line(&mut line).unwrap();
    }
    let id = serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow-once" } });
    mock.send(&json!({ "jsonrpc": "2.0", "id": id, "result": outcome }));
    assert_eq!(read_until(&mut mock.output, 3).last().unwrap()["result"]["stopReason"], "end_turn");
}

#[test]
fn a_client_of_another_dialect_is_understood() {
    let mut mock = Mock::start(&[]);
    let answer = mock.ask(1, "initialize", json!({ "protocolVersion": "2025-01-01", "capabilities": {} }));
    assert_eq!(answer[0]["result"]["protocolVersion"], "2025-01-01", "{answer:?}");
    let session =
        mock.ask(2, "session/new", json!({ "workDir": "/" })).pop().unwrap()["result"]["sessionId"].clone();
    let frames = mock.ask(3, "session/prompt", json!({ "sessionId": session, "prompt": "Hello there" }));
    assert!(frames.iter().any(|frame| frame["method"] == "assistant.message_delta"), "{frames:?}");
}

#[test]
fn a_client_that_gets_frames_one_by_one_may_wait_for_the_end_before_it_reads() {
    let mut mock = Mock::start(&["--dialect", "probe", "--chunks", "12"]);
    mock.ask(1, "initialize", json!({ "protocolVersion": "1" }));
    let session = mock.ask(2, "newSession", json!({})).pop().unwrap()["result"]["sessionId"].clone();
    let params = json!({ "sessionId": session, "message": "Hello there" });
    mock.send(&json!({ "jsonrpc": "2.0", "id": 3, "method": "prompt", "params": params }));
    drop(mock.input.take());
    assert!(mock.child.wait().unwrap().success());
    assert_eq!(read_until(&mut mock.output, 3).pop().unwrap()["result"]["sessionId"], session);
}

#[test]
fn defects_end_the_process_and_leave_the_stream_as_they_say() {
    let mut mock = Mock::start(&["--defect", "dies-on-bad-json"]);
    writeln!(mock.input.as_mut().unwrap(), "{{oops").unwrap();
    assert_eq!(mock.child.wait().unwrap().code(), Some(1));

    let mut mock = Mock::start(&["--defect", "banner", "--defect", "goodbye-line"]);
    drop(mock.input.take());
    let mut all = String::new();
    mock.output.read_to_string(&mut all).unwrap();
    assert_eq!(all, "Welcome to the agent, version 1.0\nGoodbye!\n");
}

#[test]
fn a_grandchild_writes_into_the_stream() {
    let mut mock = Mock::start(&["--defect", "grandchild-writes-stdout"]);
    mock.send(
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }),
    );
    // The two do not wait for each other.
    let mut lines = [(); 2].map(|()| {
        let mut line = String::new();
        mock.output.read_line(&mut line).unwrap();
        line
    });
    lines.sort();
    assert_eq!(lines[0], "installing dependencies...\n");
    let answer: Value = serde_json::from_str(&lines[1]).unwrap();
    assert!(answer["id"] == 1 && answer["result"].is_object(), "{answer}");
}

#[test]
fn others_on_the_network_need_a_token() {
    for args in [&["--bind", "0.0.0.0"][..], &["--bind", "::"], &["--bind", "0.0.0.0", "--require-auth"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acp"));
        let out = command.args(["mock", "--port", "0"]).args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("--listen-token TOKEN"), "{args:?}");
    }
}

/// A mock that listens on every interface and demands a token, and its port on this machine.
fn guarded(scheme: &str, dialect: &str) -> (Mock, std::net::SocketAddr) {
    let listen = format!("{scheme}://0.0.0.0:0");
    let mut mock = Mock::start(&["--listen", &listen, "--listen-token", "s3cret", "--dialect", dialect]);
    let mut line = String::new();
    mock.output.read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let mut address: std::net::SocketAddr = told["listening"].as_str().unwrap().parse().unwrap();
    address.set_ip([127, 0, 0, 1].into());
    (mock, address)
}

#[test]
fn nothing_is_started_for_a_client_that_has_not_shown_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("started");
    let script = format!("touch {}", marker.display());
    let server = json!({ "name": "x", "command": "/bin/sh", "args": ["-c", script], "env": [] });
    let wrong = json!({ "jsonrpc": "2.0", "method": "_proxy/token", "params": { "token": "wrong" } });
    let asks = [
        ("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} })),
        ("authenticate", json!({ "methodId": "mock-login" })),
        ("authenticate", json!({ "methodId": "mock-login", "_meta": { "token": "wrong" } })),
        ("authenticate", json!({ "methodId": "token", "type": "token", "token": "wrong" })),
        ("session/new", json!({ "cwd": "/", "mcpServers": [server.clone()] })),
        ("session/create", json!({ "cwd": "/", "mcpServers": [server.clone()] })),
        ("session/load", json!({ "sessionId": "s", "cwd": "/", "mcpServers": [server.clone()] })),
    ];
    for dialect in ["auto", "v1", "2025.1", "probe", "go", "delta"] {
        for first in [None, Some(&wrong)] {
            let (_mock, address) = guarded("tcp", dialect);
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            if let Some(first) = first {
                writeln!(stream, "{first}").unwrap();
            }
            for (id, (method, params)) in (1..).zip(&asks) {
                writeln!(
                    stream,
                    "{}",
                    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
                )
                .unwrap();
            }
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard);
            let heard = String::from_utf8_lossy(&heard);
            let sessions =
                heard.lines().filter(|line| line.contains("\"sessionId\":\"") && line.contains("\"result\""));
            assert_eq!(sessions.count(), 0, "{dialect}: {heard}");
            assert!(!marker.exists(), "{dialect}: a command was run: {heard}");
        }
    }
}

#[test]
fn the_mock_lets_in_those_who_show_its_token() {
    for scheme in ["tcp", "ws"] {
        let (_mock, address) = guarded(scheme, "v1");
        let address = format!("{scheme}://{address}");
        let prompt = |more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_acp"));
            command.args(["prompt", "Say 'let in'", "--connect", &address]).args(more);
            command.env_remove("ACP_CONNECT_TOKEN").output().unwrap()
        };
        let good = prompt(&["--connect-token", "s3cret"]);
        assert!(String::from_utf8_lossy(&good.stdout).contains("let in"), "{good:?}");
        for bad in [&["--auth", "mock-login"][..], &["--auth", "mock-login", "--connect-token", "wrong"]] {
            let refused = prompt(bad);
            let said = String::from_utf8_lossy(&refused.stderr);
            assert!(!refused.status.success() && said.contains("token"), "{scheme} {bad:?}: {said}");
            assert!(!String::from_utf8_lossy(&refused.stdout).contains("let in"), "{scheme} {bad:?}");
        }
    }
}

#[test]
fn sessions_and_journals_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (state, journal) = (folder.path().join("state"), folder.path().join("journal"));
    let (state_dir, journal_file) = (state.to_str().unwrap(), journal.to_str().unwrap());
    let mut mock = Mock::start(&["--dialect", "v1", "--state-dir", state_dir, "--journal", journal_file]);
    mock.ask(1, "initialize", json!({ "protocolVersion": 1 }));
    mock.ask(2, "session/new", json!({ "cwd": "/", "mcpServers": [] }));
    let files = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.chain([journal]).collect();
    assert!(files.len() > 1, "{files:?}");
    for file in files {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file:?}");
    }
}

#[test]
fn unknown_names_are_usage_errors() {
    for args in [["--defect", "no-such"], ["--fault", "dance"], ["--dialect", "klingon"]] {
        let out = Command::new(env!("CARGO_BIN_EXE_acp")).arg("mock").args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(!out.stderr.is_empty());
    }
}

#[test]
fn defects_are_listed_with_their_requirements() {
    let out = Command::new(env!("CARGO_BIN_EXE_acp")).args(["mock", "--list-defects"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.lines().count() > 250 && text.contains("CAN-01"), "{text}");
    let out =
        Command::new(env!("CARGO_BIN_EXE_acp")).args(["mock", "--list-defects", "--json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(
        list.as_array().unwrap().iter().all(|defect| !defect["requirements"].as_array().unwrap().is_empty())
    );
}

#[test]
fn a_script_is_followed_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    let script = json!({
        "rules": [{ "method": "session/prompt", "do": [{ "say": "scripted" }, { "end": "refusal" }] }],
        "verify": [{ "say": "prompts", "frame": { "method": "session/prompt" }, "times": 2 }],
    });
    std::fs::write(&file, script.to_string()).unwrap();
    let mut mock = Mock::start(&["--script", file.to_str().unwrap()]);
    mock.ask(1, "initialize", json!({ "protocolVersion": 1 }));
    let session = mock.ask(2, "session/new", json!({ "cwd": "/", "mcpServers": [] })).pop().unwrap();
    let prompt =
        json!({ "sessionId": session["result"]["sessionId"], "prompt": [{ "type": "text", "text": "Hi" }] });
    assert_eq!(mock.ask(3, "session/prompt", prompt).last().unwrap()["result"]["stopReason"], "refusal");
    drop(mock.input.take());
    assert_eq!(mock.child.wait().unwrap().code(), Some(1), "the client prompted once instead of twice");
}

#[test]
fn the_journal_is_written_as_it_comes_and_an_unwritable_one_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.ndjson");
    let mut mock = Mock::start(&["--stdio", "--dialect", "v1", "--journal", path.to_str().unwrap()]);
    mock.ask(1, "initialize", json!({ "protocolVersion": 1 }));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"initialize\""), "{text}");
    drop(mock);
    let output = Command::new(env!("CARGO_BIN_EXE_acp"))
        .args(["mock", "--stdio", "--journal", "/no/such/folder/journal"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot write the journal /no/such/folder/journal"), "{said}");
}

#[test]
fn the_defects_of_an_area_are_listed_with_what_brings_them_out() {
    let list = |word: &str| {
        Command::new(env!("CARGO_BIN_EXE_acp")).args(["mock", "--list-defects", word]).output().unwrap()
    };
    for word in ["permission", "PERM", "perm-03"] {
        let text = String::from_utf8(list(word).stdout).unwrap();
        assert!(text.contains("executes-despite-rejection"), "{word}: {text}");
        assert!(text.contains("prompt: Create a file named made.txt with text 'done'."), "{word}: {text}");
        assert!(!text.contains("accepts-unknown-session"), "{word}: {text}");
    }
    assert_eq!(list("no such thing").status.code(), Some(2));
}

#[test]
fn a_signal_ends_a_mock_with_its_record_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.ndjson");
    std::fs::write(&path, "an older recording").unwrap();
    for at_port in [true, false] {
        let port: &[&str] = if at_port { &["--port", "0"] } else { &[] };
        let mut mock = Mock::start(&[&["--record", path.to_str().unwrap()], port].concat());
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        let stream = at_port.then(|| {
            let mut line = String::new();
            mock.output.read_line(&mut line).unwrap();
            let line: Value = serde_json::from_str(&line).unwrap();
            TcpStream::connect(line["listening"].as_str().unwrap()).unwrap()
        });
        match &stream {
            None => drop(mock.ask(1, "initialize", params)),
            Some(stream) => {
                let mut stream = stream.try_clone().unwrap();
                let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
                writeln!(stream, "{frame}").unwrap();
                read_until(&mut BufReader::new(stream), 1);
            }
        }
        // At once: the tail of the recording is still in memory.
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&mock.child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        assert_eq!(mock.child.wait().unwrap().code(), Some(143));
        let text = std::fs::read_to_string(&path).unwrap();
        let frames: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ways: Vec<&Value> = frames.iter().map(|frame| &frame["dir"]).collect();
        assert_eq!(ways, ["c2a", "a2c"], "{text}");
    }
}
