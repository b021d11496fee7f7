//! A folder in which everything is wrong: the agent says what it left out, and goes on.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::talk::{Place, Talk};

/// Files that no tool can take as they are, and one that it can.
fn mess() -> Place {
    let place = Place::new();
    let file = |name: &str, bytes: &[u8]| std::fs::write(place.work().join(name), bytes).expect("a file");
    let mut line = b"[\"needle\"".to_vec();
    line.resize(100 << 20, b'x');
    file("big.json", &line);
    file("blob.bin", b"\0\x01\x02needle\0");
    file("latin.py", b"def needle():\n    return \"caf\xe9\"\n");
    file("good.rs", b"fn needle() {}\n");
    symlink(".", place.work().join("round")).expect("a link");
    symlink("itself.rs", place.work().join("itself.rs")).expect("a link");
    place
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_found() {
    let place = mess();
    let mut talk = Talk::v1(place.agent(&[]), &json!({}));
    let session = talk.session(&place.work(), &json!([]));
    for (wish, status, parts) in [
        ("/search needle", "completed", &["good.rs", "larger than 4 MB", "big.json"][..]),
        ("Search for 'needle'", "completed", &["big.json", "good.rs", "latin.py"]),
        ("Query the pattern 'fn needle() {}' in rust", "completed", &["good.rs:1"]),
        ("Query the pattern 'fn $A( {' in rust", "failed", &["column"]),
        ("/extract big.json:1", "completed", &["larger than 16 MB"]),
        ("/extract itself.rs", "failed", &["itself.rs"]),
        ("/extract /etc/passwd", "failed", &["outside"]),
        ("Read big.json", "failed", &["16777216 bytes"]),
        ("Read blob.bin", "failed", &["binary"]),
        ("Read latin.py", "failed", &["not UTF-8"]),
        ("Read itself.rs", "failed", &["itself.rs"]),
        ("Read ../state/owner", "failed", &["outside"]),
        ("Read round/round/good.rs", "completed", &["fn needle"]),
    ] {
        let from = talk.heard.len();
        let answer = talk.prompt(&session, wish);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{wish}: {answer}");
        let turn: Vec<&Value> = talk.heard[from..].iter().map(|frame| &frame["params"]["update"]).collect();
        let end = turn.iter().rfind(|update| update["status"].is_string()).expect("a state");
        assert_eq!(end["status"], status, "{wish}: {end}");
        let said: String = turn
            .iter()
            .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
            .filter_map(|update| update["content"]["text"].as_str())
            .collect();
        for part in parts {
            assert!(said.contains(part), "{wish}: {part} in {said}");
        }
    }
    assert_eq!(talk.end().0, Some(0));
}
