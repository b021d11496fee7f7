//! The form of `newSession` and `messageChunk`, exactly.

use acp_agent::{AgentServerSettings, State};
use acp_policy::Policy;
use serde_json::{Value, json};

use crate::harness::{Place, Talk, server};

async fn begin(settings: AgentServerSettings) -> (Talk, String) {
    let server = server(settings);
    let mut talk = Talk::with(&server);
    talk.ask("initialize", &json!({ "protocolVersion": "1" })).await;
    let new = talk.ask("newSession", &json!({})).await;
    let session = new["result"]["sessionId"].as_str().expect("a session").to_owned();
    assert_eq!(new["result"]["mode"], "NORMAL");
    assert!(new["result"]["createdAt"].as_str().is_some_and(|time| time.ends_with('Z')), "{new}");
    (talk, session)
}

impl Talk {
    async fn ask_in_words(&mut self, session: &str, message: &str) -> Value {
        self.ask("prompt", &json!({ "sessionId": session, "message": message })).await
    }
}

#[tokio::test]
async fn initialize_tells_the_tools_and_refuses_other_versions() {
    let place = Place::new();
    let server = server(place.settings());
    let mut talk = Talk::with(&server);
    let ready = talk.ask("initialize", &json!({ "protocolVersion": "1" })).await;
    assert_eq!(ready["result"]["protocolVersion"], "1");
    assert_eq!(ready["result"]["serverInfo"]["name"], "acp-agent");
    let capabilities = &ready["result"]["capabilities"];
    assert_eq!(
        capabilities["tools"],
        json!([
            { "name": "search", "kind": "search" },
            { "name": "query", "kind": "query" },
            { "name": "extract", "kind": "extract" },
            { "name": "delegate", "kind": "execute" },
        ])
    );
    assert_eq!(
        (&capabilities["sessionManagement"], &capabilities["streaming"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(capabilities["permissions"], false);
    let mut other = Talk::with(&server);
    let refused = other.ask("initialize", &json!({ "protocolVersion": "2" })).await;
    assert_eq!(refused["error"]["code"], -32001, "{refused}");
}

#[tokio::test]
async fn a_turn_is_progress_then_chunks_then_the_answer_and_nothing_after() {
    let place = Place::new();
    let (mut talk, session) = begin(place.settings()).await;
    let from = talk.heard.len();
    let done = talk.ask_in_words(&session, "Search for 'authenticate'").await;
    let answer = done["result"]["content"][0]["text"].as_str().expect("an answer").to_owned();
    assert!(answer.contains("lib.rs"), "{answer}");
    assert_eq!(done["result"]["sessionId"], session.as_str());
    assert!(done["result"]["timestamp"].is_string());
    let turn = &talk.heard[from..];
    let progress: Vec<&Value> = turn
        .iter()
        .filter(|frame| frame["method"] == "toolCallProgress")
        .map(|frame| &frame["params"]["toolCall"])
        .collect();
    let states: Vec<&str> = progress.iter().filter_map(|call| call["status"].as_str()).collect();
    assert_eq!(states, ["pending", "in_progress", "completed"]);
    for call in progress {
        assert_eq!((&call["name"], &call["kind"]), (&json!("search"), &json!("search")));
        assert!(call["startTime"].as_u64().is_some_and(|time| time > 1_600_000_000_000), "{call}");
    }
    let chunks: Vec<&Value> =
        turn.iter().filter(|frame| frame["method"] == "messageChunk").map(|frame| &frame["params"]).collect();
    let indexes: Vec<u64> = chunks.iter().filter_map(|chunk| chunk["index"].as_u64()).collect();
    assert_eq!(indexes, (0..chunks.len() as u64).collect::<Vec<_>>());
    let said: String = chunks.iter().filter_map(|chunk| chunk["chunk"].as_str()).collect();
    assert_eq!(said, answer);
    let known = ["toolCallProgress", "messageChunk"];
    let others: Vec<&Value> = turn
        .iter()
        .filter(|frame| frame["method"].as_str().is_some_and(|method| !known.contains(&method)))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    let all = talk.close().await;
    assert_eq!(all.last(), Some(&done), "nothing comes after the answer");
}

#[tokio::test]
async fn modes_are_changed_told_and_obeyed() {
    let place = Place::new();
    let (mut talk, session) = begin(place.settings()).await;
    let set = json!({ "sessionId": session, "mode": "PLANNING" });
    assert!(talk.ask("setSessionMode", &set).await.get("result").is_some());
    let told = talk.heard.iter().find(|frame| frame["method"] == "sessionUpdated").expect("a notification");
    assert_eq!(told["params"]["mode"], "PLANNING");
    assert!(told["params"]["updatedAt"].is_string());
    let write = talk.ask_in_words(&session, "Write 'x' to a.txt").await;
    assert_eq!(write["error"]["code"], -32003, "{write}");
    let file = talk.ask("writeTextFile", &json!({ "path": "a.txt", "content": "x" })).await;
    assert_eq!(file["error"]["code"], -32003, "{file}");
    assert_eq!(place.read("a.txt"), None);
    let read = talk.ask_in_words(&session, "Read notes.txt").await;
    let answer = read["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(
        answer.starts_with("The plan:\n- Read notes.txt\n"),
        "this form has no plans but in words: {read}"
    );
    assert!(answer.contains("rosemary"), "{read}");
}

#[tokio::test]
async fn each_error_has_its_number() {
    let place = Place::new();
    let (mut talk, session) = begin(AgentServerSettings { allow_edit: false, ..place.settings() }).await;
    let unknown = talk.ask_in_words("nobody", "hello").await;
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
    let lost = talk.ask("loadSession", &json!({ "sessionId": "nobody" })).await;
    assert_eq!(lost["error"]["code"], -32002, "{lost}");
    std::os::unix::fs::symlink("/etc", place.work().join("link")).expect("a link");
    for wish in [
        "Read /etc/passwd",
        "Write 'x' to a.txt",
        "Read ../state/owner",
        "Extract /etc/hostname",
        "Extract link/hostname",
        "Search for 'root' in /etc",
    ] {
        let denied = talk.ask_in_words(&session, wish).await;
        assert_eq!(denied["error"]["code"], -32003, "{wish}: {denied}");
    }
    for wish in ["Read missing.txt", "Query the pattern 'foo($A)' in klingon"] {
        let failed = talk.ask_in_words(&session, wish).await;
        assert_eq!(failed["error"]["code"], -32004, "{wish}: {failed}");
    }
    let unasked = talk.ask_in_words(&session, "Run the command 'make all'").await;
    assert_eq!(unasked["error"]["code"], -32003, "{unasked}");
    let words = unasked["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("cannot be asked") && words.contains("--allow 'Bash(make *)'"), "{words}");
    assert_eq!(talk.ask("noSuchMethod", &json!({})).await["error"]["code"], -32601);
    let fine = talk.ask_in_words(&session, "Say 'fine'").await;
    assert_eq!(fine["result"]["content"][0]["text"], "fine");
}

#[tokio::test]
async fn files_are_read_and_written_for_the_client_inside_the_path_only() {
    let place = Place::new();
    let (mut talk, _) = begin(place.settings()).await;
    let read = talk.ask("readTextFile", &json!({ "path": "notes.txt" })).await;
    assert_eq!(read["result"]["content"], "rosemary\nthyme\n");
    let write = talk.ask("writeTextFile", &json!({ "path": "new/b.txt", "content": "sage" })).await;
    assert_eq!(write["result"]["success"], true, "{write}");
    assert_eq!(place.read("new/b.txt").as_deref(), Some("sage"));
    for path in ["../outside.txt", "/etc/passwd"] {
        let denied = talk.ask("readTextFile", &json!({ "path": path })).await;
        assert_eq!(denied["error"]["code"], -32003, "{path}: {denied}");
        let denied = talk.ask("writeTextFile", &json!({ "path": path, "content": "x" })).await;
        assert_eq!(denied["error"]["code"], -32003, "{path}: {denied}");
    }
    let missing = talk.ask("readTextFile", &json!({ "path": "missing.txt" })).await;
    assert_eq!(missing["error"]["code"], -32004, "{missing}");
    assert_eq!(talk.ask("readTextFile", &json!({})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn files_that_are_denied_are_not_given_to_the_client_either() {
    let place = Place::new();
    std::fs::create_dir(place.work().join("secret")).expect("a folder");
    place.write("secret/key.txt", "hush");
    std::os::unix::fs::symlink("secret/key.txt", place.work().join("link.txt")).expect("a link");
    let deny = acp_policy::ToolPatterns::parse(["Read(secret/**)", "Edit(kept/**)"]).expect("patterns");
    let (mut talk, _) = begin(AgentServerSettings { deny, ..place.settings() }).await;
    for path in ["secret/key.txt", "kept/../secret//key.txt", "link.txt"] {
        let denied = talk.ask("readTextFile", &json!({ "path": path })).await;
        assert_eq!(denied["error"]["code"], -32003, "{path}: {denied}");
    }
    let denied = talk.ask("writeTextFile", &json!({ "path": "kept/a.txt", "content": "x" })).await;
    assert_eq!((&denied["error"]["code"], place.read("kept/a.txt")), (&json!(-32003), None), "{denied}");
    let read = talk.ask("readTextFile", &json!({ "path": "notes.txt" })).await;
    assert_eq!(read["result"]["content"], "rosemary\nthyme\n");
}

#[tokio::test]
async fn files_are_the_clients_as_far_as_the_policy_goes() {
    let place = Place::new();
    let allow = acp_policy::ToolPatterns::parse(["Edit(open/**)"]).expect("a pattern");
    for (policy, reads, writes) in [
        (Policy::None, false, false),
        (Policy::Read, true, false),
        (Policy::Plan, true, false),
        (Policy::Write, true, true),
        (Policy::Default, true, true),
    ] {
        let (state, allow) = (State::Memory, allow.clone());
        let server = server(AgentServerSettings { policy, state, allow, ..place.settings() });
        let mut talk = Talk::with(&server);
        talk.ask("initialize", &json!({ "protocolVersion": "1" })).await;
        let read = talk.ask("readTextFile", &json!({ "path": "notes.txt" })).await;
        assert_eq!(read.get("result").is_some(), reads, "{policy}: {read}");
        for (path, may) in [("a.txt", writes), ("open/a.txt", policy != Policy::Plan)] {
            let write = talk.ask("writeTextFile", &json!({ "path": path, "content": "x" })).await;
            assert_eq!(
                (write.get("result").is_some(), place.read(path).is_some()),
                (may, may),
                "{policy}: {write}"
            );
            assert!(may || write["error"]["code"] == -32003, "{policy}: {write}");
            if may {
                std::fs::remove_file(place.work().join(path)).expect("it is there");
            }
        }
    }
}

#[tokio::test]
async fn files_are_not_for_those_who_have_not_signed_in() {
    let place = Place::new();
    let server = server(AgentServerSettings { token: Some("sesame".to_owned()), ..place.settings() });
    let mut talk = Talk::with(&server);
    talk.ask("initialize", &json!({ "protocolVersion": "1" })).await;
    let read = talk.ask("readTextFile", &json!({ "path": "notes.txt" })).await;
    assert_eq!(read["error"]["code"], -32003, "{read}");
    let write = talk.ask("writeTextFile", &json!({ "path": "b.txt", "content": "x" })).await;
    assert_eq!(write["error"]["code"], -32003, "{write}");
    assert_eq!(place.read("b.txt"), None);
}

#[tokio::test]
async fn cancel_is_acknowledged_and_the_session_stays_usable() {
    let place = Place::new();
    let (mut talk, session) = begin(place.settings()).await;
    let prompt =
        talk.send("prompt", &json!({ "sessionId": session, "message": "Count slowly to 500" })).await;
    talk.until(|frame| frame["method"] == "messageChunk").await;
    let cancel = talk.send("cancel", &json!({ "sessionId": session })).await;
    assert_eq!(talk.answer(cancel).await["result"]["success"], true);
    let cancelled = talk.heard.iter().find(|frame| frame["id"] == prompt).cloned();
    let cancelled = match cancelled {
        Some(answer) => answer,
        None => talk.answer(prompt).await,
    };
    assert!(cancelled.to_string().contains("cancelled"), "{cancelled}");
    let next = talk.ask_in_words(&session, "Say 'still here'").await;
    assert_eq!(next["result"]["content"][0]["text"], "still here");
}

#[tokio::test]
async fn a_cancelled_tool_fails_and_its_prompt_stays_a_message_of_its_own() {
    let place = Place::new();
    let allow = acp_policy::ToolPatterns::parse(["Bash(sleep *)"]).expect("a pattern");
    let (mut talk, session) = begin(AgentServerSettings { allow, ..place.settings() }).await;
    let wish = "Run the command 'sleep 600'";
    let prompt = talk.send("prompt", &json!({ "sessionId": session, "message": wish })).await;
    talk.until(|frame| frame["params"]["toolCall"]["status"] == "in_progress").await;
    let second = talk.ask_in_words(&session, "Say 'me too'").await;
    assert!(
        second["error"]["message"].as_str().is_some_and(|words| words.contains("still running")),
        "{second}"
    );
    talk.send("cancel", &json!({ "sessionId": session })).await;
    let cancelled = talk.answer(prompt).await;
    assert!(cancelled.get("result").is_some(), "{cancelled}");
    let last = talk.heard.iter().rfind(|frame| frame["method"] == "toolCallProgress").expect("progress");
    assert_eq!(last["params"]["toolCall"]["status"], "failed");
    talk.ask_in_words(&session, "Say 'good morning'").await;
    let loaded = talk.ask("loadSession", &json!({ "sessionId": session })).await;
    let history = loaded["result"]["history"].as_array().expect("a history");
    let said: Vec<&str> = history.iter().filter_map(|entry| entry["content"].as_str()).collect();
    assert_eq!(said, [wish, "Say 'good morning'", "good morning"]);
}

#[tokio::test]
async fn history_is_loaded_after_a_restart() {
    let place = Place::new();
    let (mut talk, session) = begin(place.settings()).await;
    talk.ask_in_words(&session, "Say 'good morning'").await;
    talk.close().await;
    let server = loop {
        // The first server lets its database go when its last connection has ended.
        match acp_agent::AgentServer::new(place.settings(), &|_| None) {
            Ok(server) => break std::sync::Arc::new(server),
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let mut again = Talk::with(&server);
    again.ask("initialize", &json!({ "protocolVersion": "1" })).await;
    let loaded = again.ask("loadSession", &json!({ "sessionId": session })).await;
    assert_eq!(
        loaded["result"]["history"],
        json!([
            { "role": "user", "content": "Say 'good morning'" },
            { "role": "assistant", "content": "good morning" },
        ])
    );
}

#[tokio::test]
async fn errors_name_the_fields_of_the_form() {
    let place = Place::new();
    let (mut talk, session) = begin(place.settings()).await;
    for (method, params, words) in [
        ("prompt", json!({ "sessionId": session }), "params.message is missing"),
        ("setSessionMode", json!({ "sessionId": session }), "params.mode is missing"),
        (
            "setSessionMode",
            json!({ "sessionId": session, "mode": "x" }),
            "params.mode: there is no mode \"x\"",
        ),
    ] {
        let refused = talk.ask(method, &params).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert!(refused["error"]["message"].as_str().is_some_and(|said| said.contains(words)), "{refused}");
    }
}
