//! The short way and the long way say the same, and leave the same behind.

use acp_rpc::Frame;
use acp_testkit::{Mutator, Rng};
use serde_json::{Value, json};

use crate::{Bridge, Destination, Dialect, Side, Translated, TranslationOptions, Translator};

/// A client and an agent that speak v1 behind translators of their own, so that their frames can be had in any form.
struct Peers {
    client: Translator,
    agent: Translator,
}

/// The two translators of a bridge, without the short way.
struct Long {
    client: Translator,
    agent: Translator,
}

fn options() -> TranslationOptions {
    TranslationOptions { work_dir: "/w".to_owned(), load_session: true, ..TranslationOptions::default() }
}

fn only(translated: Translated) -> Frame {
    let mut onward = translated.frames.into_iter().filter(|out| out.to == Destination::Onward);
    onward.next().expect("a frame goes on").frame
}

fn v1(value: Value) -> Frame {
    Frame::parse(value.to_string())
}

fn chunk(kind: &str, text: &str) -> Frame {
    let update = json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
    v1(
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "sess_1", "update": update}}),
    )
}

impl Long {
    fn at(&mut self, side: Side) -> &mut Translator {
        if side == Side::Client { &mut self.client } else { &mut self.agent }
    }

    /// What the other side gets.
    fn receive(&mut self, from: Side, frame: &Frame) -> Vec<Frame> {
        let mut told = Vec::new();
        for out in self.at(from).the_long_way(true, frame).frames {
            assert_eq!(out.to, Destination::Onward, "{frame} was answered");
            let second = self.at(from.other()).the_long_way(false, &out.frame).frames;
            told.extend(second.into_iter().filter(|out| out.to == Destination::Onward).map(|out| out.frame));
        }
        told
    }
}

