//! The `acp` binary: arguments, then settings, then one call, then an exit code.

use std::process::ExitCode;

/// The static binary's allocator: musl's own takes one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    acp_workbench::run(std::env::args_os())
}
