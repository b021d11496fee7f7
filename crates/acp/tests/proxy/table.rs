//! Every client form against every agent form: one whole conversation each.

use std::collections::BTreeSet;
use std::path::Path;

use acp_dialect::Dialect;
use serde_json::Value;

use crate::talker::{FILE, Talker};
use crate::{Place, Proxy, lines_of};

/// What is on a wire of this form and of no other, and what never is.
fn marks(dialect: Dialect) -> (&'static [&'static str], &'static [&'static str]) {
    match dialect.as_str() {
        "v1" => (
            &[
                r#""protocolVersion":1"#,
                r#""method":"session/prompt""#,
                r#""prompt":[{"#,
                r#""sessionUpdate":"agent_message_chunk""#,
                r#""promptCapabilities":{"image""#,
            ],
            &[r#""session_id""#, r#""method":"newSession""#, "assistant.message_delta", r#""toolKind""#],
        ),
        "2025.1" => (
            &[
                r#""protocol_version":"2025.1""#,
                r#""agent_info""#,
                r#""session_id""#,
                r#""type":"agent_message_chunk""#,
                r#""status":"ok""#,
            ],
            &[
                r#""method":"newSession""#,
                "assistant.message_delta",
                r#""params":{"sessionId""#,
                r#""result":{"stopReason""#,
            ],
        ),
        "probe" => (
            &[
                r#""protocolVersion":"1""#,
                r#""method":"newSession""#,
                r#""method":"prompt""#,
                r#""method":"messageChunk""#,
                r#""method":"toolCallProgress""#,
                r#""method":"cancel""#,
            ],
            &[r#""method":"session/"#, r#""session_id""#, "assistant.message_delta"],
        ),
        "go" => (
            &[
                r#""protocolVersion":1"#,
                r#""promptCapabilities":{"content":["#,
                r#""kind":"tool_call""#,
                r#""toolKind""#,
            ],
            &[
                r#""session_id""#,
                r#""method":"newSession""#,
                "assistant.message_delta",
                r#""promptCapabilities":{"image""#,
            ],
        ),
        "delta" => (
            &[
                r#""protocolVersion":"2025-01-01""#,
                r#""workDir""#,
                r#""method":"assistant.message_delta""#,
                r#""canceled":true"#,
            ],
            &[
                r#""session_id""#,
                r#""method":"newSession""#,
                r#""sessionUpdate":"agent_message_chunk""#,
                r#""prompt":[{"#,
            ],
        ),
        other => panic!("no peer speaks {other}"),
    }
}

fn assert_spoken(dialect: Dialect, wire: &[(String, String)], name: &str) {
    // What a form has no field for travels in `_meta`, under its own names.
    let text: String = wire.iter().map(|(_, line)| format!("{}\n", without_meta(line))).collect();
    let (present, absent) = marks(dialect);
    for mark in present {
        assert!(text.contains(mark), "{name}: {mark} is missing on the {dialect} wire:\n{text}");
    }
    for mark in absent {
        assert!(!text.contains(mark), "{name}: {mark} has no place on the {dialect} wire:\n{text}");
    }
}

fn without_meta(line: &str) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("_meta");
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(line).expect("JSON on the wire");
    strip(&mut value);
    value
}

fn can_be_asked(dialect: Dialect) -> bool {
    matches!(dialect.as_str(), "v1" | "go" | "delta")
}

/// The notes by name: side, kind, method, field.
fn notes(said: &str) -> String {
    let note = |line: &str| {
        let words = line.strip_prefix("acp proxy: [1] ")?;
        let (side, rest) = words.split_once(": ")?;
        if !matches!(side, "client" | "agent") {
            return None;
        }
        let (what, _) = rest.split_once(": ")?;
        Some(format!("{side}: {what}\n"))
    };
    said.lines().filter_map(note).collect::<BTreeSet<_>>().into_iter().collect()
}

fn check(client: Dialect, agent: Dialect) {
    let name = format!("{client}-{agent}");
    let place = Place::new();
    let agent_wire = place.file("agent.ndjson");
    let mock = place.mock(&format!("--dialect {agent} --record {agent_wire}"));
    let client_name = client.to_string();
    let args = [
        "--command",
        &mock,
        "--dialect",
        agent.as_str(),
        "--client-dialect",
        &client_name,
        "--permission",
        "allow",
        "--client-files",
        "--load-session",
    ];
    let proxy = Proxy::tcp(&place, &args);
    let mut talker = Talker::new(client, proxy.connect(), &place.path.display().to_string());

    talker.initialize();
    talker.new_session();
    let turn = talker.prompt("Read notes.txt. Then ask for permission.");
    let result = talker.result(turn);
    assert!(talker.text.contains(FILE), "{name}: the file's text: {:?}", talker.text);
    assert_eq!(talker.reads, 1, "{name}: file read");
    assert!(talker.chunks > 1, "{name}: streamed in {} chunks", talker.chunks);
    assert!(talker.tools.iter().any(|tool| tool.ends_with(" completed")), "{name}: {:?}", talker.tools);
    assert_eq!(talker.asked, usize::from(can_be_asked(client) && can_be_asked(agent)), "{name}: permission");
    match client.as_str() {
        "v1" | "go" => assert_eq!(result["stopReason"], "end_turn", "{name}"),
        "2025.1" => assert_eq!(result["status"], "ok", "{name}"),
        "probe" => assert_eq!(result["content"][0]["text"], talker.text.as_str(), "{name}"),
        "delta" => assert_eq!(result["content"], talker.text.as_str(), "{name}"),
        other => panic!("no peer speaks {other}"),
    }

    let chunks = talker.chunks;
    let turn = talker.prompt("Count slowly to 1000");
    while talker.chunks == chunks {
        talker.hear();
    }
    talker.cancel();
    let result = talker.result(turn);
    assert!(talker.chunks < 600, "{name}: {} chunks came in spite of the cancel", talker.chunks);
    let kept = &result["_meta"]["acp-dialect/v1"]["stopReason"];
    let told = result["stopReason"] == "cancelled" || *kept == "cancelled" || result["canceled"] == true;
    assert!(told || client == agent, "{name}: the client cannot tell that the turn was cancelled: {result}");

    talker.load();
    let history = talker.history.join("\n");
    assert!(history.contains("Read notes.txt"), "{name}: history: {history:?}");

    let wire = std::mem::take(&mut talker.wire);
    drop(talker);
    place.wait_for_processes(0);
    let (code, said) = proxy.stop();
    assert_eq!(code, Some(0), "{name}: {said}");
    let theirs = lines_of(&agent_wire);
    assert_spoken(client, &wire, &name);
    assert_spoken(agent, &theirs, &name);
    if client == agent {
        for dir in ["c2a", "a2c"] {
            let of = |wire: &[(String, String)]| -> Vec<String> {
                wire.iter().filter(|(way, _)| way == dir).map(|(_, line)| line.clone()).collect()
            };
            // The agent may have said more after the client had left.
            let (ours, mut theirs) = (of(&wire), of(&theirs));
            theirs.truncate(ours.len());
            assert_eq!(ours, theirs, "{name}: the identity changed bytes");
        }
    }
    let notes = notes(&said);
    assert!(!notes.contains("other-dialect") && !notes.contains("malformed"), "{name}: {said}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxy/notes");
    acp_testkit::golden::check_file(folder.join(format!("{name}.txt")), &notes);
}

fn row(client: Dialect) {
    for agent in Dialect::ALL {
        check(client, agent);
    }
}

#[test]
fn a_v1_client_reaches_every_agent() {
    row(Dialect::V1);
}

#[test]
fn a_2025_1_client_reaches_every_agent() {
    row(Dialect::V2025_1);
}

#[test]
fn a_probe_client_reaches_every_agent() {
    row(Dialect::PROBE);
}

#[test]
fn a_go_client_reaches_every_agent() {
    row(Dialect::GO);
}

#[test]
fn a_delta_client_reaches_every_agent() {
    row(Dialect::DELTA);
}
