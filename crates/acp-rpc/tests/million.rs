//! A million damaged lines from a fixed seed: nothing panics, nothing is lost, and the grammar is serde_json's.

use acp_rpc::transcript::TranscriptEntry;
use acp_rpc::{Flaw, Frame, Line, Peer, Received, Splitter, View};
use acp_testkit::Mutator;
use serde::de::IgnoredAny;
use std::time::Duration;

const INPUTS: usize = 1_000_000;

const CORPUS: &[&[u8]] = &[
    br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#,
    br#"{"jsonrpc":"2.0","method":"session/update","params":{"s":"a","u":{"t":"\u00e9\n","n":-1.5e3}}}"#,
    br#"{"jsonrpc":"2.0","id":"x","result":{"stopReason":"end_turn"}}"#,
    br#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}"#,
    br#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#,
    br#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":3,"result":null}]"#,
    br#"{"t":0.000412,"dir":"c2a","line":"{\"jsonrpc\":\"2.0\"}"}"#,
    br#"{"t":1,"dir":"a2c","base64":"/w=="}"#,
];

/// What serde_json says about the grammar, where it is asked the same question.
fn check_against_serde(frame: &Frame) {
    let Some(text) = frame.text() else { return };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let grammatical = serde_json::from_str::<IgnoredAny>(text).is_ok();
    match frame.flaw() {
        Some(Flaw::TooDeep { .. }) => {}
        Some(Flaw::NotJson { .. } | Flaw::Blank) => assert!(!grammatical, "{frame:?}"),
        Some(_) => assert!(grammatical, "{frame:?}"),
        None => {
            assert!(grammatical, "{frame:?}");
            if let View::Batch(elements) = frame.view() {
                return elements.iter().for_each(check_against_serde);
            }
            if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
                assert!(error.to_string().contains("number out of range"), "{error} in {frame:?}");
            }
        }
    }
}

#[test]
fn a_million_damaged_lines_are_all_read() {
    let mut mutator = Mutator::new(0x5EED, CORPUS);
    let mut splitter = Splitter::new(4096);
    let mut peer = Peer::default();
    let (mut good, mut violations, mut lines) = (0_usize, 0_usize, 0_usize);
    for n in 0..INPUTS {
        let input = mutator.next_input();
        let frame = Frame::parse(input.to_vec());
        assert_eq!(frame.raw(), input);
        check_against_serde(&frame);
        if let Some(text) = frame.text() {
            let _ = TranscriptEntry::parse(text);
        }
        good += usize::from(!matches!(frame.view(), View::Malformed(_)));
        let now = Duration::from_millis(n as u64);
        if n % 64 == 0 {
            let _ = peer.request(now, "m", &(), Some(Duration::from_millis(500)));
        }
        peer.tick(now);
        match peer.receive(now, frame) {
            Received::Asked { id, .. } if n % 2 == 0 => drop(peer.respond(&id, &())),
            Received::Violation(..) => violations += 1,
            _ => {}
        }

        splitter.push(input);
        splitter.push(b"\n{\"jsonrpc\":\"2.0\",\"method\":\"good\"}\n");
        let mut last = None;
        while let Some(line) = splitter.next_line() {
            lines += 1;
            last = Some(line);
        }
        let Some(Line::Text(last)) = last else { panic!("{last:?}") };
        assert_eq!(Frame::parse(last).method(), Some("good"), "after {n}");
    }
    // The run is worth something: both kinds came, and often.
    assert!(good > INPUTS / 50, "only {good} good frames");
    assert!(violations > INPUTS / 4, "only {violations} violations");
    assert!(lines > 2 * INPUTS, "only {lines} lines");
}
