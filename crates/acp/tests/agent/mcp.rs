//! MCP servers that live, and one that dies in the middle of a call.

use std::path::Path;
use std::time::{Duration, Instant};

use acp_mcp::stub::{StubEvent, StubLog};
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
    assert!(talk.words().contains("of the MCP server \"mortal\""), "{}", talk.words());
    for _ in 0..2 {
        talk.prompt(&session, "Call the tool leap of the server mortal");
    }
    let words = talk.words();
    assert_eq!(words.matches("MCP server \"mortal\" cannot be used: ").count(), 1, "{words}");
    assert!(words.contains("No MCP server of this session offers a tool \"leap\""), "{words}");
    let calls = talk.updates().into_iter().filter(|update| update["name"] == "mcp__mortal__leap").count();
    assert_eq!(calls, 1, "its tools are gone with it");
    let done = talk.prompt(&session, "Call the tool ping of the server stub");
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done}");
    assert!(talk.words().contains("pong"), "{}", talk.words());
    assert_eq!(talk.end().0, Some(0));
}

/// Reads the stub's log until it shows what is waited for.
fn until(log: &Path, what: impl Fn(&StubLog) -> bool) -> StubLog {
    let began = Instant::now();
    loop {
        let seen = StubLog::parse(&std::fs::read_to_string(log).unwrap_or_default());
        if what(&seen) {
            return seen;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the log never showed it: {seen:#?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_server_hears_of_a_cancelled_call_and_is_gone_after_the_session_even_in_a_call() {
    let place = Place::new();
    let log = place.folder.path().join("log");
    let mut agents = vec![place.agent(&[])];
    let mut mock = std::process::Command::new(ACP);
    mock.args(["mock"]).current_dir(place.folder.path());
    agents.push(mock);
    for agent in agents {
        let mut talk = Talk::v1(agent, &json!({}));
        let servers =
            json!([{ "name": "stub", "command": ACP, "args": ["mcp-stub", "--log", log], "env": [] }]);
        let session = talk.session(&place.work(), &servers);
        let wish = "Use the slow tool from the stub MCP server with {\"ms\": 600000}";
        let cancelled = |seen: &StubLog| {
            let done = |event: &StubEvent| matches!(event, StubEvent::ToolsDone { outcome, .. } if outcome == "cancelled");
            seen.records.iter().any(|record| done(&record.event))
        };
        let call = |talk: &mut Talk, times: usize| {
            let prompt = talk.send_prompt(&session, wish);
            // Permission is given on the way to the first update of the call that runs.
            talk.until(|frame| frame["params"]["update"]["status"] == "in_progress");
            until(&log, |seen| seen.calls("slow").count() == times);
            prompt
        };
        let prompt = call(&mut talk, 1);
        talk.tell("session/cancel", &json!({ "sessionId": session }));
        assert_eq!(talk.answer(prompt)["result"]["stopReason"], "cancelled");
        until(&log, cancelled);

        let prompt = call(&mut talk, 2);
        let close = talk.send("session/close", &json!({ "sessionId": session }));
        assert_eq!(talk.answer(prompt)["result"]["stopReason"], "cancelled");
        assert!(talk.answer(close).get("result").is_some());
        until(&log, |seen| seen.open_processes().is_empty());
        assert_eq!(talk.end().0, Some(0));
        std::fs::remove_file(&log).expect("removed");
    }
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