/// Both ways between two forms, after a prompt was sent.
fn begun(client: Dialect, agent: Dialect) -> (Bridge, Long, Peers) {
    let mut peers = Peers {
        client: Translator::new(client, Side::Agent, options()),
        agent: Translator::new(agent, Side::Client, options()),
    };
    let mut bridge = Bridge::new(client, agent, options());
    let mut long = Long {
        client: Translator::new(client, Side::Client, options()),
        agent: Translator::new(agent, Side::Agent, options()),
    };
    let asks = [
        json!({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}),
        json!({"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}),
        json!({"jsonrpc":"2.0","id":3,"method":"session/prompt",
               "params":{"sessionId":"sess_1","prompt":[{"type":"text","text":"go"}]}}),
    ];
    let answers = [
        json!({"protocolVersion":1,"agentCapabilities":{"loadSession":true}}),
        json!({"sessionId":"sess_1"}),
    ];
    let mut answers = answers.into_iter();
    for ask in asks {
        let asked = only(peers.client.from_canonical(&v1(ask)));
        long.receive(Side::Client, &asked);
        for (to, frame) in bridge.receive(Side::Client, &asked).frames {
            assert_eq!(to, Side::Agent, "{client} to {agent}: {frame}");
            let heard = only(peers.agent.to_canonical(&frame));
            let Some(result) = answers.next() else { continue };
            let answer = Frame::response(heard.id().expect("a request"), &result);
            let answer = only(peers.agent.from_canonical(&answer));
            for answer in long.receive(Side::Agent, &answer) {
                peers.client.to_canonical(&answer);
            }
            bridge.receive(Side::Agent, &answer);
        }
    }
    (bridge, long, peers)
}

fn pairs() -> impl Iterator<Item = (Dialect, Dialect)> {
    let all = Dialect::ALL;
    all.into_iter()
        .flat_map(move |client| all.into_iter().map(move |agent| (client, agent)))
        .filter(|(client, agent)| client != agent)
}

/// What a bridge does with a line, on the short way if there is one; whether there was.
fn received(bridge: &mut Bridge, line: &str) -> (Vec<Frame>, bool) {
    let mut out = Vec::new();
    if bridge.stream(Side::Agent, line, &mut out) {
        assert_eq!(out.pop(), Some(b'\n'));
        return (vec![Frame::parse(out)], true);
    }
    assert!(out.is_empty(), "something was written for {line}");
    let routed = bridge.receive(Side::Agent, &Frame::parse(line.to_owned()));
    (routed.frames.into_iter().filter(|(to, _)| *to == Side::Client).map(|(_, frame)| frame).collect(), false)
}

/// The same members in the same order; strings may be spelled differently.
fn same(short: &[Frame], long: &[Frame], line: &str) {
    let spelled = |frames: &[Frame]| -> Vec<String> {
        frames
            .iter()
            .map(|frame| {
                serde_json::from_slice::<Value>(frame.raw())
                    .map_or_else(|_| frame.to_string(), |v| v.to_string())
            })
            .collect()
    };
    assert_eq!(spelled(short), spelled(long), "from {line}");
}

fn texts(rng: &mut Rng) -> String {
    const PARTS: [&str; 10] = [
        "plain words ",
        "\"quoted\"",
        "back\\slash",
        "line\nfeed",
        "\t",
        "é",
        "漢字",
        "🦀",
        "\u{1}",
        "{\"id\":1}",
    ];
    (0..rng.below(6)).filter_map(|_| rng.pick(&PARTS).copied()).collect()
}

#[test]
fn a_chunk_is_the_same_on_the_short_and_on_the_long_way() {
    let mut rng = Rng::new(7);
    for (client, agent) in pairs() {
        let (mut bridge, mut long, mut peers) = begun(client, agent);
        let mut short_ways = 0;
        for _ in 0..200 {
            let kind =
                ["agent_message_chunk", "agent_message_chunk", "agent_thought_chunk", "user_message_chunk"];
            let kind = rng.pick(&kind).copied().unwrap_or_default();
            let mut line = only(peers.agent.from_canonical(&chunk(kind, &texts(&mut rng)))).to_string();
            if rng.one_in(3) {
                line = line.replace('é', "\\u00e9").replace('🦀', "\\ud83e\\udd80").replace(':', ": ");
            }
            let (short, was) = received(&mut bridge, &line);
            short_ways += usize::from(was);
            same(&short, &long.receive(Side::Agent, &Frame::parse(line.clone())), &line);
        }
        // From probe to another foreign form the number travels in _meta, which is the long way.
        let expected = agent != Dialect::PROBE || matches!(client.as_str(), "v1" | "go");
        assert_eq!(short_ways > 50, expected, "{client} to {agent}: {short_ways}");
        // What was remembered shows in the answer.
        let answer = Frame::response(&acp_rpc::Id::from(3), &json!({"stopReason": "end_turn"}));
        let answer = only(peers.agent.from_canonical(&answer));
        let (short, _) = received(&mut bridge, &answer.to_string());
        same(&short, &long.receive(Side::Agent, &answer), "the answer");
        assert_eq!(short.len(), 1, "{client} to {agent}");
    }
}

#[test]
fn a_damaged_line_never_takes_the_short_way() {
    let lines: Vec<String> = Dialect::ALL
        .into_iter()
        .map(|dialect| {
            let mut peer = begun(Dialect::V1, dialect).2.agent;
            only(peer.from_canonical(&chunk("agent_message_chunk", "a \"word\" and é"))).to_string()
        })
        .collect();
    let corpus: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
    let mut mutator = Mutator::new(11, &corpus);
    let mut middle: Vec<_> = pairs().map(|(client, agent)| begun(client, agent)).collect();
    let mut short_ways = 0;
    for round in 0..200_000 {
        let input = mutator.next_input();
        let Ok(line) = std::str::from_utf8(input) else { continue };
        if line.contains('\n') {
            continue;
        }
        let count = middle.len();
        let (bridge, long, _) = &mut middle[round % count];
        let mut out = Vec::new();
        if bridge.stream(Side::Agent, line, &mut out) {
            short_ways += 1;
            let frame = Frame::parse(line.strip_suffix('\r').unwrap_or(line).to_owned());
            assert!(frame.flaw().is_none(), "{frame:?}");
            out.pop();
            same(&[Frame::parse(out)], &long.receive(Side::Agent, &frame), line);
        }
    }
    assert!(short_ways > 100, "{short_ways}");
}
