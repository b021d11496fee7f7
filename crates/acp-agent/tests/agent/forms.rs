//! One turn in each form, and what the judge says about version 1.

use std::time::Duration;

use acp_agent::State;
use acp_policy::Policy;
use acp_rules::{Judge, JudgeConfig, Side};
use serde_json::json;

use crate::harness::{Place, Talk, server};

#[tokio::test]
async fn version_1_in_a_whole_turn_that_the_judge_has_nothing_to_say_about() {
    let place = Place::new();
    let server = server(place.settings());
    let mut talk = Talk::v1(&server, &json!({})).await;
    let session = talk.session(&place.work()).await;
    let prompt =
        "Search for 'thyme', then read notes.txt, write 'basil' to herbs.txt and run the command 'ls'";
    let done = talk.prompt(&session, prompt).await;
    assert_eq!(done["result"]["stopReason"], "end_turn");
    assert_eq!(place.read("herbs.txt").as_deref(), Some("basil"));
    assert!(talk.words().contains("herbs.txt"), "{}", talk.words());
    let mut judge = Judge::new(JudgeConfig::default());
    for (at, (direction, frame)) in talk.log.iter().enumerate() {
        judge.observe(Duration::from_millis(at as u64), *direction, frame);
    }
    judge.close(Duration::from_secs(60));
    let about_us: Vec<_> = judge.findings().iter().filter(|finding| finding.blame == Side::Agent).collect();
    assert!(about_us.is_empty(), "{about_us:#?}");
}

#[tokio::test]
async fn the_form_2025_1_with_its_token() {
    let place = Place::new();
    let server =
        server(acp_agent::AgentServerSettings { token: Some("sesame".to_owned()), ..place.settings() });
    let mut talk = Talk::with(&server);
    let init = json!({ "protocol_version": "2025.1", "working_directory": place.work(), "capabilities": {} });
    let ready = talk.ask("initialize", &init).await;
    assert!(ready["result"]["capabilities"]["supported_modes"].is_array(), "{ready}");
    let new = json!({ "session_id": "mine" });
    assert_eq!(talk.ask("session/new", &new).await["error"]["code"], -32002, "sign in first");
    let wrong = talk.ask("authenticate", &json!({ "type": "token", "token": "open" })).await;
    assert!(wrong.get("error").is_some(), "{wrong}");
    let right = talk.ask("authenticate", &json!({ "type": "token", "token": "sesame" })).await;
    assert!(right.get("result").is_some(), "{right}");
    let new = talk.ask("session/new", &new).await;
    assert!(new.get("result").is_some(), "{new}");
    let prompt = json!({ "session_id": "mine", "content": [{ "type": "text", "text": "Read notes.txt" }] });
    assert_eq!(talk.ask("session/prompt", &prompt).await["result"]["status"], "ok");
    let said: String = talk
        .heard
        .iter()
        .filter(|frame| frame["params"]["type"] == "agent_message_chunk")
        .filter_map(|frame| frame["params"]["data"]["text"].as_str())
        .collect();
    assert!(said.contains("rosemary"), "{said}");
    talk.close().await;
    let mut again = Talk::with(&server);
    again.ask("initialize", &init).await;
    again.ask("authenticate", &json!({ "type": "token", "token": "sesame" })).await;
    let load = again.ask("session/load", &json!({ "session_id": "mine" })).await;
    assert!(load.get("result").is_some(), "the client's own id is known after a restart: {load}");
}

#[tokio::test]
async fn version_1_with_its_token() {
    let place = Place::new();
    let server =
        server(acp_agent::AgentServerSettings { token: Some("sesame".to_owned()), ..place.settings() });
    let mut talk = Talk::with(&server);
    let ready = talk.ask("initialize", &json!({ "protocolVersion": 1 })).await;
    assert_eq!(ready["result"]["authMethods"][0]["id"], "token", "{ready}");
    let new = json!({ "cwd": place.work(), "mcpServers": [] });
    assert_eq!(talk.ask("session/new", &new).await["error"]["code"], -32000, "sign in first");
    for (token, right) in [("open", false), ("sesame", true)] {
        let login = json!({ "methodId": "token", "_meta": { "token": token } });
        assert_eq!(talk.ask("authenticate", &login).await.get("result").is_some(), right, "{token}");
    }
    assert!(talk.ask("session/new", &new).await.get("result").is_some());
}

