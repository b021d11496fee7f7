//! What must not be lost, and what is said when something dies: the agent itself, its database, a server, a model.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use super::driver::{Agent, Model, acp, prompt};
use super::folder;

fn keeping(state: &Path, work: &Path, more: &[&str]) -> Agent {
    let (state, work) = (state.display().to_string(), work.display().to_string());
    let mut args = vec!["--state-dir", &state, "--path", &work, "--allow-edit", "--enable-mcp"];
    args.extend(more);
    Agent::start(&args, &[])
}

/// What a session's load tells again: text by kind, and calls by id with their last state.
fn told(agent: &Agent, kind: &str) -> String {
    agent.text_of(kind)
}

fn calls(agent: &Agent) -> Vec<(String, Value, Value)> {
    let mut calls: Vec<(String, Value, Value)> = Vec::new();
    for update in agent.heard.iter().map(|frame| &frame["params"]["update"]) {
        let id = update["toolCallId"].as_str().unwrap_or_default();
        match update["sessionUpdate"].as_str() {
            Some("tool_call") => {
                calls.push((id.to_owned(), update["kind"].clone(), update["status"].clone()));
            }
            Some("tool_call_update") if update["status"].is_string() => {
                if let Some(call) = calls.iter_mut().find(|call| call.0 == id) {
                    call.2 = update["status"].clone();
                }
            }
            _ => {}
        }
    }
    calls
}

#[test]
fn what_was_shown_before_a_kill_in_mid_turn_is_there_after_it() {
    let (state, work) = (folder(), folder());
    let mut agent = keeping(state.path(), work.path(), &[]);
    let session = agent.session(work.path());
    let answer = agent.prompt(&session, "Write 'good morning' to note.txt");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    agent.send("session/prompt", &prompt(&session, "Run the command 'sleep 600'"));
    agent.until(|frame| {
        let update = &frame["params"]["update"];
        update["sessionUpdate"] == "tool_call_update"
            && update["status"] == "in_progress"
            && update["toolCallId"] != Value::Null
    });
    let (before, said) = (calls(&agent), told(&agent, "agent_message_chunk"));
    assert_eq!(before.len(), 2, "{before:?}");
    agent.kill();

    let mut agent = keeping(state.path(), work.path(), &[]);
    agent.greet();
    let load = json!({"sessionId": session, "cwd": work.path(), "mcpServers": []});
    let loaded = agent.ask("session/load", &load);
    assert!(loaded.get("result").is_some(), "{loaded}");
    let words = told(&agent, "user_message_chunk");
    assert_eq!(words, "Write 'good morning' to note.txtRun the command 'sleep 600'");
    assert!(told(&agent, "agent_message_chunk").starts_with(&said), "{said:?}");
    let after = calls(&agent);
    assert_eq!(after[0], before[0], "a finished call is told as it was seen");
    assert_eq!((&after[1].0, &after[1].1), (&before[1].0, &before[1].1), "the same call");
    assert_eq!(after[1].2, "failed", "a call that died with the agent does not run for ever");
    let answer = agent.prompt(&session, "Say 'still here'");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(told(&agent, "agent_message_chunk").contains("still here"));
}

#[test]
fn a_models_words_before_a_kill_are_there_after_it_and_it_is_asked_with_them() {
    let (state, work) = (folder(), folder());
    let rules = json!([
        {"when": "go on", "do": {"text": "the end"}},
        {"when": "tell", "do": [
            {"text": "Once upon a time "}, {"call": {"intent": "read", "path": "note.txt"}}, {"text": "there was "}, {"stall": true},
        ]},
    ]);
    std::fs::write(work.path().join("note.txt"), "a note").expect("a note");
    let model = Model::start(state.path(), &rules);
    let provider = ["--provider", "openai", "--model", "m", "--base-url", &model.url];
    let mut agent = keeping(state.path(), work.path(), &provider);
    let session = agent.session(work.path());
    agent.send("session/prompt", &prompt(&session, "tell me"));
    agent.until(|frame| {
        frame["params"]["update"]["content"]["text"].as_str().is_some_and(|text| text.contains("was"))
    });
    agent.kill();
    let mut agent = keeping(state.path(), work.path(), &provider);
    agent.greet();
    agent.ask("session/load", &json!({"sessionId": session, "cwd": work.path(), "mcpServers": []}));
    assert!(told(&agent, "agent_message_chunk").starts_with("Once upon a time "), "{:#?}", agent.heard);
    assert_eq!(calls(&agent).len(), 1);
    let answer = agent.prompt(&session, "go on");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(told(&agent, "agent_message_chunk").ends_with("the end"));
}

