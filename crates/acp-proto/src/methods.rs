use crate::Side;
use crate::words::words;

words! {
    /// A method of the protocol. Its [`handler`](Method::handler) is the side that answers or takes it.
    pub enum Method ("method"), names in method {
        /// Negotiates the version and the capabilities.
        Initialize = INITIALIZE: "initialize" in [V1 V2],
        /// Logs in with one of the offered ways.
        Authenticate = AUTHENTICATE: "authenticate" in [V1],
        /// Logs out.
        Logout = LOGOUT: "logout" in [V1],
        /// Logs in with one of the offered ways.
        AuthLogin = AUTH_LOGIN: "auth/login" in [V2],
        /// Logs out.
        AuthLogout = AUTH_LOGOUT: "auth/logout" in [V2],
        /// Asks who is logged in.
        AuthStatus = AUTH_STATUS: "auth/status" in [V1 V2],
        /// Tells who is logged in now.
        AuthStatusUpdate = AUTH_STATUS_UPDATE: "auth/status_update" in [V1 V2],
        /// Lists the model providers.
        ProvidersList = PROVIDERS_LIST: "providers/list" in [V1 V2],
        /// Configures a model provider.
        ProvidersSet = PROVIDERS_SET: "providers/set" in [V1 V2],
        /// Turns a model provider off.
        ProvidersDisable = PROVIDERS_DISABLE: "providers/disable" in [V1 V2],
        /// Opens a session.
        SessionNew = SESSION_NEW: "session/new" in [V1 V2],
        /// Opens a stored session and replays its history.
        SessionLoad = SESSION_LOAD: "session/load" in [V1],
        /// Opens a stored session without its history.
        SessionResume = SESSION_RESUME: "session/resume" in [V1 V2],
        /// Opens a copy of a session.
        SessionFork = SESSION_FORK: "session/fork" in [V1 V2],
        /// Lists stored sessions.
        SessionList = SESSION_LIST: "session/list" in [V1 V2],
        /// Removes a stored session.
        SessionDelete = SESSION_DELETE: "session/delete" in [V1 V2],
        /// Frees what a session holds.
        SessionClose = SESSION_CLOSE: "session/close" in [V1 V2],
        /// Hides a session from the list.
        SessionArchive = SESSION_ARCHIVE: "session/archive" in [V1 V2],
        /// Shows an archived session in the list again.
        SessionUnarchive = SESSION_UNARCHIVE: "session/unarchive" in [V1 V2],
        /// Renames a session.
        SessionSetTitle = SESSION_SET_TITLE: "session/set_title" in [V1 V2],
        /// Asks what a session is doing.
        SessionStatus = SESSION_STATUS: "session/status" in [V1 V2],
        /// Switches the mode of a session.
        SessionSetMode = SESSION_SET_MODE: "session/set_mode" in [V1],
        /// Sets a configuration option of a session.
        SessionSetConfigOption = SESSION_SET_CONFIG_OPTION: "session/set_config_option" in [V1 V2],
        /// Begins a turn.
        SessionPrompt = SESSION_PROMPT: "session/prompt" in [V1 V2],
        /// Stops the turn that runs.
        SessionCancel = SESSION_CANCEL: "session/cancel" in [V1 V2],
        /// Reports progress; its [`UpdateKind`](crate::UpdateKind) says what kind of.
        SessionUpdate = SESSION_UPDATE: "session/update" in [V1 V2],
        /// Asks the person for permission.
        SessionRequestPermission = SESSION_REQUEST_PERMISSION: "session/request_permission" in [V1 V2],
        /// Reads a text file through the client.
        FsReadTextFile = FS_READ_TEXT_FILE: "fs/read_text_file" in [V1],
        /// Writes a text file through the client.
        FsWriteTextFile = FS_WRITE_TEXT_FILE: "fs/write_text_file" in [V1],
        /// Starts a command in a terminal of the client.
        TerminalCreate = TERMINAL_CREATE: "terminal/create" in [V1],
        /// Asks for a terminal's output so far.
        TerminalOutput = TERMINAL_OUTPUT: "terminal/output" in [V1],
        /// Waits until a terminal's command has ended.
        TerminalWaitForExit = TERMINAL_WAIT_FOR_EXIT: "terminal/wait_for_exit" in [V1],
        /// Ends a terminal's command.
        TerminalKill = TERMINAL_KILL: "terminal/kill" in [V1],
        /// Ends a terminal's command and frees the terminal.
        TerminalRelease = TERMINAL_RELEASE: "terminal/release" in [V1],
        /// Ends a command of the agent.
        TerminalCancel = TERMINAL_CANCEL: "terminal/cancel" in [V2],
        /// Stops one tool call.
        ToolCallCancel = TOOL_CALL_CANCEL: "tool_call/cancel" in [V2],
        /// Asks the person to fill in a form or to open a page.
        ElicitationCreate = ELICITATION_CREATE: "elicitation/create" in [V1 V2],
        /// Tells that the page of an elicitation is done.
        ElicitationComplete = ELICITATION_COMPLETE: "elicitation/complete" in [V1 V2],
        /// Carries a message of the Model Context Protocol.
        McpMessage = MCP_MESSAGE: "mcp/message" in [V1 V2],
        /// Takes back a request. Either side may send it.
        CancelRequest = CANCEL_REQUEST: "$/cancel_request" in [V1 V2],
    }
}

impl Method {
    /// The side that this method is sent to; `None` when both sides may send it.
    #[must_use]
    pub const fn handler(self) -> Option<Side> {
        match self {
            Self::CancelRequest | Self::McpMessage => None,
            Self::AuthStatusUpdate
            | Self::SessionUpdate
            | Self::SessionRequestPermission
            | Self::FsReadTextFile
            | Self::FsWriteTextFile
            | Self::TerminalCreate
            | Self::TerminalOutput
            | Self::TerminalWaitForExit
            | Self::TerminalKill
            | Self::TerminalRelease
            | Self::ElicitationCreate
            | Self::ElicitationComplete => Some(Side::Client),
            _ => Some(Side::Agent),
        }
    }
}
