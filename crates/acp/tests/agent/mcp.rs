//! MCP servers that live, and one that dies in the middle of a call.

use serde_json::json;

use crate::talk::{ACP, Place, Talk};

/// Answers the handshake and the list, and dies when a tool is called.
const DIES: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"mortal","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"leap","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"tools/call"'*) echo 'no ground below' >&2; exit 9 ;;
  esac
done
"#;

#[test]
fn a_server_that_dies_in_a_call_fails_the_call_and_nothing_else() {
    let place = Place::new();
    let mut talk = Talk::v1(place.agent(&[]), &json!({}));
    let servers = json!([
        { "name": "mortal", "command": "sh", "args": ["-c", DIES], "env": [] },
        { "name": "stub", "command": ACP, "args": ["mcp-stub"], "env": [] },
    ]);
    let session = talk.session(&place.work(), &servers);
    let done = talk.prompt(&session, "Call the tool leap of the server mortal");
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done}");
    let call = talk.updates().into_iter().find(|update| update["name"] == "mcp__mortal__leap").cloned();
    let call = call.expect("a tool call");
    let last = talk.updates().into_iter().rfind(|update| update["toolCallId"] == call["toolCallId"]).cloned();
    assert_eq!(last.expect("its end")["status"], "failed");
    assert!(talk.words().contains("no ground below"), "{}", talk.words());
    let done = talk.prompt(&session, "Call the tool ping of the server stub");
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done}");
    assert!(talk.words().contains("pong"), "{}", talk.words());
    assert_eq!(talk.end().0, Some(0));
}

#[test]
fn without_leave_servers_are_not_started_and_the_person_is_told() {
    let place = Place::new();
    let mut command = std::process::Command::new(ACP);
    command.args(["agent", "--no-state"]).current_dir(place.folder.path());
    let mut talk = Talk::v1(command, &json!({}));
    let mark = place.folder.path().join("started");
    let script = format!("touch {}", mark.display());
    let servers = json!([{ "name": "x", "command": "sh", "args": ["-c", script], "env": [] }]);
    let session = talk.session(&place.work(), &servers);
    talk.prompt(&session, "Say 'hello'");
    assert!(talk.words().contains("without MCP"), "{}", talk.words());
    assert!(!mark.exists());
}
