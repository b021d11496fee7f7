//! However the agent ends, its commands end with it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::talk::{ACP, PATIENCE, Place, Talk};
use acp_testkit::live::heeding_signals;

/// Tells its number, and ends by nothing but a signal.
const WISH: &str = "Run the command 'echo $$ > started; exec sleep 1000'";

/// The number of the command that tells it, as soon as it does.
fn started(place: &Place) -> u32 {
    let began = Instant::now();
    loop {
        let told = std::fs::read_to_string(place.work().join("started")).unwrap_or_default();
        if told.ends_with('\n') {
            return told.trim().parse().expect("a number");
        }
        assert!(began.elapsed() < PATIENCE, "the command does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ends(process: u32) {
    let began = Instant::now();
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while runs() {
        assert!(began.elapsed() < PATIENCE, "the process {process} goes on without its agent");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processes that a process started.
fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok());
    lists.flat_map(|it| it.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect()
}

/// An agent that runs a command, and what came of it: who stands before the command, who ends it when the agent cannot, and
/// the command itself.
fn run_for_ever(place: &Place) -> (Talk, Vec<u32>) {
    let mut talk = Talk::v1(place.agent(&["--policy", "yolo"]), &json!({}));
    let session = talk.session(&place.work(), &json!([]));
    talk.send_prompt(&session, WISH);
    let command = started(place);
    let mut family = children(talk.child.id());
    let is_near = family.iter().any(|guard| children(*guard).contains(&command));
    assert!(is_near && family.len() == 2, "{command} in {family:?}");
    family.push(command);
    (talk, family)
}

#[test]
fn a_kill_ends_what_cleared_its_environment_in_a_session_of_its_own() {
    for wish in [
        "Run the command 'setsid env -i /bin/sh daemon.sh >/dev/null 2>&1 & sleep 1000'",
        "Run the command '(setsid env -i /bin/sh daemon.sh >/dev/null 2>&1 &); sleep 1000'",
    ] {
        let place = Place::new();
        daemon(&place);
        let mut talk = Talk::v1(place.agent(&["--policy", "yolo"]), &json!({}));
        let session = talk.session(&place.work(), &json!([]));
        talk.send_prompt(&session, wish);
        let child = started(&place);
        kill_process(Pid::from_child(&talk.child), Signal::KILL).expect("killed");
        talk.child.wait().expect("its end");
        ends(child);
    }
}

#[test]
fn a_signal_ends_the_commands_too() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let place = Place::new();
        let (mut talk, children) = run_for_ever(&place);
        kill_process(Pid::from_child(&talk.child), signal).expect("told");
        assert_eq!(talk.child.wait().expect("its end").code(), Some(code));
        children.into_iter().for_each(ends);
    }
}

/// Something that tells its number, and ends by nothing but a signal, to be started in a session of its own.
fn daemon(place: &Place) {
    std::fs::write(place.work().join("daemon.sh"), "echo $$ > started; exec sleep 1000").expect("a script");
}

/// Tells the agent to end by a signal; the end of its input comes with the end of the talk.
fn end_by(how: &str, talk: &Talk) {
    if how == "signal" {
        kill_process(Pid::from_child(&talk.child), Signal::TERM).expect("told");
    }
}

#[test]
fn what_a_command_started_in_a_session_of_its_own_ends_with_it() {
    for how in ["cancel", "end of input", "signal"] {
        let place = Place::new();
        daemon(&place);
        let mut talk = Talk::v1(place.agent(&["--policy", "yolo"]), &json!({}));
        let session = talk.session(&place.work(), &json!([]));
        let prompt = talk.send_prompt(&session, "Run the command 'setsid sh daemon.sh & sleep 1000'");
        let child = started(&place);
        match how {
            "cancel" => {
                talk.tell("session/cancel", &json!({ "sessionId": session }));
                assert_eq!(talk.answer(prompt)["result"]["stopReason"], "cancelled");
                ends(child);
            }
            how => end_by(how, &talk),
        }
        talk.end();
        ends(child);
    }
}

#[test]
fn what_a_command_left_behind_that_ended_by_itself_stays() {
    let place = Place::new();
    daemon(&place);
    let mut talk = Talk::v1(place.agent(&["--policy", "yolo"]), &json!({}));
    let session = talk.session(&place.work(), &json!([]));
    let wish =
        "Run the command 'setsid sh daemon.sh > log 2>&1 & until test -s started; do sleep 0.01; done'";
    talk.prompt(&session, wish);
    let child = started(&place);
    talk.end();
    let child = Pid::from_raw(i32::try_from(child).expect("a number")).expect("a process");
    kill_process(child, Signal::KILL).expect("it runs still");
}

#[test]
fn what_a_server_started_in_a_session_of_its_own_ends_with_it() {
    let script = format!("setsid sh daemon.sh > log 2>&1 & exec '{ACP}' mcp-stub");
    let server = json!([{ "name": "stub", "command": "sh", "args": ["-c", script], "env": [] }]);
    for how in ["close", "end of input", "signal"] {
        let place = Place::new();
        daemon(&place);
        let mut talk = Talk::v1(place.agent(&[]), &json!({}));
        let session = talk.session(&place.work(), &server);
        talk.prompt(&session, "Call the MCP tool ping");
        let child = started(&place);
        match how {
            "close" => {
                talk.ask("session/close", &json!({ "sessionId": session }));
                ends(child);
            }
            how => end_by(how, &talk),
        }
        talk.end();
        ends(child);
    }
}

#[test]
fn an_agent_that_is_to_outlive_its_terminal_does() {
    let place = Place::new();
    let mut agent = Command::new("sh");
    agent.args(["-c", "trap '' HUP INT; exec \"$0\" \"$@\"", ACP, "agent", "--no-state", "--port", "0"]);
    let agent = agent.current_dir(place.work()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut agent = agent.spawn().expect("acp");
    let mut told = String::new();
    BufReader::new(agent.stdout.as_mut().expect("its output")).read_line(&mut told).expect("its address");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    for signal in [Signal::HUP, Signal::INT] {
        kill_process(Pid::from_child(&agent), signal).expect("told");
    }
    let mut wire = TcpStream::connect(told["listening"].as_str().expect("an address")).expect("a connection");
    writeln!(
        wire,
        "{}",
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } })
    )
    .expect("sent");
    let answer = BufReader::new(&wire).lines().next().expect("an answer").expect("a line");
    assert!(answer.contains("protocolVersion"), "{answer}");
    kill_process(Pid::from_child(&agent), Signal::TERM).expect("told");
    assert_eq!(agent.wait().expect("its end").code(), Some(143), "the first signal that it heard");
}

