//! The client of a build without the feature `rmcp`: it never connects, and says why.

use futures_util::future::{BoxFuture, ready};
use serde_json::Value;

use crate::{CallResult, McpError, McpOptions, ServerSpec, ServerTool};

/// A connection to one server, of which there is none in this build.
pub struct McpClient {
    server: String,
}

impl McpClient {
    /// Fails: there is no MCP in this build.
    pub fn connect_with(
        spec: ServerSpec,
        _options: McpOptions,
    ) -> BoxFuture<'static, Result<Self, McpError>> {
        Box::pin(ready(Err(McpError::Absent { server: spec.to_string() })))
    }

    /// Fails, as does every request.
    pub fn tools(&self) -> BoxFuture<'_, Result<Vec<ServerTool>, McpError>> {
        Box::pin(ready(Err(self.absent())))
    }

    /// Fails, as does every request.
    pub fn call<'a>(&'a self, _tool: &'a str, _args: Value) -> BoxFuture<'a, Result<CallResult, McpError>> {
        Box::pin(ready(Err(self.absent())))
    }

    /// Whether the server is gone: it never was there.
    pub fn is_gone(&self) -> BoxFuture<'_, bool> {
        Box::pin(ready(true))
    }

    /// Ends the connection.
    pub fn close(self) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }

    fn absent(&self) -> McpError {
        McpError::Absent { server: self.server.clone() }
    }
}
