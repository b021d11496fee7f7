//! What the documents of the forms promise about modes, cancelled tools, updates and MCP servers.

mod common;

use acp_dialect::{Bridge, Dialect, START_KEY, Side, TranslationOptions, Unasked};
use acp_rpc::Frame;
use common::Talk;
use serde_json::{Value, json};

const MODES: &str =
    r#"{"currentModeId":"code","availableModes":[{"id":"code","name":"Code"},{"id":"plan","name":"Plan"}]}"#;

fn frame(body: &Value) -> Frame {
    let mut body = body.clone();
    body["jsonrpc"] = json!("2.0");
    Frame::parse(body.to_string())
}

/// What each side gets for a frame, as JSON.
fn routed(bridge: &mut Bridge, from: Side, body: &Value) -> Vec<(Side, Value)> {
    let frames = bridge.receive(from, &frame(body)).frames.into_iter();
    frames.map(|(to, frame)| (to, serde_json::from_str(&frame.to_string()).expect("JSON"))).collect()
}

/// A 2025.1 client and a v1 agent with these modes; the client has asked for a session in the mode `ask`.
fn asked(modes: &str) -> (Bridge, Vec<(Side, Value)>) {
    let options = TranslationOptions { permission: Unasked::Allow, ..TranslationOptions::default() };
    let mut bridge = Bridge::new(Dialect::V2025_1, Dialect::V1, options);
    let new = json!({"id": 3, "method": "session/new", "params": {"session_id": "abc123", "mode": "ask"}});
    routed(&mut bridge, Side::Client, &new);
    let modes: Value = serde_json::from_str(modes).expect("modes");
    let made = json!({"id": 3, "result": {"sessionId": "s1", "modes": modes}});
    let told = routed(&mut bridge, Side::Agent, &made);
    (bridge, told)
}

#[test]
fn the_mode_ask_is_the_agents_mode_that_changes_nothing() {
    let (_, told) = asked(MODES);
    let [(Side::Agent, set)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(set["method"], "session/set_mode");
    assert_eq!(set["params"], json!({"sessionId": "s1", "modeId": "plan"}));
}

#[test]
fn in_the_mode_ask_nothing_is_changed_for_a_client_that_cannot_be_asked() {
    let (mut bridge, told) =
        asked(r#"{"currentModeId":"auto","availableModes":[{"id":"auto","name":"Auto"}]}"#);
    assert!(
        matches!(told.as_slice(), [(Side::Client, made)] if made["result"]["status"] == "ok"),
        "{told:?}"
    );
    let options = json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let ask = json!({"id": 1, "method": "session/request_permission",
                     "params": {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": options}});
    let told = routed(&mut bridge, Side::Agent, &ask);
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "no"}});
    assert!(matches!(told.as_slice(), [(Side::Agent, no)] if no["result"] == outcome), "{told:?}");
    let write = json!({"sessionId": "s1", "path": "/w/a", "content": "x"});
    let run = json!({"sessionId": "s1", "command": "make"});
    for (id, method, params) in [(2, "fs/write_text_file", &write), (3, "terminal/create", &run)] {
        let told = routed(&mut bridge, Side::Agent, &json!({"id": id, "method": method, "params": params}));
        let [(Side::Agent, refused)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(refused["error"]["data"]["reason"], "permission_denied", "{refused}");
    }
    let read = json!({"id": 4, "method": "fs/read_text_file", "params": {"sessionId": "s1", "path": "/w/a"}});
    assert!(matches!(routed(&mut bridge, Side::Agent, &read).as_slice(), [(Side::Client, _)]));
}

#[test]
fn updates_that_2025_1_does_not_have_are_left_out() {
    let mut talk = Talk::new(Dialect::V2025_1, Dialect::V1);
    for update in [
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[]}"#,
        r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#,
        r#"{"sessionUpdate":"session_info_update","title":"T"}"#,
        r#"{"sessionUpdate":"_own/kind","x":1}"#,
    ] {
        let told = talk
            .agent(&format!(r#""method":"session/update","params":{{"sessionId":"s","update":{update}}}"#));
        assert!(told.is_empty(), "{told:?}");
    }
    assert!(talk.noted(&["lossy", "usage_update", "left out"]), "{:?}", talk.notes);
}

#[test]
fn a_tool_that_a_cancel_interrupted_is_cancelled_in_go() {
    let mut talk = Talk::new(Dialect::GO, Dialect::V1);
    talk.client(r#""id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}"#);
    let mut update = |call: &str, status: &str| {
        let update =
            format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{call}","status":"{status}"}}"#);
        talk.agent(&format!(r#""method":"session/update","params":{{"sessionId":"s","update":{update}}}"#))
    };
    update("before", "in_progress");
    update("during", "in_progress");
    let failed = update("before", "failed");
    assert!(failed[0].1.contains(r#""status":"failed""#), "{failed:?}");
    talk.client(r#""method":"session/cancel","params":{"sessionId":"s"}"#);
    let mut update = |call: &str, status: &str| {
        let update =
            format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{call}","status":"{status}"}}"#);
        talk.agent(&format!(r#""method":"session/update","params":{{"sessionId":"s","update":{update}}}"#))
    };
    let interrupted = update("during", "failed");
    assert!(interrupted[0].1.contains(r#""status":"cancelled""#), "{interrupted:?}");
    let known = update("before", "failed");
    assert!(known[0].1.contains(r#""status":"failed""#), "what failed before has failed: {known:?}");
}

fn new_session(servers: &Value) -> Value {
    json!({"id": 2, "method": "session/new", "params": {"cwd": "/project", "mcpServers": servers}})
}

#[test]
fn a_2025_1_agent_is_told_of_a_sessions_mcp_servers_or_the_session_is_refused() {
    let plain =
        json!({"name": "files", "command": "/bin/files", "args": [], "env": [{"name": "K", "value": "V"}]});
    let with_args = json!({"name": "web", "command": "/bin/web", "args": ["--fast"], "env": []});

    let mut bridge = Bridge::new(Dialect::V1, Dialect::V2025_1, TranslationOptions::default());
    let told = routed(&mut bridge, Side::Client, &new_session(&json!([plain])));
    let [(Side::Client, refused)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(refused["error"]["code"], -32602);
    assert!(
        refused["error"]["message"].as_str().is_some_and(|words| words.contains("\"files\"")),
        "{refused}"
    );

    let options = TranslationOptions { per_folder: true, ..TranslationOptions::default() };
    let mut bridge = Bridge::new(Dialect::V1, Dialect::V2025_1, options);
    let told = routed(&mut bridge, Side::Client, &new_session(&json!([plain])));
    let [(Side::Agent, new)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(
        new["params"]["_meta"][START_KEY],
        json!({"working_directory": "/project",
               "mcp_servers": [{"name": "files", "url": "stdio:///bin/files", "credentials": {"K": "V"}}]})
    );
    let told = routed(&mut bridge, Side::Client, &new_session(&json!([with_args])));
    let [(Side::Client, refused)] = told.as_slice() else { panic!("{told:?}") };
    assert!(
        refused["error"]["message"].as_str().is_some_and(|words| words.contains("arguments")),
        "{refused}"
    );
}
