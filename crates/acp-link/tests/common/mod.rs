//! What the tests with real processes share.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

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

/// Whether the process runs: a zombie does not.
pub fn runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    !matches!(state, Some("Z" | "X"))
}

/// Waits until the process is gone.
pub fn assert_gone(pid: u32, who: &str) {
    let deadline = Instant::now() + LONG;
    while runs(pid) {
        assert!(Instant::now() < deadline, "{who} ({pid}) still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}