#[tokio::test]
async fn the_form_2025_1_names_modes_in_its_own_words() {
    let place = Place::new();
    let mut talk = Talk::with(&server(place.settings()));
    let init = json!({ "protocol_version": "2025.1", "working_directory": place.work(), "capabilities": {} });
    let ready = talk.ask("initialize", &init).await;
    let modes = ready["result"]["capabilities"]["supported_modes"].as_array().expect("modes");
    assert_eq!(modes[..2], [json!("agent"), json!("ask")]);
    let unknown = talk.ask("session/new", &json!({ "session_id": "x", "mode": "klingon" })).await;
    let words = unknown["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("klingon") && words.contains("PLANNING"), "{unknown}");
    for (mode, written) in [("ask", None), ("agent", Some("x"))] {
        let new = talk.ask("session/new", &json!({ "session_id": mode, "mode": mode })).await;
        assert!(new.get("result").is_some(), "{new}");
        let content = json!([{ "type": "text", "text": "Write 'x' to a.txt" }]);
        talk.ask("session/prompt", &json!({ "session_id": mode, "content": content })).await;
        assert_eq!(place.read("a.txt").as_deref(), written, "{mode}");
    }
}

#[tokio::test]
async fn version_1_knows_its_modes_by_their_ids_alone() {
    let place = Place::new();
    let (mut talk, session) = Talk::ready(&place).await;
    for (mode, known) in [("plan", false), ("planning", false), ("PLANNING", true)] {
        let set = talk.ask("session/set_mode", &json!({ "sessionId": session, "modeId": mode })).await;
        assert_eq!(set.get("result").is_some(), known, "{mode}: {set}");
    }
}

#[tokio::test]
async fn the_form_go_by_its_flag() {
    let place = Place::new();
    let speak = acp_dialect::DialectChoice::Only(acp_dialect::Dialect::GO);
    let server = server(acp_agent::AgentServerSettings { speak, ..place.settings() });
    let mut talk = Talk::with(&server);
    let ready = talk.ask("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": {} })).await;
    assert!(ready["result"]["agentCapabilities"]["promptCapabilities"]["content"].is_array(), "{ready}");
    let session = talk.session(&place.work()).await;
    let mode = json!({ "sessionId": session, "modeId": "plan" });
    assert!(talk.ask("session/set_mode", &mode).await.get("result").is_some());
    let done = talk.prompt(&session, "Read notes.txt").await;
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done}");
}

#[tokio::test]
async fn the_form_delta() {
    let place = Place::new();
    let server = server(place.settings());
    let mut talk = Talk::with(&server);
    let ready = talk.ask("initialize", &json!({ "protocolVersion": "2025-01-01" })).await;
    assert_eq!(ready["result"]["protocolVersion"], "2025-01-01", "{ready}");
    let session = talk.ask("session/new", &json!({ "workDir": place.work() })).await;
    let session = session["result"]["sessionId"].as_str().expect("a session").to_owned();
    let done = talk.prompt(&session, "Read notes.txt").await;
    assert!(done.get("result").is_some(), "{done}");
    let deltas: String = talk
        .heard
        .iter()
        .filter(|frame| frame["method"] == "assistant.message_delta")
        .filter_map(|frame| frame["params"]["content"].as_str())
        .collect();
    assert!(deltas.contains("rosemary"), "{deltas}");
}

#[tokio::test]
async fn a_policy_that_forbids_is_not_lifted_by_a_client() {
    let place = Place::new();
    for (policy, open) in [(Policy::None, &["NORMAL"][..]), (Policy::Plan, &["PLANNING"])] {
        let server =
            server(acp_agent::AgentServerSettings { policy, state: State::Memory, ..place.settings() });
        let mut talk = Talk::v1(&server, &json!({})).await;
        let new = talk.ask("session/new", &json!({ "cwd": place.work(), "mcpServers": [] })).await;
        let offered = new["result"]["modes"]["availableModes"].as_array().expect("modes").iter();
        assert_eq!(offered.map(|mode| mode["id"].as_str().unwrap_or_default()).collect::<Vec<_>>(), open);
        let session = new["result"]["sessionId"].clone();
        let mode = json!({ "sessionId": session, "modeId": "bypassPermissions" });
        let option = json!({ "sessionId": session, "configId": "mode", "value": "bypassPermissions" });
        for refused in
            [talk.ask("session/set_mode", &mode).await, talk.ask("session/set_config_option", &option).await]
        {
            let words = refused["error"]["message"].as_str().unwrap_or_default();
            assert!(words.contains(&format!("--policy {policy}")), "{refused}");
        }
        let session = session.as_str().unwrap_or_default().to_owned();
        talk.prompt(&session, "Switch to auto mode").await;
        talk.prompt(&session, "Run the command 'touch made'").await;
        assert_eq!(place.read("made"), None);
    }
}

