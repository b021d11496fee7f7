use crate::words::words;

words! {
    /// The kind of a tool call.
    pub enum ToolKind ("tool kind"), names in tool_kind {
        /// Reads files or data.
        Read = READ: "read" in [V1 V2],
        /// Changes files.
        Edit = EDIT: "edit" in [V1 V2],
        /// Removes files.
        Delete = DELETE: "delete" in [V1 V2],
        /// Moves or renames files.
        Move = MOVE: "move" in [V1 V2],
        /// Looks for something.
        Search = SEARCH: "search" in [V1 V2],
        /// Runs a command.
        Execute = EXECUTE: "execute" in [V1 V2],
        /// Reasons, touching nothing.
        Think = THINK: "think" in [V1 V2],
        /// Fetches from outside.
        Fetch = FETCH: "fetch" in [V1 V2],
        /// Changes the session's mode.
        SwitchMode = SWITCH_MODE: "switch_mode" in [V1 V2],
        /// Anything else.
        Other = OTHER: "other" in [V1 V2],
    }
}

words! {
    /// How far a tool call is.
    pub enum ToolCallStatus ("tool call status"), names in tool_status {
        /// It has not begun.
        Pending = PENDING: "pending" in [V1 V2],
        /// It runs.
        InProgress = IN_PROGRESS: "in_progress" in [V1 V2],
        /// It waits.
        Paused = PAUSED: "paused" in [V2],
        /// It is done.
        Completed = COMPLETED: "completed" in [V1 V2],
        /// It is done, and did not succeed.
        Failed = FAILED: "failed" in [V1 V2],
        /// It was stopped.
        Cancelled = CANCELLED: "cancelled" in [V2],
    }
}

impl ToolKind {
    /// Reads a name of the wire; an unknown kind is [`ToolKind::Other`].
    #[must_use]
    pub fn from_name_or_other(name: &str) -> Self {
        Self::from_name(name).unwrap_or(Self::Other)
    }
}

impl ToolCallStatus {
    /// Whether nothing more is to come.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}
