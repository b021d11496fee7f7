//! What the code tools tell the editor, the person and the next connection.

use acp_agent::AgentServerSettings;
use serde_json::{Map, Value, json};

use crate::harness::{Place, Talk, server};

/// Tool calls as a client has them in the end: every update merged into its call.
fn calls(talk: &Talk) -> Vec<Map<String, Value>> {
    let mut calls: Vec<Map<String, Value>> = Vec::new();
    for update in talk.updates() {
        let Some(fields) = update.as_object().filter(|fields| fields.contains_key("toolCallId")) else {
            continue;
        };
        let mut fields = fields.clone();
        fields.remove("sessionUpdate");
        match calls.iter_mut().find(|call| call["toolCallId"] == fields["toolCallId"]) {
            Some(call) => call.extend(fields),
            None => calls.push(fields),
        }
    }
    calls
}

#[tokio::test]
async fn a_result_names_its_places_and_has_its_data_live_and_loaded_alike() {
    let place = Place::new();
    let server = server(place.settings());
    let mut talk = Talk::v1(&server, &json!({})).await;
    let session = talk.session(&place.work()).await;
    let lib = place.work().join("lib.rs");
    for (wish, title, kind, input, line) in [
        ("/search authenticate", "Search \"authenticate\"", "search", json!({ "query": "authenticate" }), 1),
        (
            "Query the pattern 'name == $A' in rust",
            "Query `name == $A` in rust",
            "search",
            json!({ "pattern": "name == $A", "language": "rust" }),
            3,
        ),
        (
            "Extract lib.rs#authenticate",
            "Extract lib.rs#authenticate",
            "read",
            json!({ "files": ["lib.rs#authenticate"] }),
            1,
        ),
    ] {
        assert_eq!(talk.prompt(&session, wish).await["result"]["stopReason"], "end_turn");
        let call = calls(&talk).pop().expect("a call");
        assert_eq!((&call["title"], &call["kind"]), (&json!(title), &json!(kind)), "{wish}");
        assert_eq!((&call["rawInput"], &call["status"]), (&input, &json!("completed")), "{wish}");
        assert_eq!(call["locations"], json!([{ "path": lib, "line": line }]), "{wish}");
        let result = &call["rawOutput"]["results"][0];
        assert_eq!(
            (&result["file"], &result["lines"][0]),
            (&json!("lib.rs"), &json!(line)),
            "{wish}: {call:?}"
        );
        assert!(result["code"].as_str().is_some_and(|code| code.contains("name ==")), "{wish}: {call:?}");
    }
    assert!(calls(&talk)[0]["rawOutput"]["results"][0]["score"].is_number());
    talk.ask("session/close", &json!({ "sessionId": session })).await;
    let mut other = Talk::v1(&server, &json!({})).await;
    let params = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
    other.ask("session/load", &params).await;
    assert_eq!(calls(&other), calls(&talk));
}

#[tokio::test]
async fn what_extract_cannot_find_is_a_call_that_failed() {
    let place = Place::new();
    let (mut talk, session) = Talk::ready(&place).await;
    talk.prompt(&session, "/extract lib.rs#nobody").await;
    let call = calls(&talk).pop().expect("a call");
    assert_eq!((&call["status"], &call["rawOutput"]["failed"]), (&json!("failed"), &json!(1)));
    assert!(talk.words().contains("nobody"), "{}", talk.words());
}

#[tokio::test]
async fn further_roots_are_searched_when_they_are_named() {
    let place = Place::new();
    let more = place.work().join("more");
    let inner = place.work().join("inner");
    for folder in [&more, &inner] {
        std::fs::create_dir(folder).expect("a folder");
    }
    place.write("more/far.rs", "fn distant() {}\n");
    let server = server(place.settings());
    let mut talk = Talk::v1(&server, &json!({})).await;
    let new = json!({ "cwd": inner, "mcpServers": [], "additionalDirectories": [more] });
    let new = talk.ask("session/new", &new).await;
    let session = new["result"]["sessionId"].as_str().expect("a session").to_owned();
    talk.prompt(&session, &format!("/extract {}#distant", more.join("far.rs").display())).await;
    let call = calls(&talk).pop().expect("a call");
    assert_eq!(call["locations"], json!([{ "path": more.join("far.rs"), "line": 1 }]), "{call:?}");
    talk.prompt(&session, &format!("/extract {}", place.work().join("lib.rs").display())).await;
    assert_eq!(calls(&talk).pop().expect("a call")["status"], "failed", "beside the session's folders");
}

#[tokio::test]
async fn a_question_is_answered_by_a_search() {
    let place = Place::new();
    let (mut talk, session) = Talk::ready(&place).await;
    talk.prompt(&session, "Where do we authenticate people?").await;
    let call = calls(&talk).pop().expect("a call");
    assert_eq!(call["rawInput"]["query"], "authenticate people");
    assert!(talk.words().contains("`lib.rs:1-4` function `authenticate`\n```rust\n"), "{}", talk.words());
    talk.prompt(&session, "Where are the zebras?").await;
    assert!(talk.words().ends_with("Nothing here has these words; /search with other ones may find it."));
}