#[tokio::test]
async fn a_policy_that_forbids_holds_in_every_form() {
    let place = Place::new();
    let forms = [
        ("v1", json!({ "protocolVersion": 1, "clientCapabilities": {} })),
        ("go", json!({ "protocolVersion": 1, "clientCapabilities": {} })),
        ("delta", json!({ "protocolVersion": "2025-01-01" })),
        ("probe", json!({ "protocolVersion": "1" })),
        (
            "2025.1",
            json!({ "protocol_version": "2025.1", "working_directory": place.work(), "capabilities": {} }),
        ),
    ];
    for policy in [Policy::None, Policy::Read, Policy::Plan, Policy::Write] {
        for (form, init) in &forms {
            let speak = acp_dialect::DialectChoice::Only(form.parse().expect("a form"));
            let server = server(acp_agent::AgentServerSettings {
                policy,
                speak,
                state: State::Memory,
                ..place.settings()
            });
            let mut talk = Talk::with(&server);
            talk.ask("initialize", init).await;
            let (cwd, wish) = (place.work(), "Create a file named made.txt");
            let begin = json!({ "cwd": cwd, "workDir": cwd, "session_id": "mine", "mcpServers": [] });
            let is_probe = *form == "probe";
            let new = talk.ask(if is_probe { "newSession" } else { "session/new" }, &begin).await;
            let session = new["result"]["sessionId"].as_str().unwrap_or("mine");
            let content = json!([{ "type": "text", "text": wish }]);
            let prompt = json!({
                "sessionId": session, "session_id": session, "message": wish, "prompt": content, "content": content,
            });
            let done = talk.ask(if is_probe { "prompt" } else { "session/prompt" }, &prompt).await;
            let made = place.read("made.txt").is_some();
            assert_eq!(made, policy == Policy::Write, "{form} with --policy {policy}: {done}");
            if made {
                std::fs::remove_file(place.work().join("made.txt")).expect("it is there");
            }
        }
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_only_the_start_gives_leave_for_everything() {
    let place = Place::new();
    for (policy, runs) in [(Policy::Default, false), (Policy::Yolo, true)] {
        let server =
            server(acp_agent::AgentServerSettings { policy, state: State::Memory, ..place.settings() });
        let mut talk = Talk::with(&server);
        let init =
            json!({ "protocol_version": "2025.1", "working_directory": place.work(), "capabilities": {} });
        let ready = talk.ask("initialize", &init).await;
        let named = ready["result"]["capabilities"]["supported_modes"].to_string();
        assert_eq!(named.contains("bypassPermissions"), runs, "{named}");
        let new = talk.ask("session/new", &json!({ "session_id": "x", "mode": "auto" })).await;
        assert_eq!(new.get("result").is_some(), runs, "{new}");
        assert!(runs == new.to_string().contains(r#""currentModeId":"bypassPermissions""#), "{new}");
        let mut probe = Talk::with(&server);
        probe.ask("initialize", &json!({ "protocolVersion": "1" })).await;
        let session = probe.ask("newSession", &json!({ "mode": "planning" })).await["result"].clone();
        assert_eq!(session["mode"], "PLANNING");
        assert!(!session.to_string().contains(r#""currentModeId":"NORMAL""#), "{session}");
        let set = json!({ "sessionId": session["sessionId"], "mode": "bypassPermissions" });
        let set = probe.ask("setSessionMode", &set).await;
        assert_eq!(set.get("result").is_some(), runs, "{set}");
        for message in ["Switch to auto mode", "Run the command 'touch made'"] {
            probe.ask("prompt", &json!({ "sessionId": session["sessionId"], "message": message })).await;
        }
        assert_eq!(place.read("made").is_some(), runs);
    }
}

#[tokio::test]
async fn the_version_of_2025_1_in_another_spelling_is_refused_with_the_right_one() {
    let place = Place::new();
    let mut talk = Talk::with(&server(place.settings()));
    let refused = talk.ask("initialize", &json!({ "protocolVersion": "2025.1" })).await;
    assert!(refused["error"]["message"].as_str().is_some_and(|words| words.contains("protocol_version")));
}

#[tokio::test]
async fn a_file_is_no_working_folder() {
    let place = Place::new();
    let mut talk = Talk::v1(&server(place.settings()), &json!({})).await;
    let params = json!({ "cwd": place.work().join("notes.txt"), "mcpServers": [] });
    let refused = talk.ask("session/new", &params).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(refused["error"]["message"].as_str().is_some_and(|words| words.ends_with("is not a folder")));
}
