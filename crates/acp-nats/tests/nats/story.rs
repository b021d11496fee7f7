//! What holds for the events of every session.

use acp_proxy::event::{Body, Event, Role, TurnEnd};
use sha2::{Digest, Sha256};

/// Within an epoch numbers go up by one from one, no epoch comes back, and each turn's text is what its end says.
pub fn check(story: &[Event]) {
    let mut epochs: Vec<u64> = Vec::new();
    let mut seq = 0;
    let mut text = Sha256::new();
    let mut length = 0;
    let mut parts = String::new();
    for event in story {
        if epochs.last() != Some(&event.epoch) {
            assert!(!epochs.contains(&event.epoch), "epoch {} comes back", event.epoch);
            epochs.push(event.epoch);
            seq = 0;
        }
        seq += 1;
        assert_eq!(event.seq, seq, "events are missing, doubled or out of order: {event}");
        let mut body = event.body.clone();
        if let Body::Part(part) = &body {
            parts.push_str(&part.text);
            if part.index + 1 == part.count {
                body = Body::parse(&part.of, &std::mem::take(&mut parts)).expect("the parts are an event");
            }
        }
        match &body {
            Body::TurnStart(_) => (text, length) = (Sha256::new(), 0),
            Body::Text(piece) if piece.role == Role::Agent => {
                text.update(&piece.text);
                length += piece.text.len() as u64;
            }
            Body::TurnEnd(end) => {
                let digest: String =
                    text.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!((end.length, &end.sha256), (length, &digest), "{event}");
            }
            _ => {}
        }
    }
}

/// The agent's text in these events, and of how many chunks it was made.
pub fn text_of(story: &[Event]) -> (String, u64) {
    let mut all = (String::new(), 0);
    for event in story {
        if let Body::Text(text) = &event.body {
            all.0 += &text.text;
            all.1 += text.chunks;
        }
    }
    all
}

/// The ends of turns.
pub fn ends(story: &[Event]) -> Vec<&TurnEnd> {
    story
        .iter()
        .filter_map(|event| match &event.body {
            Body::TurnEnd(end) => Some(end),
            _ => None,
        })
        .collect()
}
