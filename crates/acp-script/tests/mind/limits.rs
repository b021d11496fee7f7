//! Requests have half a minute; prompts have all the time they need.

use acp_script::agent::{AgentConfig, Auth, Fence};
use serde_json::json;

use crate::desk::{Desk, config};

#[test]
fn a_request_that_waits_for_the_store_is_given_up_after_thirty_seconds() {
    let mut desk = Desk::new(config(), &json!({}));
    let list = desk.ask("session/list", &json!({}));
    desk.pass(29);
    assert!(desk.find(list).is_none());
    desk.pass(1);
    assert_eq!(desk.answer(list)["error"]["data"]["reason"], "timeout");
    let token = desk.fetches[0];
    desk.agent.sessions_listed(token, Vec::new());
    desk.run();
    assert_eq!(desk.sent.iter().filter(|frame| frame["id"] == list).count(), 1, "answered once");
}

#[test]
fn a_prompt_may_take_longer() {
    let mut desk = Desk::new(config(), &json!({}));
    let prompt = desk.prompt("Search for 'needle'");
    desk.pass(3600);
    assert!(desk.find(prompt).is_none());
}

#[test]
fn a_store_that_fails_is_an_error_with_its_reason() {
    let mut desk = Desk::new(config(), &json!({}));
    let list = desk.ask("session/list", &json!({}));
    let token = desk.fetches[0];
    desk.agent.store_failed(token, "the disk is gone");
    desk.run();
    assert_eq!(desk.answer(list)["error"]["message"], "the disk is gone");
}

#[test]
fn sessions_lie_inside_of_the_fence() {
    let fence = Fence::new(|folder| folder.starts_with("/work"));
    let mut desk = Desk::new(AgentConfig { fence, ..config() }, &json!({}));
    let outside = desk.ask("session/new", &json!({ "cwd": "/etc", "mcpServers": [] }));
    assert_eq!(desk.answer(outside)["error"]["data"]["reason"], "permission_denied");
    let roots = json!({ "cwd": "/work", "mcpServers": [], "additionalDirectories": ["/etc"] });
    let outside = desk.ask("session/new", &roots);
    assert_eq!(desk.answer(outside)["error"]["data"]["reason"], "permission_denied");
}

#[test]
fn an_expected_token_must_be_given() {
    let mut desk = Desk::new(config(), &json!({}));
    desk.agent =
        acp_script::agent::Agent::new(AgentConfig { auth: Auth::Token("sesame".to_owned()), ..config() });
    desk.ask("initialize", &json!({ "protocolVersion": 1 }));
    let new = desk.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [] }));
    assert_eq!(desk.answer(new)["error"]["code"], -32000);
    for (meta, right) in [
        (json!({}), false),
        (json!({ "token": "open" }), false),
        (json!({ "token": "sesame" }), true),
        (json!({ "acp-dialect/2025.1": { "token": "sesame" } }), true),
    ] {
        let login = desk.ask("authenticate", &json!({ "methodId": "mock-login", "_meta": meta }));
        assert_eq!(desk.answer(login).get("result").is_some(), right, "{meta}");
    }
}

#[test]
fn bad_news_about_servers_is_a_notice_or_part_of_the_next_answer() {
    let mut shows = Desk::new(config(), &json!({ "session": { "notices": {} } }));
    let mut speaks = Desk::new(config(), &json!({}));
    for desk in [&mut shows, &mut speaks] {
        let session = desk.session.clone();
        desk.agent.warn(&session, "MCP server \"x\" cannot be used", "it ended");
        desk.run();
        desk.prompt("Say 'hello'");
    }
    assert!(shows.updates().iter().any(|update| update["sessionUpdate"] == "notice"));
    assert!(!shows.words().contains("cannot be used"));
    assert!(speaks.words().contains("cannot be used: it ended"), "{}", speaks.words());
    speaks.sent.clear();
    speaks.prompt("Say 'again'");
    assert!(!speaks.words().contains("cannot be used"), "told once");
}
