//! `acp comply` end to end: the real binary, real processes, good and bad agents.

#[path = "comply/agents.rs"]
mod agents;
#[path = "comply/flags.rs"]
mod flags;
#[path = "comply/memory.rs"]
mod memory;
#[path = "comply/reports.rs"]
mod reports;
#[path = "comply/running.rs"]
mod running;
#[path = "comply/starting.rs"]
mod starting;

use std::path::Path;
use std::process::{Command, Output};

/// The binary under test.
pub fn acp() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_acp"));
    command.env("NO_COLOR", "1");
    command
}

/// Runs `acp comply` with these arguments.
pub fn comply(args: &[&str]) -> Output {
    acp().arg("comply").args(args).output().expect("acp starts")
}

/// Standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes an agent as a shell script and returns the command line that starts it.
pub fn script(dir: &Path, name: &str, body: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, body).expect("the script is written");
    format!("sh {}", path.display())
}
