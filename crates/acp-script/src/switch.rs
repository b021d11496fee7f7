//! Behaviours that no change of a frame can imitate.

use serde::Deserialize;

/// A wrong behaviour of the agent itself. Whatever can be said as a [`crate::faults::Fault`] is not in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// Serves sessions before `initialize`.
    NoHandshake,
    /// Refuses client capabilities that it does not know.
    StrictCapabilities,
    /// Gives every session the same id.
    SameSessionId,
    /// Keeps one remembered word for all sessions.
    SharedMemory,
    /// Empties a session's history when it is loaded.
    EraseOnLoad,
    /// Keeps nothing of a session's history once it was replayed.
    ForgetsAfterLoad,
    /// A resumed session has forgotten what was said.
    ResumeForgets,
    /// Leaves the MCP servers of a closed session running.
    CloseKeepsServers,
    /// Leaves the MCP servers of a session running that is closed in the middle of a turn.
    CloseInTurnKeepsServers,
    /// Leaves the MCP servers of a session running when it is opened again.
    ReloadKeepsServers,
    /// Leaves the MCP servers of a session running that was opened by load or resume.
    ReopenedKeepsServers,
    /// Leaves the MCP servers of a session running after one of its turns was cancelled.
    CancelKeepsServers,
    /// Ends the MCP servers of all sessions when one is closed.
    CloseEndsAllServers,
    /// Closes a session that is deleted in the middle of a turn, and keeps it.
    DeleteInTurnKeeps,
    /// Counts session ids from the beginning in every process.
    CountsSessionsAnew,
    /// Keeps nothing of what happens in a session after it was loaded or resumed.
    KeepsNothingAfterReopening,
    /// Takes every path that begins like a root for a path inside of it.
    ComparesBeginnings,
    /// `session/list` counts as activity of every session it lists.
    ListTouches,
    /// Deleting a session that is not there is an error.
    StrictDelete,
    /// Resolves relative paths against the first additional root.
    RelativeToRoots,
    /// Takes only the additional roots as places where it may read and write.
    RefusesCwd,
    /// Reads and writes anywhere, and asks nobody.
    NoBoundary,
    /// Keeps additional roots that a later load or resume does not list.
    KeepsRoots,
    /// Says that it called an MCP tool, but did not.
    PretendsMcpCalls,
    /// Offers the MCP tools of every session in every session.
    SharesMcpTools,
    /// Cancels the turns of all sessions when one is cancelled.
    CancelsAll,
    /// Begins another command after it was cancelled.
    KeepsWorking,
    /// Writes first and asks for permission afterwards.
    AsksAfterwards,
    /// Believes whatever a form brings back.
    SkipsValidation,
    /// Asks for secrets with a form.
    SecretsInForms,
    /// Does not understand lines that end with a carriage return and a newline.
    IgnoresReturns,
    /// The process goes on when its input has ended.
    SurvivesEnd,
    /// The process goes on when its input has ended in the middle of a turn.
    SurvivesEndInTurn,
}

impl Switch {
    /// Reads the name used in defect files.
    pub fn parse(name: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(name.to_owned())).ok()
    }
}
