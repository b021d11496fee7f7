//! Behaviours of a client that no change of a frame can imitate.

use serde::Deserialize;

/// A wrong behaviour of the client itself. Whatever can be said as a [`crate::faults::Fault`] is not in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientSwitch {
    /// Breaks when a capability of the agent is null.
    ChokesOnNullCapability,
    /// Decodes the percent signs of a cursor.
    DecodesCursor,
    /// Begins to list where an earlier launch stopped.
    KeepsCursor,
    /// Ends the connection as soon as it has cancelled a turn.
    KillsOnCancel,
    /// Allows for always where once would do.
    GrantsForever,
    /// Writes only files that are there.
    WriteNeedsFile,
    /// Writes a newline for every carriage return and newline.
    WriteChangesEnds,
    /// Counts lines from 0.
    ZeroBased,
    /// Reads and writes every file.
    NoJail,
    /// Keeps to the session's folders by the text of paths, and follows links out of them.
    LexicalJail,
    /// Takes every path that begins like the session's folder for one in it.
    PrefixJail,
    /// Takes relative paths as paths in the session's folder.
    TakesRelative,
    /// Answers `terminal/create` when the command has ended.
    CreateWaits,
    /// Cuts output in the middle of a character.
    CutsCharacters,
    /// Keeps the beginning of the output instead of its end.
    KeepsTheHead,
    /// Counts the limit of output in characters.
    CountsCharacters,
    /// Answers one of several waits for the same terminal.
    OneWaitOnly,
    /// Asks a command to end and never forces it.
    KillAsksNicely,
    /// Releases the terminal when its command is killed.
    KillReleases,
    /// Lets the command of a released terminal run.
    ReleaseLetsRun,
    /// Kills a released terminal and keeps it.
    IdOutlivesRelease,
    /// Breaks at a category of options that it does not know.
    CategoryCrash,
    /// Breaks at a type of options that it does not know.
    SliderCrash,
    /// Breaks when a page is completed that it does not know.
    CompleteCrash,
    /// Sends what was entered, whatever the form allows.
    UncheckedForm,
    /// Fetches the address of a page before the person agreed.
    Prefetches,
    /// Breaks at a notification that it does not know.
    DiesOnNote,
    /// Starts its agent on a pseudo-terminal.
    AgentOnATty,
    /// Opens the agent's standard error as a pipe, and never reads it.
    NeverReadsStderr,
    /// Sends frames as binary messages of a WebSocket.
    FramesInBinary,
    /// Starts a login without the arguments of the method.
    LoginDropsArgs,
    /// Does not start the agent anew after a login.
    LoginWithoutReconnect,
    /// Breaks at an update of a kind that it does not know.
    DiesOnUnknownUpdate,
    /// Says nothing more after an update of a kind that it does not know.
    LocksAfterUnknownUpdate,
    /// Drops updates that come before the answer that opens their session.
    DropsEarlyUpdates,
    /// Breaks at an update of a session that it did not open.
    DiesOnForeignSession,
    /// Ends its agent, and not what the agent has started.
    KillsDirectChildOnly,
    /// Does not end its agent.
    NeverEndsAgent,
    /// Waits without end for an agent that it told to terminate.
    WaitsForSigtermProofAgent,
    /// Prompts the old session in a new process of the agent.
    ReusesOldSession,
    /// Does not notice that its agent has ended.
    SpinsAfterAgentDeath,
}

impl ClientSwitch {
    /// All of them, in the order in which they are declared.
    pub const ALL: [Self; 41] = [
        Self::ChokesOnNullCapability,
        Self::DecodesCursor,
        Self::KeepsCursor,
        Self::KillsOnCancel,
        Self::GrantsForever,
        Self::WriteNeedsFile,
        Self::WriteChangesEnds,
        Self::ZeroBased,
        Self::NoJail,
        Self::LexicalJail,
        Self::PrefixJail,
        Self::TakesRelative,
        Self::CreateWaits,
        Self::CutsCharacters,
        Self::KeepsTheHead,
        Self::CountsCharacters,
        Self::OneWaitOnly,
        Self::KillAsksNicely,
        Self::KillReleases,
        Self::ReleaseLetsRun,
        Self::IdOutlivesRelease,
        Self::CategoryCrash,
        Self::SliderCrash,
        Self::CompleteCrash,
        Self::UncheckedForm,
        Self::Prefetches,
        Self::DiesOnNote,
        Self::AgentOnATty,
        Self::NeverReadsStderr,
        Self::FramesInBinary,
        Self::LoginDropsArgs,
        Self::LoginWithoutReconnect,
        Self::DiesOnUnknownUpdate,
        Self::LocksAfterUnknownUpdate,
        Self::DropsEarlyUpdates,
        Self::DiesOnForeignSession,
        Self::KillsDirectChildOnly,
        Self::NeverEndsAgent,
        Self::WaitsForSigtermProofAgent,
        Self::ReusesOldSession,
        Self::SpinsAfterAgentDeath,
    ];

    /// Reads the name used in defect files.
    pub fn parse(name: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(name.to_owned())).ok()
    }
}
