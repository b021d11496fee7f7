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
//!
//! A signal can end a supervisor before it begins, because until it has a process group of its own a Ctrl-C reaches it
//! as one of ours. It is started again then. It catches the terminal's signals before it starts anything, so nothing
//! runs twice.

#[cfg(target_os = "linux")]
mod linux;
pub(crate) mod processes;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

use rustix::process::Signal;

/// The hidden command that makes a program the supervisor.
pub const ARGUMENT: &str = "__supervise";

/// What is passed on to the agent's process group.
pub(crate) const FORWARDED: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Stands before the names of variables that concern the program, not the supervisor.
const PASSED_ON: &[u8] = b"ACP_SUPERVISE_";

/// The name under which a variable of the program comes to the supervisor. One that the loader heeds would put code of the
/// program's into the supervisor.
pub(crate) fn passed_on(name: &OsStr) -> OsString {
    match name.as_bytes().starts_with(b"LD_") || name == "GLIBC_TUNABLES" {
        true => OsString::from_vec([PASSED_ON, name.as_bytes()].concat()),
        false => name.to_owned(),
    }
}

/// The variables that were passed on: their names here, and the program's.
#[cfg(target_os = "linux")]
fn taken_over() -> impl Iterator<Item = (OsString, OsString, OsString)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let own = OsStr::from_bytes(name.as_bytes().strip_prefix(PASSED_ON)?).to_owned();
        Some((name, own, value))
    })
}

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
