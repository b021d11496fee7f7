//! The documents of the protocol's forms, statement by statement, against the mock and the reference agent.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::talk::{ACP, Place, Talk};
use acp_testkit::live::heeding_signals;

/// `acp mock` with these flags.
fn mock(flags: &[&str]) -> Command {
    let mut command = heeding_signals(ACP);
    command.arg("mock").args(flags);
    command
}

/// The `initialize` of the document of 2025.1, in this folder.
fn hello_2025_1(folder: &Path) -> Value {
    json!({
        "protocol_version": "2025.1",
        "client_info": { "name": "my-editor", "version": "1.0.0" },
        "capabilities": { "text_files": true, "terminal": true, "experimental": {} },
        "working_directory": folder,
        "mcp_servers": [],
    })
}

#[test]
fn the_handshake_of_2025_1_is_the_documented_one() {
    let place = Place::new();
    for command in [mock(&[]), place.agent(&[])] {
        let mut talk = Talk::start(command);
        let answer = talk.ask("initialize", &hello_2025_1(&place.work()));
        let result = &answer["result"];
        assert!(
            result["agent_info"]["name"].is_string() && result["agent_info"]["version"].is_string(),
            "{answer}"
        );
        let capabilities = &result["capabilities"];
        assert_eq!(capabilities["streaming"], true, "{answer}");
        assert_eq!(capabilities["audio"], false, "{answer}");
        assert_eq!(capabilities["image"], true, "{answer}");
        let modes = capabilities["supported_modes"].as_array().expect("modes");
        assert!(modes.contains(&json!("agent")) && modes.contains(&json!("ask")), "{answer}");
        let tools = capabilities["tools"].as_array().expect("a list of tools");
        assert!(tools.contains(&json!("read_file")), "{answer}");
        assert!(result["instructions"].as_str().is_some_and(|words| words.starts_with("I am ")), "{answer}");
        assert_eq!(talk.end().0, Some(0));
    }
}

#[test]
fn in_the_mode_ask_of_2025_1_no_file_is_written() {
    let place = Place::new();
    // Even for who answers yes wherever nobody can be asked.
    for command in [mock(&["--unasked", "allow"]), place.agent(&[])] {
        let mut talk = Talk::start(command);
        talk.ask("initialize", &hello_2025_1(&place.work()));
        let new = talk.ask("session/new", &json!({ "session_id": "abc123", "mode": "ask" }));
        assert_eq!(new["result"]["status"], "ok", "{new}");
        let content = json!([{ "type": "text", "text": "Create a file named made.txt with text 'done'." }]);
        let done = talk.ask("session/prompt", &json!({ "session_id": "abc123", "content": content }));
        assert_eq!(done["result"]["status"], "ok", "{done}");
        assert!(talk.heard.iter().all(|frame| frame["method"] != "fs/write_text_file"), "{:?}", talk.heard);
        assert!(!place.work().join("made.txt").exists());
        let named = ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"];
        let updates: Vec<&Value> =
            talk.heard.iter().filter(|frame| frame["method"] == "session/update").collect();
        assert!(!updates.is_empty());
        for update in updates {
            let kind = update["params"]["type"].as_str().unwrap_or_default();
            assert!(named.contains(&kind), "2025.1 does not name {update}");
        }
        assert_eq!(talk.end().0, Some(0));
    }
}