#[tokio::test]
async fn without_a_model_files_words_and_declarations_are_found_in_plain_words() {
    let place = Place::new();
    let mut talk = Talk::v1(&server(place.settings()), &json!({})).await;
    let session = talk.session(&place.work()).await;
    for (wish, tool, said) in [
        ("What files are in this project?", "list_files", "- `lib.rs`\n- `notes.txt`\n2 files."),
        ("list the files, please", "list_files", "2 files."),
        ("Which files are there?", "list_files", "2 files."),
        ("Show me the project structure", "list_files", "2 files."),
        ("Find all *.rs files", "glob", "- `lib.rs`\n1 file."),
        ("Search for authenticate", "search", "`lib.rs:1-4` function `authenticate`"),
        ("Please search the code for logging in.", "search", "`lib.rs:1-4` function `authenticate`"),
        (
            "show me the function authenticate",
            "extract",
            "`lib.rs:1-4` function `authenticate`\n```rust\n/// Logs",
        ),
        ("Show the authenticate function in lib.rs", "extract", "`lib.rs:1-4` function `authenticate`"),
        ("Where is authenticate defined?", "extract", "`lib.rs:1-4` function `authenticate`"),
        ("What does the function authenticate() do?", "extract", "`lib.rs:1-4` function `authenticate`"),
        ("show me the function log", "search", "So I search for it.\n\n`lib.rs:1-4` function `authenticate`"),
    ] {
        talk.heard.clear();
        assert_eq!(talk.prompt(&session, wish).await["result"]["stopReason"], "end_turn", "{wish}");
        let words = talk.words();
        assert!(words.contains(said), "{wish}: {words}");
        assert_eq!(calls(&talk).pop().expect("a call")["name"], tool, "{wish}");
        assert!(!talk.heard.iter().any(|frame| frame["method"] == "session/request_permission"), "{wish}");
    }
}

#[tokio::test]
async fn what_is_not_understood_gets_examples_that_work_and_the_way_to_a_model() {
    let place = Place::new();
    let server = server(AgentServerSettings { allow_edit: false, ..place.settings() });
    let mut talk = Talk::v1(&server, &json!({})).await;
    let session = talk.session(&place.work()).await;
    talk.prompt(&session, "fix the bug in lib.rs").await;
    let words = talk.words();
    for part in [
        "Without a model I cannot write code",
        "- Replace 'old' with 'new' in notes.txt",
        "/help",
        "--provider",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    talk.heard.clear();
    talk.prompt(&session, "the weather is fine today").await;
    let words = talk.words();
    for part in ["I do not know what to do with that", "Where is the retry logic?", "/help", "--provider"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    talk.heard.clear();
    talk.prompt(&session, "What can you do?").await;
    assert!(talk.words().starts_with("I am the reference agent. "), "{}", talk.words());
    talk.heard.clear();
    talk.prompt(&session, "/help").await;
    let words = talk.words();
    for part in ["/search: ", "/delegate: ", "Read README.md", "(when started with `--allow-edit`)"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(!words.contains("tool failure"), "no names of our own: {words}");
}

#[tokio::test]
async fn compacting_shows_what_is_kept() {
    let place = Place::new();
    let server = server(place.settings());
    let mut talk = Talk::v1(&server, &json!({ "session": { "compaction": {} } })).await;
    let session = talk.session(&place.work()).await;
    talk.prompt(&session, "Search for 'thyme'").await;
    talk.prompt(&session, "Say 'good morning'").await;
    let used = |talk: &Talk| {
        let updates = talk.updates().into_iter().rfind(|update| update["sessionUpdate"] == "usage_update");
        updates.and_then(|update| update["used"].as_u64()).expect("the usage")
    };
    let before = used(&talk);
    talk.prompt(&session, "/compact").await;
    let words = talk.words();
    let after = used(&talk);
    assert!(after < before, "{words}");
    assert!(words.contains(&format!("about {after} tokens instead of {before}. ")), "{words}");
    let done = talk.updates().into_iter().rfind(|update| update["status"] == "completed").expect("its end");
    let summary = done["summary"][0]["text"].as_str().expect("a summary");
    assert!(summary.starts_with("Person: Search for 'thyme'\nAgent: "), "{summary}");
    assert!(summary.ends_with("Person: Say 'good morning'\nAgent: good morning\n"), "{summary}");
    assert!(talk.words().contains("kept in short now"), "{}", talk.words());
    talk.prompt(&session, "/compact").await;
    assert!(talk.words().ends_with("There is nothing new to compact."), "{}", talk.words());
    assert_eq!(used(&talk), after);
}
