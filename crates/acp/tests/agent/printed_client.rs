//! The client that the `probe` form's documentation prints, against the reference agent: it takes one read for one
//! message.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::talk::{ACP, PATIENCE, Place};

#[test]
fn it_completes_its_flow() {
    let place = Place::new();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxy/simple-client.mjs");
    let output = Command::new("node")
        .arg(&client)
        .args([ACP, "agent", "--acp", "--path"])
        .arg(place.work())
        .arg("--state-dir")
        .arg(place.state())
        .stdin(Stdio::null())
        .output()
        .expect("this test needs node");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).expect("what it saw");
    assert!(seen["sessionId"].as_str().is_some_and(|id| !id.is_empty()), "{seen}");
    assert_eq!(seen["content"][0]["text"], seen["streamed"], "{seen}");
    assert_eq!((&seen["cancelled"], &seen["code"]), (&true.into(), &0.into()), "{seen}");
}

/// Many frames: its answer is long.
const LONG: &str = "/help";

fn start(place: &Place) -> Child {
    let mut command = place.agent(&["--acp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("acp")
}

fn ask(child: &mut Child, id: u64, method: &str, params: &Value) {
    let mut input = child.stdin.as_ref().expect("its input is open");
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    writeln!(input, "{request}").expect("the agent reads");
}

/// What one read gives, which must be one message.
fn read(child: &mut Child) -> Value {
    let mut buffer = vec![0; 1 << 16];
    let count = child.stdout.as_mut().expect("its output").read(&mut buffer).expect("the agent speaks");
    let text = String::from_utf8_lossy(&buffer[..count]);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("not one message: {error}: {text}"))
}

/// Reads, each time after this while, until a request is answered.
fn answer(child: &mut Child, id: u64, pause: Duration) -> Value {
    loop {
        std::thread::sleep(pause);
        let message = read(child);
        if message["id"] == id {
            return message;
        }
    }
}

/// A conversation with a session.
fn begin(place: &Place) -> (Child, Value) {
    let mut child = start(place);
    ask(&mut child, 1, "initialize", &json!({ "protocolVersion": "1" }));
    answer(&mut child, 1, Duration::ZERO);
    ask(&mut child, 2, "newSession", &json!({}));
    let session = answer(&mut child, 2, Duration::ZERO)["result"]["sessionId"].clone();
    (child, session)
}

fn ends_well(mut child: Child) {
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn one_that_reads_slowly_gets_one_message_with_each_read() {
    let place = Place::new();
    let (mut child, session) = begin(&place);
    ask(&mut child, 3, "prompt", &json!({ "sessionId": session, "message": LONG }));
    let done = answer(&mut child, 3, Duration::from_millis(20));
    assert!(done.get("result").is_some(), "{done}");
    ends_well(child);
}

#[test]
fn one_that_does_not_read_is_heard_nevertheless() {
    let place = Place::new();
    let (mut child, session) = begin(&place);
    ask(&mut child, 3, "prompt", &json!({ "sessionId": session, "message": LONG }));
    // Two frames of the answer cannot both be written, so the agent waits for a reader now, or soon.
    let written = json!({ "path": "sign.txt", "content": "heard" });
    ask(&mut child, 4, "writeTextFile", &written);
    let sign = place.work().join("sign.txt");
    let deadline = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(&sign).is_ok_and(|text| text == "heard") {
        assert!(Instant::now() < deadline, "it is not heard");
        std::thread::sleep(Duration::from_millis(5));
    }
    answer(&mut child, 3, Duration::ZERO);
    ends_well(child);
}

#[test]
fn one_that_ended_its_output_and_waits_for_our_end_before_it_reads_gets_all() {
    let place = Place::new();
    let (mut child, session) = begin(&place);
    ask(&mut child, 3, "prompt", &json!({ "sessionId": session, "message": LONG }));
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let mut rest = String::new();
    child.stdout.take().expect("its output").read_to_string(&mut rest).expect("the agent spoke");
    assert!(rest.lines().count() > 2, "{rest}");
}

#[test]
fn one_that_leaves_without_reading_is_not_waited_for() {
    let place = Place::new();
    let (mut child, session) = begin(&place);
    ask(&mut child, 3, "prompt", &json!({ "sessionId": session, "message": LONG }));
    read(&mut child);
    drop(child.stdout.take());
    // Its input stays open: that nobody reads is enough.
    assert!(child.wait().expect("it ends").code().is_some());
}