#[test]
fn a_2025_1_agent_works_in_the_folder_of_its_v1_client() {
    let place = Place::new();
    let folder = place.folder.path().canonicalize().expect("a real path");
    let [a, b] = ["a", "b"].map(|name| folder.join(name));
    for work in [&a, &b] {
        std::fs::create_dir(work).expect("a folder");
    }
    let script = |name: &str, body: &str| {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a script");
        assert!(Command::new("chmod").arg("+x").arg(&path).status().expect("chmod").success());
        path
    };
    let log = folder.join("log");
    let flags = "agent --dialect 2025.1 --no-state --enable-mcp --allow Bash";
    let agent = script("agent.sh", &format!("pwd -P >> {}; exec {ACP} {flags}", log.display()));
    let stub = script("stub.sh", &format!("exec {ACP} mcp-stub"));
    let mut command = heeding_signals(ACP);
    command.args(["proxy", "--listen", "stdio", "--dialect", "2025.1", "--quiet", "--command"]);
    command.arg(&agent).current_dir(place.work());

    let mut talk = Talk::v1(command, &json!({}));
    let sessions: Vec<String> = [&a, &b, &a].map(|work| talk.session(work, &json!([]))).into();
    for (session, work) in sessions.iter().zip([&a, &b, &a]) {
        talk.heard.clear();
        talk.prompt(session, "Run the command pwd -P");
        assert!(talk.words().contains(&work.display().to_string()), "{}", talk.words());
    }
    let started = std::fs::read_to_string(&log).expect("the log");
    let started: Vec<&Path> = started.lines().map(Path::new).collect();
    let own = place.work().canonicalize().expect("a real path");
    assert_eq!(started, [own.as_path(), &a, &b], "one process per folder");

    let with_args = json!([{ "name": "web", "command": "/bin/web", "args": ["--fast"], "env": [] }]);
    let refused = talk.ask("session/new", &json!({ "cwd": a, "mcpServers": with_args }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(refused["error"]["message"].as_str().is_some_and(|words| words.contains("\"web\"")), "{refused}");
    let servers = json!([{ "name": "stub", "command": stub, "args": [], "env": [] }]);
    let session = talk.session(&a, &servers);
    talk.heard.clear();
    talk.prompt(&session, "Which MCP tools do you have?");
    assert!(talk.words().contains("stub offers ping"), "{}", talk.words());
    assert_eq!(talk.end().0, Some(0));
}

#[test]
fn an_invalid_request_of_probe_is_answered_with_its_id() {
    let place = Place::new();
    for command in [mock(&["--dialect", "probe"]), place.agent(&["--dialect", "probe"])] {
        let mut talk = Talk::start(command);
        talk.ask("initialize", &json!({ "protocolVersion": "1" }));
        for (id, broken) in [
            (71, json!({ "jsonrpc": "2.0", "id": 71, "method": 42, "params": {} })),
            (72, json!({ "jsonrpc": "1.0", "id": 72, "method": "newSession", "params": {} })),
            (73, json!({ "jsonrpc": "2.0", "id": 73, "method": "newSession", "params": "none" })),
            (74, json!({ "jsonrpc": "2.0", "id": 74 })),
        ] {
            talk.write(&broken);
            let answer = talk.answer(id);
            assert_eq!(answer["error"]["code"], -32600, "{answer}");
        }
        assert_eq!(talk.end().0, Some(0));
    }
}

#[test]
fn a_client_that_cannot_name_mcp_servers_has_those_of_the_flag() {
    let place = Place::new();
    let mut command = heeding_signals(ACP);
    command.args(["agent", "--no-state", "--dialect", "probe", "--mcp"]);
    command.arg(format!("stub={ACP} mcp-stub")).current_dir(place.work());
    let mut talk = Talk::start(command);
    talk.ask("initialize", &json!({ "protocolVersion": "1" }));
    let new = talk.ask("newSession", &json!({}));
    let session = new["result"]["sessionId"].as_str().expect("a session").to_owned();
    let message = "Call the tool ping of the server stub";
    let done = talk.ask("prompt", &json!({ "sessionId": session, "message": message }));
    assert!(
        done["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("pong")),
        "{done}"
    );
    assert_eq!(talk.end().0, Some(0));
}

#[test]
fn go_has_its_permission_modes_and_a_word_for_a_cancelled_tool() {
    let place = Place::new();
    let mut talk = Talk::v1(mock(&["--dialect", "go"]), &json!({ "terminal": true }));
    let session = talk.session(&place.work(), &json!([]));
    for mode in ["acceptEdits", "bypassPermissions", "plan", "default"] {
        talk.heard.clear();
        let set = talk.ask("session/set_mode", &json!({ "sessionId": session, "modeId": mode }));
        assert!(set.get("result").is_some(), "{set}");
        let told = talk.updates().into_iter().find(|update| update["sessionUpdate"] == "current_mode_update");
        assert_eq!(told.expect("an update")["currentModeId"], mode);
    }
    let prompt = talk.send_prompt(&session, "Run the command sleep 60");
    let create = talk.until(|frame| frame["method"] == "terminal/create");
    talk.write(&json!({ "jsonrpc": "2.0", "id": create["id"], "result": { "terminalId": "t" } }));
    talk.until(|frame| frame["method"] == "terminal/wait_for_exit");
    talk.tell("session/cancel", &json!({ "sessionId": session }));
    for method in ["terminal/kill", "terminal/release"] {
        let asked = talk.until(|frame| frame["method"] == method);
        talk.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": {} }));
    }
    assert_eq!(talk.answer(prompt)["result"]["stopReason"], "cancelled");
    let mut calls = talk.updates().into_iter().filter(|update| update["kind"] == "tool_call_update");
    assert_eq!(calls.next_back().expect("a call")["status"], "cancelled");
    assert_eq!(talk.end().0, Some(0));
}

#[test]
fn the_agent_is_started_on_a_port_as_documented() {
    let place = Place::new();
    let mut command = place.agent(&["--acp", "--port", "0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("acp");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let told: Value = serde_json::from_str(&line).expect("JSON");
    let mut stream = TcpStream::connect(told["listening"].as_str().expect("an address")).expect("it listens");
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
                        "params": { "protocolVersion": "2025-01-01", "capabilities": {} } });
    writeln!(stream, "{hello}").expect("it reads");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("an answer");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["result"]["protocolVersion"], "2025-01-01", "{answer}");
}

/// What the official kit calls ACP-LOAD-002.
#[test]
fn nothing_is_sent_for_a_loaded_session_after_the_answer() {
    let place = Place::new();
    let state = place.folder.path().join("mock-state");
    for start in [&|| mock(&["--state-dir", &state.display().to_string()]) as Command, &|| place.agent(&[])]
        as [&dyn Fn() -> Command; 2]
    {
        let mut talk = Talk::v1(start(), &json!({}));
        let session = talk.session(&place.work(), &json!([]));
        talk.prompt(&session, "Say 'hello'");
        assert_eq!(talk.end().0, Some(0));
        let mut talk = Talk::v1(start(), &json!({}));
        let params = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
        let loaded = talk.ask("session/load", &params);
        assert!(loaded.get("result").is_some(), "{loaded}");
        let kinds = |talk: &Talk| -> Vec<String> {
            talk.updates().iter().map(|update| update["sessionUpdate"].to_string()).collect()
        };
        let before = kinds(&talk);
        assert!(before.iter().any(|kind| kind.contains("available_commands_update")), "{before:?}");
        talk.heard.clear();
        talk.ask("_acp.workbench/marker", &json!({}));
        assert!(kinds(&talk).is_empty(), "{:?}", talk.heard);
        assert_eq!(talk.end().0, Some(0));
    }
}
