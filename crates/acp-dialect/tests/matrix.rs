//! Every client form against every agent form: one whole conversation each (new session, prompt with streaming, tool
//! call, permission, file read, cancel, load). Each cell says what the two peers saw, and its golden folder holds the
//! foreign frames on both wires and the notes.

mod peers;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;

use acp_dialect::{Bridge, Dialect, Note, Side, TranslationOptions, Unasked};
use acp_rpc::{Direction, Frame};
use peers::{Agent, Client};

struct Cell {
    client: Client,
    agent: Agent,
    wires: [String; 2],
    notes: Vec<(Side, Note)>,
}

fn converse(client: Dialect, agent: Dialect) -> Cell {
    let options = TranslationOptions {
        work_dir: "/w".to_owned(),
        permission: Unasked::Allow,
        client_files: true,
        load_session: true,
        ..TranslationOptions::default()
    };
    let mut bridge = Bridge::new(client, agent, options);
    let mut cell = Cell {
        client: Client::new(client),
        agent: Agent::new(agent),
        wires: [String::new(), String::new()],
        notes: Vec::new(),
    };
    let mut said: VecDeque<(Side, Frame)> =
        cell.client.start().into_iter().map(|frame| (Side::Client, frame)).collect();
    let mut steps = 0;
    while let Some((from, frame)) = said.pop_front() {
        steps += 1;
        assert!(steps < 500, "{client} to {agent} never ends; last: {frame}");
        cell.log(from, from, &frame);
        let routed = bridge.receive(from, &frame);
        cell.notes.extend(routed.notes);
        for (to, frame) in routed.frames {
            cell.log(to, to.other(), &frame);
            let answers = match to {
                Side::Client => cell.client.receive(&frame),
                Side::Agent => cell.agent.receive(&frame),
            };
            said.extend(answers.into_iter().map(|answer| (to, answer)));
        }
    }
    cell
}

impl Cell {
    /// Writes down a frame on the wire of `wire` that `from` sent.
    fn log(&mut self, wire: Side, from: Side, frame: &Frame) {
        let dir = if from == Side::Client { Direction::ClientToAgent } else { Direction::AgentToClient };
        let log = &mut self.wires[usize::from(wire == Side::Agent)];
        writeln!(log, "{} {frame}", dir.as_str()).unwrap();
    }
}

fn can_be_asked(dialect: Dialect) -> bool {
    matches!(dialect.as_str(), "v1" | "go" | "delta")
}

fn check(client: Dialect, agent: Dialect) {
    let cell = converse(client, agent);
    let name = format!("{client}-{agent}");
    let saw = &cell.client.saw;
    assert!(cell.client.is_done(), "{name}: the client stopped in the middle\n{}", cell.wires[0]);
    assert_eq!(saw.text, "Hello world", "{name}: streamed text");
    assert_eq!(saw.tools, ["t1 in_progress", "t1 completed"], "{name}: tool call");
    assert_eq!(
        saw.asked,
        usize::from(can_be_asked(client) && can_be_asked(agent)),
        "{name}: permission asked"
    );
    assert_eq!(cell.agent.approved, can_be_asked(agent).then_some(true), "{name}: permission given");
    assert_eq!(cell.agent.file.as_deref(), Some("file text"), "{name}: file read");
    assert_eq!(cell.agent.cancels, 1, "{name}: cancel");
    assert_eq!(saw.history, ["user: Earlier", "agent: Before"], "{name}: history");
    if client != agent {
        assert!(
            saw.cancelled,
            "{name}: the client cannot tell that the turn was cancelled\n{}",
            cell.wires[0]
        );
    }
    let answered = cell.notes.iter().any(|(side, note)| {
        *side == Side::Client
            && note.kind.as_str() == "answered"
            && note.method == "session/request_permission"
    });
    assert_eq!(answered, can_be_asked(agent) && !can_be_asked(client), "{name}: answered by the setting");
    let misbehaved: Vec<_> = cell.notes.iter().filter(|(_, note)| note.kind.is_misbehaviour()).collect();
    assert!(misbehaved.is_empty(), "{name}: {misbehaved:?}");
    if client == agent {
        assert!(cell.notes.is_empty(), "{name}: the identity has nothing to note");
        assert_eq!(cell.wires[0], cell.wires[1], "{name}: the identity changed bytes");
    }
    let mut notes = String::new();
    for (side, note) in &cell.notes {
        writeln!(notes, "{side}: {note}").unwrap();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrix").join(name);
    acp_testkit::golden::check_file(root.join("client.wire"), &cell.wires[0]);
    acp_testkit::golden::check_file(root.join("agent.wire"), &cell.wires[1]);
    acp_testkit::golden::check_file(root.join("notes.txt"), &notes);
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
