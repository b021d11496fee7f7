//! `acp prompt` and `acp chat` from the outside, against the mock, against a shell script and, under a
//! pseudo-terminal, with a person who types.

mod attacks;
mod chat;
mod exam;
mod first_run;
mod hostile;
mod processes;
mod prompt;
mod terminal;
mod ts_sdk;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// The program under test.
const ACP: &str = env!("CARGO_BIN_EXE_acp");
/// How long anything may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// `acp` for `env`: heeding every signal, even where the tests themselves run in the background.
const HEEDING: [&str; 2] = ["--default-signal=INT,HUP", ACP];

/// A folder to work in.
fn workspace() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().expect("a folder");
    let path = temp.path().canonicalize().expect("a real path");
    std::fs::write(path.join("greeting.txt"), "hello\n").expect("a file");
    (temp, path)
}

/// Runs `acp prompt` in a folder to its end.
fn prompt(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let output = acp(folder, &["prompt"], args).output().expect("acp runs");
    texts(&output)
}

fn acp(folder: &Path, first: &[&str], rest: &[&str]) -> Command {
    let mut command = Command::new("env");
    command
        .args(HEEDING)
        .args(first)
        .args(rest)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .stdin(std::process::Stdio::null());
    command
}

fn texts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// An agent of a few shell lines: what it says at initialize, and what it does with a prompt.
fn script(capabilities: &str, prompt: &str) -> String {
    let initialize = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":1,"agentCapabilities":{capabilities}}}}}"#
    );
    let session = r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#;
    let body = format!("read a; echo '{initialize}'; read b; echo '{session}'; read c; {prompt}");
    format!("sh -c \"{}\"", body.replace('\\', "\\\\").replace('"', "\\\""))
}
