//! The `acp` binary: arguments, then settings, then one call, then an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    acp_workbench::run(std::env::args_os())
}
