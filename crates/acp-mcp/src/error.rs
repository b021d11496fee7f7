//! What can go wrong with a server that is not ours.

use std::time::Duration;

/// Why a server could not be reached or did not answer. Each message names the server.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// This build has no MCP.
    #[error("cannot connect to {server}: this build has no MCP client (feature \"mcp\")")]
    Absent {
        /// The server, as its spec displays.
        server: String,
    },
    /// The program could not be started.
    #[error("cannot start {server}: {source}; is the path right and the file executable?")]
    Start {
        /// The server, as its spec displays.
        server: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The address or a header of an HTTP server is unusable.
    #[error("cannot reach {server}: {reason}")]
    BadAddress {
        /// The server, as its spec displays.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The handshake failed.
    #[error("{server} did not complete the MCP handshake: {reason}{}", tail(.stderr))]
    Handshake {
        /// The server, as its spec displays.
        server: String,
        /// What happened instead.
        reason: String,
        /// The end of the server's standard error, when it is a program.
        stderr: String,
    },
    /// Nothing came in time.
    #[error("{server} did not answer {what} within {} ms{}", .after.as_millis(), tail(.stderr))]
    Timeout {
        /// The server, as its spec displays.
        server: String,
        /// What was asked.
        what: String,
        /// How long we waited.
        after: Duration,
        /// The end of the server's standard error, when it is a program.
        stderr: String,
    },
    /// The connection ended while an answer was owed.
    #[error("{server} went away during {what}: {reason}{}", tail(.stderr))]
    Gone {
        /// The server, as its spec displays.
        server: String,
        /// What was asked.
        what: String,
        /// What the transport said, or how the process ended.
        reason: String,
        /// The end of the server's standard error, when it is a program.
        stderr: String,
    },
    /// The server answered with a JSON-RPC error.
    #[error("{server} refused {what}: {message} (code {code})")]
    Refused {
        /// The server, as its spec displays.
        server: String,
        /// What was asked.
        what: String,
        /// The JSON-RPC error code.
        code: i64,
        /// The server's words.
        message: String,
    },
    /// The arguments of a call are not a JSON object.
    #[error("the arguments of tool {tool:?} must be a JSON object, not {found}")]
    BadArguments {
        /// The tool that was to be called.
        tool: String,
        /// The JSON type that was given.
        found: &'static str,
    },
}

fn tail(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; its standard error ends with: {text}"),
    }
}
