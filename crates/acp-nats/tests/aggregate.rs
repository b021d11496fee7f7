//! Text is joined in virtual time.

use std::time::Duration;

use acp_nats::aggregate::{AggregateLimits, Aggregator};
use acp_proxy::event::{Body, Role, SessionClosed, Text};

fn text(role: Role, message: &str, text: &str) -> Body {
    Body::Text(Text { role, message_id: Some(message.to_owned()), text: text.to_owned(), chunks: 1 })
}

fn shown(bodies: &[Body]) -> Vec<String> {
    let show = |body: &Body| match body {
        Body::Text(text) => format!("{:?} {} {}", text.role, text.text, text.chunks),
        other => other.kind().to_owned(),
    };
    bodies.iter().map(show).collect()
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn chunks_of_one_message_are_joined_until_the_first_has_waited() {
    let (mut aggregator, mut out) = (Aggregator::new(AggregateLimits::default()), Vec::new());
    for (millis, word) in [(0, "a"), (50, "b"), (149, "c")] {
        aggregator.push(at(millis), text(Role::Agent, "m", word), &mut out);
    }
    assert!(out.is_empty());
    assert_eq!(aggregator.next_deadline(), Some(at(150)));
    aggregator.tick(at(150), &mut out);
    assert_eq!(shown(&out), ["Agent abc 3"]);
    assert_eq!(aggregator.next_deadline(), None);
}

#[test]
fn another_kind_another_message_and_anything_else_end_a_piece() {
    let (mut aggregator, mut out) = (Aggregator::new(AggregateLimits::default()), Vec::new());
    for (role, message, word) in
        [(Role::Thought, "m", "t"), (Role::Agent, "m", "a"), (Role::Agent, "n", "b"), (Role::Agent, "n", "c")]
    {
        aggregator.push(at(0), text(role, message, word), &mut out);
    }
    aggregator.push(at(1), Body::Closed(SessionClosed { reason: String::new() }), &mut out);
    assert_eq!(shown(&out), ["Thought t 1", "Agent a 1", "Agent bc 2", "closed"]);
}

#[test]
fn a_piece_has_at_most_its_bytes_and_no_character_is_cut() {
    let limits = AggregateLimits { bytes: 10, ..AggregateLimits::default() };
    let (mut aggregator, mut out) = (Aggregator::new(limits), Vec::new());
    let long = "\u{1F600}é\u{1F600}\u{1F600}é";
    aggregator.push(at(0), text(Role::Agent, "m", long), &mut out);
    aggregator.push(at(1), text(Role::Agent, "m", "12345678"), &mut out);
    aggregator.flush(&mut out);
    let pieces: Vec<(String, u64)> = out
        .iter()
        .filter_map(|body| match body {
            Body::Text(text) => Some((text.text.clone(), text.chunks)),
            _ => None,
        })
        .collect();
    assert!(pieces.iter().all(|(text, _)| text.len() <= 10), "{pieces:?}");
    assert_eq!(pieces.iter().map(|(text, _)| text.as_str()).collect::<String>(), format!("{long}12345678"));
    assert_eq!(pieces.iter().map(|(_, chunks)| chunks).sum::<u64>(), 2);
}

#[test]
fn without_aggregation_every_chunk_is_a_message() {
    let (mut aggregator, mut out) = (Aggregator::new(AggregateLimits::none()), Vec::new());
    for word in ["a", "b", "c"] {
        aggregator.push(at(0), text(Role::Agent, "m", word), &mut out);
    }
    assert_eq!(shown(&out), ["Agent a 1", "Agent b 1", "Agent c 1"]);
    assert_eq!(aggregator.next_deadline(), None);
}

#[test]
fn fifty_tokens_a_second_are_fewer_than_eight_messages_a_second() {
    const SECONDS: u64 = 60;
    let (mut aggregator, mut out) = (Aggregator::new(AggregateLimits::default()), Vec::new());
    for millis in (0..SECONDS * 1000).step_by(20) {
        while let Some(deadline) = aggregator.next_deadline().filter(|deadline| *deadline <= at(millis)) {
            aggregator.tick(deadline, &mut out);
        }
        aggregator.push(at(millis), text(Role::Agent, "m", "token "), &mut out);
    }
    aggregator.flush(&mut out);
    let chunks: u64 = out.iter().map(|body| if let Body::Text(text) = body { text.chunks } else { 0 }).sum();
    assert_eq!(chunks, SECONDS * 50);
    assert!((out.len() as u64) < SECONDS * 8, "{} messages in {SECONDS} s", out.len());
}