#[test]
fn a_damaged_database_is_named_and_not_touched() {
    let work = folder();
    for damage in [&b"this is no database"[..], &[0; 8192], b""] {
        let state = folder();
        let mut agent = keeping(state.path(), work.path(), &[]);
        agent.session(work.path());
        agent.end();
        let file = state.path().join("sessions.redb");
        assert!(file.exists(), "{:?}", std::fs::read_dir(state.path()).map(Iterator::count));
        std::fs::write(&file, damage).expect("the damage is done");
        let (code, errors) = keeping(state.path(), work.path(), &[]).end();
        if damage.is_empty() {
            // An empty file is a database that has not begun.
            assert_eq!(code, Some(0), "{errors}");
            continue;
        }
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains("sessions.redb") && errors.contains("damaged"), "{errors}");
        assert_eq!(std::fs::read(&file).expect("the file"), damage, "nothing was deleted");
    }
}

#[test]
fn a_server_that_dies_in_mid_call_fails_the_call_and_is_told_once() {
    let (state, work) = (folder(), folder());
    let mut agent = keeping(state.path(), work.path(), &[]);
    agent.greet();
    let stub = json!({"name": "stub", "command": env!("CARGO_BIN_EXE_acp"), "args": ["mcp-stub"], "env": []});
    let opened = agent.ask("session/new", &json!({"cwd": work.path(), "mcpServers": [stub]}));
    let session = opened["result"]["sessionId"].as_str().expect("a session").to_owned();
    let answer = agent.prompt(&session, "Call the local MCP tool ping");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(told(&agent, "agent_message_chunk").contains("pong"), "{:#?}", agent.heard);
    let answer = agent.prompt(&session, "Call the MCP tool fail with {\"kind\": \"exit\"}");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let last = calls(&agent).pop().expect("a call");
    assert_eq!(last.2, "failed", "{:#?}", agent.heard);
    let answer = agent.prompt(&session, "Say 'still here'");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(told(&agent, "agent_message_chunk").ends_with("still here"));
    assert_eq!(agent.end().0, Some(0));
}

/// A server that gives every question the same bytes.
fn nonsense(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            // All of it: a connection that is closed with something unread in it is reset, and the answer lost.
            let _ = read_request(&mut stream);
            let _ = stream.write_all(bytes);
        }
    });
    url
}

fn read_request(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    reader.read_exact(&mut vec![0; length])
}

#[test]
fn a_model_that_answers_nonsense_ends_the_turn_in_words() {
    let (state, work) = (folder(), folder());
    for (bytes, words) in [
        (&b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html>Sign in</html>"[..], "a web page"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {nonsense\n\n", "cannot be understood"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n[1,2,3]", "JSON of another kind"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "cannot reach openai"),
    ] {
        let url = nonsense(bytes);
        let provider = ["--provider", "openai", "--model", "m", "--base-url", &url];
        let mut agent = keeping(state.path(), work.path(), &provider);
        let session = agent.session(work.path());
        let error = agent.prompt(&session, "hello")["error"]["message"].to_string();
        assert!(error.contains(words), "{words}: {error}");
        let again = agent.prompt(&session, "hello")["error"]["message"].to_string();
        assert!(again.contains(words), "the session goes on: {again}");
        assert_eq!(agent.end().0, Some(0));
    }
}

#[test]
fn the_models_of_ones_own_server_are_offered() {
    let folder = folder();
    let model = Model::start(folder.path(), &json!([]));
    let mut agent = Agent::start(&["--provider", "ollama", "--no-state"], &[("OLLAMA_HOST", &model.url)]);
    agent.greet();
    let opened = agent.ask("session/new", &json!({"cwd": folder.path(), "mcpServers": []}));
    let options = opened["result"]["configOptions"].as_array().expect("options");
    let models = options.iter().find(|option| option["id"] == "model").expect("a choice of models");
    assert_eq!(models["currentValue"], "stub-model", "{models}");
    assert_eq!(models["options"].as_array().map(Vec::len), Some(4), "{models}");
}

#[test]
fn a_state_folder_that_cannot_be_is_an_error_at_the_start() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").expect("a file");
    let ran = acp().args(["agent", "--state-dir"]).arg(file.join("below")).output().expect("acp runs");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{errors}");
    assert!(errors.contains("state folder") && errors.contains("--state-dir"), "{errors}");
}
