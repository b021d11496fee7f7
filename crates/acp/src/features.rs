//! What this build leaves out: the Cargo features `agent`, `code`, `mcp` and `nats`, all of them on by default.

/// Commands that need a feature, the feature, and whether this build has it.
const COMMANDS: [(&str, &str, bool); 4] = [
    ("agent", "agent", cfg!(feature = "agent")),
    ("code", "code", cfg!(feature = "code")),
    ("mcp-stub", "mcp", cfg!(feature = "mcp")),
    ("tasks", "nats", cfg!(feature = "nats")),
];

/// The feature that a command needs, if this build lacks it.
pub(crate) fn of_absent_command(name: &str) -> Option<&'static str> {
    COMMANDS.into_iter().find(|(command, _, built)| *command == name && !built).map(|(_, feature, _)| feature)
}

/// Says that something is not in this build.
pub(crate) fn absent(what: &str, feature: &str) -> String {
    format!(
        "{what} is not in this build: build acp-workbench with the feature {feature:?} (it is on by default)"
    )
}

#[cfg(feature = "agent")]
pub(crate) use acp_agent::panic_is_expected;

/// Whether a panic of this thread is caught and reported where it is expected.
#[cfg(not(feature = "agent"))]
pub(crate) fn panic_is_expected() -> bool {
    false
}
