//! Tools, permissions, the jail and the tasks, in whole turns.

use acp_agent::AgentServerSettings;
use acp_policy::{Policy, ToolPatterns};
use serde_json::json;

use crate::harness::{Place, Talk, server};

#[tokio::test]
async fn the_code_engine_answers_searches_queries_and_extracts() {
    let place = Place::new();
    let (mut talk, session) = Talk::ready(&place).await;
    for (wish, part) in [
        ("/search authenticate", "lib.rs"),
        ("Query the pattern 'fn $NAME($$$A) -> bool { $$$B }' in rust", "authenticate"),
        ("Extract lib.rs#authenticate", "name == \"me\""),
    ] {
        let from = talk.heard.len();
        assert_eq!(talk.prompt(&session, wish).await["result"]["stopReason"], "end_turn");
        let words: String = talk.heard[from..].iter().map(ToString::to_string).collect();
        assert!(words.contains(&part.replace('"', "\\\"")), "{wish}: {words}");
    }
}

#[tokio::test]
async fn a_session_outside_of_the_path_is_refused_even_behind_a_link() {
    let place = Place::new();
    std::os::unix::fs::symlink("/etc", place.work().join("link")).expect("a link");
    let server = server(place.settings());
    let mut talk = Talk::v1(&server, &json!({})).await;
    for cwd in [
        "/etc",
        place.work().join("link").to_str().expect("text"),
        place.folder.path().to_str().expect("text"),
    ] {
        let new = talk.ask("session/new", &json!({ "cwd": cwd, "mcpServers": [] })).await;
        assert_eq!(new["error"]["data"]["reason"], "permission_denied", "{cwd}: {new}");
    }
    let inside = place.work().join("inner");
    std::fs::create_dir(&inside).expect("a folder");
    talk.session(&inside).await;
}

#[tokio::test]
async fn a_folder_that_becomes_a_way_out_later_is_not_used() {
    let place = Place::new();
    let (mut talk, _) = Talk::ready(&place).await;
    let later = place.work().join("later");
    let session = talk.session(&later).await;
    std::fs::create_dir(&later).expect("a folder");
    std::fs::write(later.join("herbs.txt"), "rosemary").expect("a file");
    talk.prompt(&session, "/extract herbs.txt").await;
    assert!(talk.words().contains("rosemary"), "a folder of its own is used: {}", talk.words());
    std::fs::remove_dir_all(&later).expect("removed");
    std::os::unix::fs::symlink(place.folder.path().join("secret"), &later).expect("a link");
    std::fs::create_dir(place.folder.path().join("secret")).expect("a folder");
    std::fs::write(place.folder.path().join("secret/herbs.txt"), "hemlock").expect("a file");
    talk.heard.clear();
    for wish in ["/extract herbs.txt", "/search hemlock", "Read herbs.txt", "Run the command 'cat herbs.txt'"]
    {
        assert_eq!(talk.prompt(&session, wish).await["result"]["stopReason"], "end_turn");
        let failed = talk.updates().into_iter().rfind(|update| update["status"] == "failed").cloned();
        let words = failed.unwrap_or_else(|| panic!("{wish}: {}", talk.words())).to_string();
        assert!(words.contains("leads out of the folder"), "{wish}: {words}");
        talk.heard.clear();
    }
}

#[tokio::test]
async fn own_hands_do_not_leave_the_session_through_a_link() {
    let place = Place::new();
    std::os::unix::fs::symlink("/etc/passwd", place.work().join("innocent.txt")).expect("a link");
    let (mut talk, session) = Talk::ready(&place).await;
    talk.prompt(&session, "Read innocent.txt").await;
    assert!(!talk.words().contains("root:"), "{}", talk.words());
}

#[tokio::test]
async fn what_is_rejected_is_not_done() {
    let place = Place::new();
    let server = server(place.settings());
    let mut talk = Talk::v1(&server, &json!({})).await;
    talk.permission = "reject-once";
    let session = talk.session(&place.work()).await;
    talk.prompt(&session, "Write 'x' to a.txt and run the command 'touch b.txt'").await;
    assert_eq!((place.read("a.txt"), place.read("b.txt")), (None, None));
    let asked = talk.heard.iter().filter(|frame| frame["method"] == "session/request_permission").count();
    assert_eq!(asked, 2);
}

#[tokio::test]
async fn policies_and_patterns_decide_without_a_question() {
    let place = Place::new();
    let allow = ToolPatterns::parse(["Bash(printf *)"]).expect("a pattern");
    let deny = ToolPatterns::parse(["Read(*.secret)"]).expect("a pattern");
    let settings = AgentServerSettings { policy: Policy::AcceptEdits, allow, deny, ..place.settings() };
    place.write("a.secret", "hush");
    let server = server(settings);
    let mut talk = Talk::v1(&server, &json!({})).await;
    let session = talk.session(&place.work()).await;
    talk.prompt(&session, "Write 'x' to a.txt and run the command 'printf abc' and then read a.secret").await;
    assert_eq!(place.read("a.txt").as_deref(), Some("x"), "{}", talk.words());
    assert!(talk.words().contains("abc") && !talk.words().contains("hush"), "{}", talk.words());
    assert!(talk.heard.iter().all(|frame| frame["method"] != "session/request_permission"));
}

