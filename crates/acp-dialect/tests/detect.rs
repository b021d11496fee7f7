//! Naming a peer's form from its first frame.

mod common;

use acp_dialect::{Detection, Dialect, detect};
use acp_rpc::{Direction, Frame};
use common::{Speaker, cases, foreign_dialects, read};

fn frame(text: &str) -> Frame {
    Frame::parse(text.to_owned())
}

fn first(dialect: Dialect, dir: Direction) -> Frame {
    let (_, path) = cases(dialect).into_iter().find(|(name, _)| name.ends_with("-initialize")).unwrap();
    let said = read(&path).into_iter().find(|said| said.line.dir == dir && said.by == Speaker::Foreign);
    said.unwrap().line.frame
}

#[test]
fn each_client_is_known_by_its_initialize() {
    for dialect in foreign_dialects() {
        let found = detect([&first(dialect, Direction::ClientToAgent)]);
        if dialect == Dialect::GO {
            let Detection::Unsure { candidates, message } = found else {
                panic!("go looks like v1: {found:?}")
            };
            assert_eq!(candidates, [Dialect::V1, Dialect::GO]);
            assert!(message.contains("name the dialect"), "{message}");
        } else {
            assert_eq!(found, Detection::Sure(dialect));
        }
    }
}

#[test]
fn each_agent_is_known_by_its_answer() {
    for dialect in foreign_dialects() {
        assert_eq!(detect([&first(dialect, Direction::AgentToClient)]), Detection::Sure(dialect));
    }
    let v1 = frame(
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"promptCapabilities":{"image":true}}}}"#,
    );
    assert_eq!(detect([&v1]), Detection::Sure(Dialect::V1));
}

#[test]
fn a_bare_answer_is_taken_as_v1_and_says_so() {
    let bare = frame(
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}"#,
    );
    let found = detect([&bare]);
    assert_eq!(found.best(), Some(Dialect::V1));
    assert!(matches!(found, Detection::Unsure { .. }), "{found:?}");
}

#[test]
fn later_frames_tell_when_the_first_do_not() {
    let unclear = frame(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#);
    let go = frame(
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"kind":"tool_call","toolCallId":"t","status":"pending"}}}"#,
    );
    assert_eq!(detect([&unclear, &go]), Detection::Sure(Dialect::GO));
    for (text, dialect) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"newSession","params":{}}"#, Dialect::PROBE),
        (r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"session_id":"x"}}"#, Dialect::V2025_1),
        (r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"workDir":"/"}}"#, Dialect::DELTA),
        (
            r#"{"jsonrpc":"2.0","method":"assistant.message_delta","params":{"sessionId":"s","content":"x"}}"#,
            Dialect::DELTA,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":{}}}"#,
            Dialect::GO,
        ),
    ] {
        assert_eq!(detect([&frame(text)]), Detection::Sure(dialect), "{text}");
    }
}

#[test]
fn what_is_no_form_of_acp_is_said_in_words() {
    for (text, word) in [
        ("Starting agent...", "not a JSON-RPC message"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, "not initialize"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"banana"}}"#, "banana"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}"#, "an error"),
        (r#"{"jsonrpc":"2.0","id":1,"result":"hello"}"#, "not an object"),
    ] {
        let Detection::Unsure { candidates, message } = detect([&frame(text)]) else { panic!("{text}") };
        assert!(candidates.is_empty() && message.contains(word), "{text}: {message}");
    }
}
