//! The supervisor: a small process between us and an agent, so that nothing the agent starts outlives it or us.
//!
//! It is a re-exec of a program that calls [`main`] for its hidden command [`ARGUMENT`]. It makes itself the reaper
//! of its descendants (so that one which forked twice and called `setsid` is still its child), starts the agent with
//! our pipes as they are (no byte passes through the supervisor), forwards signals, and when the agent ends, or we
//! do, in whatever way, it kills what is left and reports it.
//!
//! ```text
//!             lifeline ends / parent gone        agent ended
//!  Watching ───────────────► Ending ──┐        ┌──────────────► Lingering ──► Sweeping ──► exit
//!     │                               └────────┤   (descendants may end by themselves)
//!     └── "K" on the lifeline ─────────────────┴──────────────────────────────► Sweeping
//! ```

#[cfg(target_os = "linux")]
mod linux;
pub(crate) mod processes;

use std::ffi::OsString;
use std::process::ExitCode;

/// The hidden command that makes a program the supervisor.
pub const ARGUMENT: &str = "__supervise";

/// Runs as the supervisor. `args` is what follows [`ARGUMENT`] on the command line; programs call this first thing,
/// before they start a runtime or a thread.
#[cfg(target_os = "linux")]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    linux::main(args)
}

/// Without Linux' subreaper there is nothing to run: callers use the process group alone.
#[cfg(not(target_os = "linux"))]
pub fn main(_: impl IntoIterator<Item = OsString>) -> ExitCode {
    eprintln!("{ARGUMENT}: only Linux has what a supervisor needs");
    ExitCode::from(2)
}
