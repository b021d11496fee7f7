//! Requests have half a minute; prompts have all the time they need.

use acp_script::agent::{AgentConfig, Auth, Fence};
use serde_json::json;

use crate::harness::{AgentUnderTest, config, config_with};

#[test]
fn a_request_that_waits_for_the_store_is_given_up_after_thirty_seconds() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let list = harness.ask("session/list", &json!({}));
    harness.pass(29);
    assert!(harness.find(list).is_none());
    harness.pass(1);
    assert_eq!(harness.answer(list)["error"]["data"]["reason"], "timeout");
    let token = harness.fetches[0];
    harness.agent.sessions_listed(token, Vec::new());
    harness.run();
    assert_eq!(harness.sent.iter().filter(|frame| frame["id"] == list).count(), 1, "answered once");
}

#[test]
fn a_prompt_may_take_longer() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let prompt = harness.prompt("Search for 'needle'");
    harness.pass(3600);
    assert!(harness.find(prompt).is_none());
}

#[test]
fn a_store_that_fails_is_an_error_with_its_reason() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let list = harness.ask("session/list", &json!({}));
    let token = harness.fetches[0];
    harness.agent.store_failed(token, "the disk is gone");
    harness.run();
    assert_eq!(harness.answer(list)["error"]["message"], "the disk is gone");
}

#[test]
fn sessions_lie_inside_of_the_fence() {
    let fence = Fence::new(|folder| folder.starts_with("/work"));
    let mut harness = AgentUnderTest::new(config_with(|config| config.rules.fence = fence), &json!({}));
    let outside = harness.ask("session/new", &json!({ "cwd": "/etc", "mcpServers": [] }));
    assert_eq!(harness.answer(outside)["error"]["data"]["reason"], "permission_denied");
    let roots = json!({ "cwd": "/work", "mcpServers": [], "additionalDirectories": ["/etc"] });
    let outside = harness.ask("session/new", &roots);
    assert_eq!(harness.answer(outside)["error"]["data"]["reason"], "permission_denied");
}

#[test]
fn an_expected_token_must_be_given() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.agent =
        acp_script::agent::Agent::new(AgentConfig { auth: Auth::Token("sesame".to_owned()), ..config() });
    harness.ask("initialize", &json!({ "protocolVersion": 1 }));
    let new = harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [] }));
    assert_eq!(harness.answer(new)["error"]["code"], -32000);
    for (meta, right) in [
        (json!({}), false),
        (json!({ "token": "open" }), false),
        (json!({ "token": "sesame" }), true),
        (json!({ "acp-dialect/2025.1": { "token": "sesame" } }), true),
    ] {
        let login = harness.ask("authenticate", &json!({ "methodId": "mock-login", "_meta": meta }));
        assert_eq!(harness.answer(login).get("result").is_some(), right, "{meta}");
    }
}

#[test]
fn after_logging_out_nothing_works_until_somebody_signs_in_again() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    harness.ask("logout", &json!({}));
    assert!(!harness.agent.signed_in());
    let session = harness.session.clone();
    for (method, params) in [
        ("session/list", json!({})),
        ("session/close", json!({ "sessionId": session })),
        ("session/delete", json!({ "sessionId": session })),
        ("session/delete", json!({ "sessionId": "another" })),
        ("session/set_mode", json!({ "sessionId": session, "modeId": "PLANNING" })),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "mode", "value": "PLANNING" }),
        ),
        (
            "session/prompt",
            json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "Read a.txt" }] }),
        ),
        ("session/load", json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] })),
    ] {
        let id = harness.ask(method, &params);
        assert_eq!(harness.answer(id)["error"]["code"], -32000, "{method}");
    }
    assert!(harness.own.is_empty() && harness.fetches.is_empty());
    harness.ask("authenticate", &json!({ "methodId": "mock-login" }));
    let prompt = harness.prompt("Say 'back'");
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
}

#[test]
fn everyone_who_ends_a_session_is_answered_when_its_turn_has_ended() {
    let mut harness = AgentUnderTest::new(config(), &json!({ "terminal": true }));
    let prompt = harness.prompt("Run the command 'make'");
    let named = json!({ "sessionId": harness.session });
    let ends = ["session/close", "session/delete", "session/close"].map(|method| harness.ask(method, &named));
    assert!(ends.iter().all(|id| harness.find(*id).is_none()), "the client owes an answer");
    harness.reply("session/request_permission", &json!({ "outcome": { "outcome": "cancelled" } }));
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "cancelled");
    assert!(ends.iter().all(|id| harness.answer(*id).get("result").is_some()));
    assert_eq!(harness.deleted, [harness.session.as_str()]);
}

#[test]
fn a_prompt_that_overtakes_a_load_is_not_lost() {
    let mut harness = AgentUnderTest::new(config(), &json!({}));
    let id = harness.session.clone();
    let record = harness.stored.clone();
    let load = harness.ask("session/load", &json!({ "sessionId": id, "cwd": "/work", "mcpServers": [] }));
    let prompt = harness.prompt("Read a.txt");
    let token = harness.fetches[0];
    harness.agent.session_fetched(token, &id, record);
    harness.run();
    let refused = harness.answer(load)["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(refused.contains("still running"), "{refused}");
    harness.reply("fs/read_text_file", &json!({ "content": "thyme" }));
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
}

#[test]
fn bad_news_about_servers_is_a_notice_or_part_of_the_next_answer() {
    let mut shows = AgentUnderTest::new(config(), &json!({ "session": { "notices": {} } }));
    let mut speaks = AgentUnderTest::new(config(), &json!({}));
    for harness in [&mut shows, &mut speaks] {
        let session = harness.session.clone();
        harness.agent.warn(&session, "MCP server \"x\" cannot be used", "it ended");
        harness.run();
        harness.prompt("Say 'hello'");
    }
    assert!(shows.updates().iter().any(|update| update["sessionUpdate"] == "notice"));
    assert!(!shows.words().contains("cannot be used"));
    assert!(speaks.words().contains("cannot be used: it ended"), "{}", speaks.words());
    speaks.sent.clear();
    speaks.prompt("Say 'again'");
    assert!(!speaks.words().contains("cannot be used"), "told once");
}
