//! The stub MCP server over HTTP, and what either stub wrote down.

use std::path::Path;
use std::time::Duration;

use acp_comply::{McpCall, Program};
use serde_json::Value;

use crate::cell::Cell;
use crate::drive::Conditions;

/// The stub MCP server over HTTP, for the tests that name its address `${mcpHttp}`. It ends with the test.
pub(crate) struct HttpStub {
    pub url: String,
    _link: acp_link::Link,
    _child: acp_link::child::Child,
}

/// Why there is no stub MCP server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StubError {
    /// It does not start.
    #[error(transparent)]
    Start(#[from] acp_link::child::SpawnError),
    /// It said nothing.
    #[error("the stub MCP server did not say where it listens")]
    Silent,
    /// It said something else.
    #[error("the stub MCP server has no address")]
    NoAddress,
}

impl HttpStub {
    pub async fn start(
        program: &Program,
        cell: &Cell,
        conditions: &Conditions,
    ) -> Result<Option<HttpStub>, StubError> {
        let Some(stub) = &conditions.mcp_stub else { return Ok(None) };
        if !mentions(program, &["${mcpHttp}"]) {
            return Ok(None);
        }
        let log = cell.mcp_log.to_string_lossy().into_owned();
        let options = acp_link::child::SpawnOptions {
            supervisor: conditions.supervisor.clone(),
            ..acp_link::child::SpawnOptions::new(stub).args(["mcp-stub", "--http", "--log", &log])
        };
        let (mut link, child) = acp_link::child::spawn(&options)?;
        let first = tokio::time::timeout(Duration::from_secs(10), link.rx.recv()).await;
        let line = first.ok().flatten().ok_or(StubError::Silent)?;
        let said: Value = serde_json::from_slice(line.line.bytes()).unwrap_or(Value::Null);
        let url = said.get("url").and_then(Value::as_str).ok_or(StubError::NoAddress)?;
        Ok(Some(HttpStub { url: url.to_owned(), _link: link, _child: child }))
    }
}

/// Why a test cannot run without the stub MCP server, if there is none and the test hands it to the agent.
pub(crate) fn lacks(conditions: &Conditions, program: &Program) -> Option<String> {
    let needs_one = || mentions(program, &["${mcpStub}", "${mcpHttp}"]);
    (conditions.mcp_stub.is_none() && needs_one()).then(|| {
        "the test needs the stub MCP server, which is not in this build (feature \"mcp\")".to_owned()
    })
}

fn mentions(program: &Program, variables: &[&str]) -> bool {
    let steps = format!("{:?}", program.steps);
    variables.iter().any(|variable| steps.contains(variable))
}

/// Everything that the stub saw so far.
pub(crate) fn read_log(path: &Path) -> Vec<McpCall> {
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| mcp_call(&line))
        .collect()
}

/// One line of the stub's log: the event is the method, a tool call has its tool, and what else the line says
/// can be matched as arguments.
fn mcp_call(line: &Value) -> Option<McpCall> {
    let method = line.get("event")?.as_str()?.to_owned();
    let tool = line.get("tool").and_then(Value::as_str).map(str::to_owned);
    let arguments = line.get("arguments").cloned();
    Some(McpCall { method, tool, arguments, line: line.clone() })
}
