//! The exit codes of every command, in one place.

/// Everything held.
pub const OK: u8 = 0;
/// What was examined failed: a required test, a broken MUST.
pub const FAILED: u8 = 1;
/// Wrong usage, an unreadable input or a bad test file.
pub const USAGE: u8 = 2;
/// Something could not run: an agent that did not start, a fault of ours or of the machine.
pub const FAULT: u8 = 3;
/// The list of expected failures is stale.
pub const STALE: u8 = 4;

/// A signal ended it, in the shell's way of saying so.
pub fn by(signal: tokio::signal::unix::SignalKind) -> u8 {
    u8::try_from(128 + signal.as_raw_value()).unwrap_or(FAULT)
}
