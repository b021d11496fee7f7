//! The supervisor as a program of its own, for programs that cannot re-execute themselves.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The first argument is the word that the link passes to any supervisor.
    acp_link::supervisor::main(std::env::args_os().skip(2))
}
