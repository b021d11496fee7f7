//! What the tests with real processes share.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;
use std::time::Duration;

use acp_link::Link;
use acp_link::child::SpawnOptions;
use acp_rpc::Line;

/// Long enough for a busy machine; a test that waits this long has failed.
pub const LONG: Duration = Duration::from_secs(30);

pub fn probe() -> PathBuf {
    env!("CARGO_BIN_EXE_acp-link-probe").into()
}

pub fn sh(script: &str) -> SpawnOptions {
    SpawnOptions::new("sh").args(["-c", script])
}

/// The next line, which must be text.
pub async fn next(link: &mut Link) -> String {
    let arrival = tokio::time::timeout(LONG, link.rx.recv()).await.expect("a line in time");
    match arrival.expect("a line, not the end").line {
        Line::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
        other => panic!("not text: {other:?}"),
    }
}
