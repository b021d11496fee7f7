// Shared by the binaries `acpcomply`, `acp-harness` and `mock-acp-server`.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Replaces this process by the `acp` beside it, or else the one on `PATH`, which reads its name to know which command
/// is meant. Returns only when there is no such program.
pub fn acp_as(name: &str) -> ExitCode {
    let beside =
        std::env::current_exe().ok().map(|own| own.with_file_name("acp")).filter(|acp| acp.is_file());
    let acp = beside.unwrap_or_else(|| PathBuf::from("acp"));
    let error = Command::new(&acp).arg0(name).args(std::env::args_os().skip(1)).exec();
    eprintln!("{name}: cannot start {}: {error}; install acp beside {name} or on PATH", acp.display());
    ExitCode::from(3)
}
