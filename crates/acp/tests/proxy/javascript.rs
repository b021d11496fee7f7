//! The client that the `probe` form's documentation prints, which takes one read for one message.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{ACP, Place};

/// One attempt. The next frame is written when the last one was read, so there is nothing that could go wrong by chance.
fn run(place: &Place, server: &[&str]) -> Value {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxy/simple-client.mjs");
    let output = Command::new("node")
        .arg(client)
        .arg(ACP)
        .args(server)
        .env("XDG_STATE_HOME", &place.path)
        .current_dir(&place.path)
        .stdin(Stdio::null())
        .output()
        .expect("this test needs node");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{server:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|broken| panic!("{server:?}: {broken}: {error}"))
}

fn check(seen: &Value) {
    assert_eq!(seen["streaming"], true, "{seen}");
    assert!(seen["sessionId"].as_str().is_some_and(|id| !id.is_empty()), "{seen}");
    assert_eq!(seen["content"][0]["type"], "text", "{seen}");
    assert_eq!(seen["content"][0]["text"], seen["streamed"], "{seen}");
    assert!(seen["chunks"].as_u64().is_some_and(|chunks| chunks == 12), "{seen}");
    assert_eq!((&seen["cancelled"], &seen["code"]), (&true.into(), &0.into()), "{seen}");
}

#[test]
fn it_completes_its_flow_against_the_mock() {
    let place = Place::new();
    check(&run(&place, &["mock", "--dialect", "probe", "--chunks", "12"]));
}

#[test]
fn it_completes_its_flow_through_the_proxy_against_a_v1_agent() {
    let place = Place::new();
    let mock = place.mock("--dialect v1 --chunks 12");
    check(&run(&place, &["proxy", "--quiet", "--command", &mock]));
}
