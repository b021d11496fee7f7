//! What a process can see of itself.

use rustix::fs::{FileType, fstat, major, minor};
use rustix::process::getppid;
use rustix::termios::isatty;
use serde_json::{Map, Value, json};
use std::os::fd::AsFd;

/// The record of a launch, as far as the launched program knows it.
pub(super) fn record(added: &[String]) -> Value {
    let argv: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let env: Map<String, Value> = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), json!(value.to_string_lossy())))
        .collect();
    let cwd = std::env::current_dir().map(|folder| folder.to_string_lossy().into_owned()).ok();
    json!({
        "argv": argv,
        "added": added,
        "cwd": cwd,
        "env": env,
        "stdin": kind(std::io::stdin()),
        "stdout": kind(std::io::stdout()),
        "stderr": kind(std::io::stderr()),
        "pid": std::process::id(),
        "parent": getppid().map(|pid| pid.as_raw_nonzero().get()),
        "eof": false,
        "signals": [],
        "gone": false,
    })
}

/// What a descriptor is.
fn kind(stream: impl AsFd) -> &'static str {
    if isatty(&stream) {
        return "tty";
    }
    let Ok(stat) = fstat(&stream) else { return "closed" };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice if (major(stat.st_rdev), minor(stat.st_rdev)) == (1, 3) => "null",
        _ => "file",
    }
}
