//! Processes that an agent should not have: only defects start them.

use std::os::fd::OwnedFd;
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
///
/// The link has taken standard output away from this process, so it is handed over here.
pub(crate) fn grandchild(text: &str, stdout: Option<&OwnedFd>) {
    let line = "(sleep 0.1; printf '%s\\n' \"$0\") &";
    let mut command = Command::new("sh");
    command.args(["-c", line, text]).stdin(Stdio::null()).stderr(Stdio::null());
    if let Some(Ok(stdout)) = stdout.map(OwnedFd::try_clone) {
        command.stdout(stdout);
    }
    report("start a grandchild", command.spawn().and_then(|mut child| child.wait().map(drop)));
}

fn report(doing: &str, outcome: std::io::Result<()>) {
    if let Err(error) = outcome {
        eprintln!("acp mock: cannot {doing}: {error}");
    }
}
