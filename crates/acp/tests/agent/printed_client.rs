//! The client that the `probe` form's documentation prints, against the reference agent.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::talk::{ACP, Place};

/// It takes one read for one message. On a machine that lets it wait for longer than the rest between two frames it
/// may still read two at once: then, and only then, it is run again.
#[test]
fn it_completes_its_flow() {
    let place = Place::new();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxy/simple-client.mjs");
    for attempt in 0.. {
        let output = Command::new("node")
            .arg(&client)
            .args([ACP, "agent", "--acp", "--path"])
            .arg(place.work())
            .arg("--state-dir")
            .arg(place.state())
            .stdin(Stdio::null())
            .output()
            .expect("this test needs node");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() && error.contains("SyntaxError") && attempt < 5 {
            continue;
        }
        assert!(output.status.success(), "{error}");
        let seen: Value = serde_json::from_slice(&output.stdout).expect("what it saw");
        assert!(seen["sessionId"].as_str().is_some_and(|id| !id.is_empty()), "{seen}");
        assert_eq!(seen["content"][0]["text"], seen["streamed"], "{seen}");
        assert_eq!((&seen["cancelled"], &seen["code"]), (&true.into(), &0.into()), "{seen}");
        return;
    }
}
