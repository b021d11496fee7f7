//! The client of a build without the feature `rmcp`: it never connects, and says why.

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::{CallResult, McpError, Options, ServerSpec, Tool};

/// A connection to one server, of which there is none in this build.
pub enum Client {}

impl Client {
    /// Fails: there is no MCP in this build.
    pub fn connect_with(spec: ServerSpec, _options: Options) -> BoxFuture<'static, Result<Self, McpError>> {
        let server = spec.to_string();
        Box::pin(async move { Err(McpError::Absent { server }) })
    }

    /// Every tool of the server.
    pub fn tools(&self) -> BoxFuture<'_, Result<Vec<Tool>, McpError>> {
        match *self {}
    }

    /// Calls a tool.
    pub fn call<'a>(&'a self, _tool: &'a str, _args: Value) -> BoxFuture<'a, Result<CallResult, McpError>> {
        match *self {}
    }

    /// Whether the server is gone.
    pub fn is_gone(&self) -> BoxFuture<'_, bool> {
        match *self {}
    }

    /// Ends the connection.
    pub fn close(self) -> BoxFuture<'static, ()> {
        match self {}
    }
}
