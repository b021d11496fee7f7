//! Processes that an agent should not have: only defects start them.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A child in a process group of its own that outlives us by a minute.
pub(crate) fn leave_child() {
    let child = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    report("leave a child behind", child.map(drop));
}

/// A grandchild that writes a line to our standard output, a moment later.
pub(crate) fn grandchild(text: &str) {
    let line = "(sleep 0.1; printf '%s\\n' \"$0\") &";
    let child =
        Command::new("sh").args(["-c", line, text]).stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    report("start a grandchild", child.and_then(|mut child| child.wait().map(drop)));
}

fn report(doing: &str, outcome: std::io::Result<()>) {
    if let Err(error) = outcome {
        eprintln!("acp mock: cannot {doing}: {error}");
    }
}