#[test]
fn a_kill_ends_the_commands_too() {
    let place = Place::new();
    let (mut talk, children) = run_for_ever(&place);
    talk.child.kill().expect("killed");
    talk.child.wait().expect("gone");
    children.into_iter().for_each(ends);
}

#[test]
fn a_kill_ends_a_server_that_does_not_care_for_the_end_of_its_input() {
    // It tells its number when the handshake has begun.
    let script = "read -r greeting; echo $$ > started; exec sleep 1000";
    let server = json!([{ "name": "mute", "command": "sh", "args": ["-c", script], "env": [] }]);
    for is_mock in [false, true] {
        let place = Place::new();
        let mut mock = heeding_signals(ACP);
        mock.arg("mock");
        let mut talk = Talk::v1(if is_mock { mock } else { place.agent(&[]) }, &json!({}));
        talk.send("session/new", &json!({ "cwd": place.work(), "mcpServers": server }));
        let server = started(&place);
        talk.child.kill().expect("killed");
        talk.child.wait().expect("gone");
        ends(server);
    }
}

#[test]
fn a_kill_ends_servers_that_cleared_their_environment_in_a_session_of_their_own() {
    // They tell their number when the handshake has begun: the server itself, and something that it started.
    let itself = "exec setsid -w env -i /bin/sh -c 'read -r greeting; exec /bin/sh daemon.sh'";
    let other = "read -r greeting; setsid env -i /bin/sh daemon.sh >/dev/null 2>&1 & exec sleep 1000";
    let orphan = "read -r greeting; (setsid env -i /bin/sh daemon.sh >/dev/null 2>&1 &); exec sleep 1000";
    for (script, is_mock) in [itself, other, orphan].into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let place = Place::new();
        daemon(&place);
        let mut mock = heeding_signals(ACP);
        mock.arg("mock");
        let mut talk = Talk::v1(if is_mock { mock } else { place.agent(&[]) }, &json!({}));
        let server = json!([{ "name": "mute", "command": "sh", "args": ["-c", script], "env": [] }]);
        talk.send("session/new", &json!({ "cwd": place.work(), "mcpServers": server }));
        let server = started(&place);
        talk.child.kill().expect("killed");
        talk.child.wait().expect("gone");
        ends(server);
    }
}

#[test]
fn a_signal_ends_the_commands_of_every_connection() {
    let place = Place::new();
    let mut agent = place.agent(&["--policy", "yolo", "--port", "0"]);
    let mut agent = agent.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("acp");
    let mut told = String::new();
    BufReader::new(agent.stdout.as_mut().expect("its output")).read_line(&mut told).expect("its address");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let mut wire = TcpStream::connect(told["listening"].as_str().expect("an address")).expect("a connection");
    let mut answers = BufReader::new(wire.try_clone().expect("the other half")).lines();
    let mut ask = |id: u64, method: &str, params: serde_json::Value| {
        writeln!(wire, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .expect("sent");
    };
    ask(1, "initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
    ask(2, "session/new", json!({ "cwd": place.work(), "mcpServers": [] }));
    let session = loop {
        let answer = answers.next().expect("an answer").expect("a line");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        if answer["id"] == 2 {
            break answer["result"]["sessionId"].clone();
        }
    };
    ask(3, "session/prompt", json!({ "sessionId": session, "prompt": [{ "type": "text", "text": WISH }] }));
    let command = started(&place);
    kill_process(Pid::from_child(&agent), Signal::TERM).expect("told");
    assert_eq!(agent.wait().expect("its end").code(), Some(143));
    ends(command);
}
