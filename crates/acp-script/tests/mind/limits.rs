//! Requests have half a minute; prompts have all the time they need.

use acp_script::agent::{AgentConfig, Auth, Fence};
use serde_json::json;

use crate::desk::{Desk, config, config_with};

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
    let mut desk = Desk::new(config_with(|config| config.rules.fence = fence), &json!({}));
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
fn after_logging_out_nothing_works_until_somebody_signs_in_again() {
    let mut desk = Desk::new(config(), &json!({}));
    desk.ask("logout", &json!({}));
    assert!(!desk.agent.signed_in());
    let session = desk.session.clone();
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
        let id = desk.ask(method, &params);
        assert_eq!(desk.answer(id)["error"]["code"], -32000, "{method}");
    }
    assert!(desk.own.is_empty() && desk.fetches.is_empty());
    desk.ask("authenticate", &json!({ "methodId": "mock-login" }));
    let prompt = desk.prompt("Say 'back'");
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "end_turn");
}

#[test]
fn everyone_who_ends_a_session_is_answered_when_its_turn_has_ended() {
    let mut desk = Desk::new(config(), &json!({ "terminal": true }));
    let prompt = desk.prompt("Run the command 'make'");
    let named = json!({ "sessionId": desk.session });
    let ends = ["session/close", "session/delete", "session/close"].map(|method| desk.ask(method, &named));
    assert!(ends.iter().all(|id| desk.find(*id).is_none()), "the client owes an answer");
    desk.reply("session/request_permission", &json!({ "outcome": { "outcome": "cancelled" } }));
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "cancelled");
    assert!(ends.iter().all(|id| desk.answer(*id).get("result").is_some()));
    assert_eq!(desk.deleted, [desk.session.as_str()]);
}

#[test]
fn a_prompt_that_overtakes_a_load_is_not_lost() {
    let mut desk = Desk::new(config(), &json!({}));
    let id = desk.session.clone();
    let record = desk.stored.clone();
    let load = desk.ask("session/load", &json!({ "sessionId": id, "cwd": "/work", "mcpServers": [] }));
    let prompt = desk.prompt("Read a.txt");
    let token = desk.fetches[0];
    desk.agent.session_fetched(token, &id, record);
    desk.run();
    let refused = desk.answer(load)["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(refused.contains("still running"), "{refused}");
    desk.reply("fs/read_text_file", &json!({ "content": "thyme" }));
    assert_eq!(desk.answer(prompt)["result"]["stopReason"], "end_turn");
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