#[tokio::test]
async fn what_may_not_be_read_is_not_found_by_the_code_tools_either() {
    let place = Place::new();
    std::fs::create_dir(place.work().join("secret")).expect("a folder");
    place.write("secret/key.rs", "fn authenticate_key() -> u32 { 70731 }\n");
    std::os::unix::fs::symlink("secret/key.rs", place.work().join("innocent.rs")).expect("a link");
    let alias = place.folder.path().join("alias");
    std::os::unix::fs::symlink(place.work(), &alias).expect("a link");
    let real = place.work().canonicalize().expect("a real path");
    let in_full = format!("Read({}/secret/**)", real.display());
    std::os::unix::fs::symlink("secret", place.work().join("door")).expect("a link");
    for (pattern, cwd) in [
        ("Read(secret/**)", &real),
        (&in_full, &real),
        (&in_full, &alias),
        ("Read(door/**)", &real),
        ("Read(door/**)", &alias),
    ] {
        let deny = ToolPatterns::parse([pattern]).expect("a pattern");
        let server =
            server(AgentServerSettings { deny, state: acp_agent::State::Memory, ..place.settings() });
        let mut talk = Talk::v1(&server, &json!({})).await;
        let session = talk.session(cwd).await;
        for wish in [
            "/extract secret/key.rs",
            "/extract secret/key.rs:1-2",
            "/extract lib.rs secret/key.rs#authenticate_key",
            "/extract innocent.rs",
            "Read innocent.rs",
            "Read secret/key.rs",
            "Search for 'authenticate' in secret/key.rs",
            "/search authenticate",
            "/search authenticate_key",
            "Query the pattern 'fn $NAME() -> u32 { $A }' in rust",
        ] {
            assert_eq!(talk.prompt(&session, wish).await["result"]["stopReason"], "end_turn");
            let heard = talk.heard.iter().map(ToString::to_string).collect::<String>();
            assert!(!heard.contains("70731"), "{pattern} in {}: {wish}: {heard}", cwd.display());
        }
        assert!(talk.words().contains("lib.rs"), "the rest is found: {}", talk.words());
    }
}

#[tokio::test]
async fn a_running_command_ends_with_its_turn() {
    let place = Place::new();
    let (mut talk, session) = Talk::ready(&place).await;
    let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "Run the command 'sleep 600'" }] });
    let prompt = talk.send("session/prompt", &params).await;
    talk.until(|frame| frame["params"]["update"]["status"] == "in_progress").await;
    talk.tell("session/cancel", &json!({ "sessionId": session })).await;
    assert_eq!(talk.answer(prompt).await["result"]["stopReason"], "cancelled");
    let last = talk.updates().into_iter().rfind(|update| update["status"].is_string()).cloned();
    assert_eq!(last.expect("a state")["status"], "failed");
    assert_eq!(talk.prompt(&session, "Say 'next'").await["result"]["stopReason"], "end_turn");
}

#[tokio::test]
async fn tasks_are_delegated_with_real_tools() {
    let place = Place::new();
    let (mut talk, session) = Talk::ready(&place).await;
    let prompt = "Delegate the task 'Read notes.txt'. Delegate the task 'Write \"basil\" to herbs.txt'.";
    assert_eq!(talk.prompt(&session, prompt).await["result"]["stopReason"], "end_turn");
    assert!(talk.words().contains("rosemary"), "{}", talk.words());
    assert_eq!(place.read("herbs.txt").as_deref(), Some("basil"));
}

#[tokio::test]
async fn mcp_servers_that_are_not_there_are_told_once() {
    let place = Place::new();
    let server = server(place.settings());
    let mut talk = Talk::v1(&server, &json!({ "session": { "notices": {} } })).await;
    let dead = json!([{ "name": "dead", "command": "/no/such/server", "args": [], "env": [] }]);
    talk.ask("session/new", &json!({ "cwd": place.work(), "mcpServers": dead })).await;
    let notice = talk.until(|frame| frame["params"]["update"]["sessionUpdate"] == "notice").await;
    let words = notice.to_string();
    assert!(words.contains("dead") && words.contains("/no/such/server"), "{words}");
}

#[tokio::test]
async fn a_file_that_is_denied_to_the_tool_that_reads_is_hidden_from_all_that_show_it() {
    let place = Place::new();
    for pattern in ["read_file(notes.txt)", "*_file(notes.txt)"] {
        let deny = ToolPatterns::parse([pattern, "query"]).expect("patterns");
        let server =
            server(AgentServerSettings { deny, state: acp_agent::State::Memory, ..place.settings() });
        let mut talk = Talk::v1(&server, &json!({})).await;
        let session = talk.session(&place.work()).await;
        for wish in
            ["Read notes.txt", "/search rosemary", "/extract notes.txt", "Search for 'rose' in notes.txt"]
        {
            talk.prompt(&session, wish).await;
        }
        assert!(!talk.words().contains("thyme"), "{pattern}: {}", talk.words());
        talk.prompt(&session, "/query authenticate($A)").await;
        assert!(
            talk.words().contains("Not allowed") && !talk.words().contains("lib.rs:"),
            "{}",
            talk.words()
        );
        talk.prompt(&session, "/search authenticate").await;
        assert!(talk.words().contains("lib.rs"), "{}", talk.words());
    }
}
