//! The forms a transcript entry may have.

use std::time::Duration;

use acp_rpc::Direction;
use acp_rpc::transcript::{TranscriptEntry, TranscriptFlaw};

fn entry(millis: u64, dir: Direction, line: &'static [u8]) -> TranscriptEntry {
    TranscriptEntry { t: Duration::from_millis(millis), dir, line: line.into() }
}

#[test]
fn an_entry_is_written_in_one_form() {
    let text = entry(1500, Direction::ClientToAgent, b"{\"a\":\"\\n\x01\"}");
    assert_eq!(text.to_json_line(), r#"{"t":1.500000,"dir":"c2a","line":"{\"a\":\"\\n\u0001\"}"}"#);
    let bytes = entry(0, Direction::AgentToClient, b"\xff");
    assert_eq!(bytes.to_json_line(), r#"{"t":0.000000,"dir":"a2c","base64":"/w=="}"#);
}

#[test]
fn all_three_forms_are_read() {
    let line = TranscriptEntry::parse(r#" {"dir":"a2c","line":"x","t":1,"more":[1]} "#).unwrap();
    assert_eq!(line, entry(1000, Direction::AgentToClient, b"x"));
    let base64 = TranscriptEntry::parse(r#"{"t":2.5e-1,"dir":"c2a","base64":"/w=="}"#).unwrap();
    assert_eq!(base64, entry(250, Direction::ClientToAgent, b"\xff"));
    let frame = TranscriptEntry::parse(r#"{"t":0.001,"dir":"c2a","frame":{"id": 1.50}}"#).unwrap();
    assert_eq!(frame, entry(1, Direction::ClientToAgent, br#"{"id": 1.50}"#));
}

#[test]
fn a_bad_entry_says_what_it_lacks() {
    let table = [
        ("", "not a JSON object (expected '{' at byte 0)"),
        ("{\"t\":1", "expected ',' or '}' at byte 6"),
        ("{} x", "expected the end at byte 3"),
        (r#"{"dir":"c2a","line":"x"}"#, "the member \"t\" is missing"),
        (r#"{"t":-1,"dir":"c2a","line":"x"}"#, "\"t\" must be seconds"),
        (r#"{"t":-1.5,"dir":"c2a","line":"x"}"#, "\"t\" must be seconds"),
        (r#"{"t":"1","dir":"c2a","line":"x"}"#, "\"t\" must be seconds"),
        (r#"{"t":1e300,"dir":"c2a","line":"x"}"#, "\"t\" must be seconds"),
        (r#"{"t":1,"line":"x"}"#, "the member \"dir\" is missing"),
        (r#"{"t":1,"dir":"up","line":"x"}"#, "\"dir\" must be \"c2a\" or \"a2c\""),
        (r#"{"t":1,"dir":"c2a"}"#, "it has no frame"),
        (r#"{"t":1,"dir":"c2a","line":1}"#, "\"line\" must be a string"),
        (r#"{"t":1,"dir":"c2a","base64":"?"}"#, "\"base64\" must be a string of base64"),
    ];
    for (text, why) in table {
        let flaw: TranscriptFlaw = TranscriptEntry::parse(text).expect_err(text);
        assert!(flaw.to_string().contains(why), "{text}: {flaw}");
    }
}

#[test]
fn an_entry_without_a_time_can_be_given_one() {
    let text = r#"{"dir":"c2a","line":"hello"}"#;
    assert_eq!(TranscriptEntry::parse(text), Err(TranscriptFlaw::Missing("t")));
    let at = Duration::from_millis(1500);
    assert_eq!(TranscriptEntry::parse_at(text, at).map(|entry| entry.t), Ok(at));
    let timed = r#"{"t":2,"dir":"c2a","line":"hello"}"#;
    assert_eq!(TranscriptEntry::parse_at(timed, at).map(|entry| entry.t), Ok(Duration::from_secs(2)));
}
