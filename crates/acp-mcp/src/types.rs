//! What a [`McpClient`](crate::McpClient) is told, and what it gives back.

use std::time::Duration;

use acp_link::process_guard::ProcessGuard;
use serde_json::Value;

/// Time limits and identity of a [`McpClient`](crate::McpClient).
#[derive(Clone, Debug)]
pub struct McpOptions {
    /// For starting the server and the handshake.
    pub connect_timeout: Duration,
    /// For each request after it.
    pub call_timeout: Duration,
    /// How long a program may take to end after its input was closed.
    pub close_grace: Duration,
    /// How many bytes of a program's standard error to keep.
    pub stderr_limit: usize,
    /// `clientInfo.name` of the handshake.
    pub client_name: String,
    /// Who ends a program when we cannot; without it, one that does not care for the end of its input outlives a kill.
    pub process_guard: Option<ProcessGuard>,
}

impl Default for McpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(15),
            call_timeout: Duration::from_secs(120),
            close_grace: Duration::from_secs(2),
            stderr_limit: 16 * 1024,
            client_name: "acp-workbench".to_owned(),
            process_guard: None,
        }
    }
}

/// Who answered the handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// `serverInfo.name`; empty when the server gave none.
    pub name: String,
    /// `serverInfo.version`.
    pub version: String,
    /// The protocol version both sides agreed on.
    pub protocol_version: String,
    /// Free words about how to use the server.
    pub instructions: Option<String>,
}

/// A tool that a server offers.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTool {
    /// Its name on this server, without any prefix.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

/// What a tool gave back. A tool that failed is still a result: see [`CallResult::is_error`].
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The content blocks as the server sent them.
    pub content: Vec<Value>,
    /// `structuredContent`, when there was one.
    pub structured: Option<Value>,
    /// True when the tool says that it failed.
    pub is_error: bool,
}

impl CallResult {
    /// The text blocks, joined by newlines.
    pub fn text(&self) -> String {
        let texts = self
            .content
            .iter()
            .filter(|block| block["type"] == "text")
            .filter_map(|block| block["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }
}
