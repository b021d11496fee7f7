//! The client that the `probe` form's documentation prints, which takes one read for one message.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{ACP, Place};

/// On a machine that lets the client wait for longer than the rest between two frames, it may still read two at once:
/// then, and only then, it is run again.
fn run(place: &Place, server: &[&str]) -> Value {
    for _ in 0..4 {
        match attempt(place, server) {
            Ok(seen) => return seen,
            Err(error) => assert!(error.contains("SyntaxError"), "{server:?}: {error}"),
        }
    }
    attempt(place, server).unwrap_or_else(|error| panic!("{server:?}: {error}"))
}

fn attempt(place: &Place, server: &[&str]) -> Result<Value, String> {
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
    if !output.status.success() {
        return Err(error);
    }
    serde_json::from_slice(&output.stdout).map_err(|broken| format!("{broken}: {error}"))
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
    check(&run(&place, &["mock", "--dialect", "probe", "--chunks", "12", "--streaming-delay", "5ms"]));
}

#[test]
fn it_completes_its_flow_through_the_proxy_against_a_v1_agent() {
    let place = Place::new();
    let mock = place.mock("--dialect v1 --chunks 12 --streaming-delay 5ms");
    check(&run(&place, &["proxy", "--quiet", "--pace", "50ms", "--command", &mock]));
}
