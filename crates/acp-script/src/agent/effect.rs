//! What an agent wants done.

use acp_rpc::Frame;
use bytes::Bytes;
use serde_json::Value;

use super::Record;

/// Names one connection to an MCP server.
pub type McpKey = u64;

/// Names one question to the world; its answer carries the same token.
pub type Token = u64;

/// Something for the edge to do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send this frame to the client.
    Send(Frame),
    /// Send these bytes to the client as they are.
    SendRaw(Bytes),
    /// Write this line to standard error.
    Stderr(Bytes),
    /// End the process with this code.
    Exit(i32),
    /// End the connection.
    Hangup,
    /// Start a child process that outlives the agent.
    LeaveChild,
    /// Let a grandchild write this line to standard output.
    Grandchild(String),
    /// Connect to an MCP server (an entry of `mcpServers`), list its tools and call [`super::Agent::mcp_connected`].
    McpConnect {
        /// The new connection's name.
        key: McpKey,
        /// The server as the client gave it.
        server: Value,
        /// The session's working folder.
        cwd: String,
    },
    /// End that connection and its process.
    McpDisconnect {
        /// The connection.
        key: McpKey,
    },
    /// Call a tool and pass its answer to [`super::Agent::mcp_answered`].
    McpCall {
        /// The connection.
        key: McpKey,
        /// Comes back with the answer.
        token: Token,
        /// The tool's name.
        tool: String,
        /// Its arguments, an object.
        arguments: Value,
    },
    /// Keep this session, in place of what is kept under its id.
    StoreSession(Box<Record>),
    /// Forget this session.
    DeleteSession(String),
    /// Look up a session and call [`super::Agent::session_fetched`].
    FetchSession {
        /// Comes back with the answer.
        token: Token,
        /// The session.
        id: String,
    },
    /// Look up all sessions and call [`super::Agent::sessions_listed`].
    ListSessions {
        /// Comes back with the answer.
        token: Token,
    },
}

/// A tool that an MCP server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpTool {
    /// Its name.
    pub name: String,
    /// What it says about itself.
    pub description: String,
}
