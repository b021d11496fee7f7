//! The MCP connections of one agent.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use acp_mcp::{Client, Options, ServerSpec};
use acp_script::agent::{McpKey, McpTool, Token};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

/// What a connection reports.
pub(crate) enum McpEvent {
    Connected { key: McpKey, outcome: Result<(Arc<Client>, Vec<McpTool>), String> },
    Answered { token: Token, answer: Result<Value, String> },
}

/// All MCP connections of one agent.
pub(crate) struct Hub {
    events: UnboundedSender<McpEvent>,
    clients: HashMap<McpKey, Arc<Client>>,
    connecting: HashMap<McpKey, JoinHandle<()>>,
}

impl Hub {
    pub(crate) fn new(events: UnboundedSender<McpEvent>) -> Self {
        Self { events, clients: HashMap::new(), connecting: HashMap::new() }
    }

    pub(crate) fn connect(&mut self, key: McpKey, server: &Value, cwd: &str) {
        let events = self.events.clone();
        let Some(spec) = spec(server, cwd) else {
            let _ = events
                .send(McpEvent::Connected { key, outcome: Err("not a server this agent knows".into()) });
            return;
        };
        let task = tokio::spawn(async move {
            let outcome = connect(spec).await;
            let _ = events.send(McpEvent::Connected { key, outcome });
        });
        self.connecting.insert(key, task);
    }

    /// Keeps a connection that came about; one that is no longer wanted is dropped.
    pub(crate) fn keep(&mut self, key: McpKey, client: Arc<Client>) {
        if self.connecting.remove(&key).is_some() {
            self.clients.insert(key, client);
        }
    }

    pub(crate) fn disconnect(&mut self, key: McpKey) {
        if let Some(task) = self.connecting.remove(&key) {
            task.abort();
        }
        if let Some(client) = self.clients.remove(&key).and_then(Arc::into_inner) {
            tokio::spawn(client.close());
        }
    }

    pub(crate) fn call(&self, key: McpKey, token: Token, tool: String, arguments: Value) {
        let events = self.events.clone();
        let Some(client) = self.clients.get(&key).cloned() else {
            let _ = events.send(McpEvent::Answered { token, answer: Err("the server is gone".into()) });
            return;
        };
        tokio::spawn(async move {
            let answer = match client.call(&tool, arguments).await {
                Ok(result) => {
                    let mut answer = json!({ "content": result.content, "isError": result.is_error });
                    if let Some(structured) = result.structured {
                        answer["structuredContent"] = structured;
                    }
                    Ok(answer)
                }
                Err(error) => Err(error.to_string()),
            };
            let _ = events.send(McpEvent::Answered { token, answer });
        });
    }

    /// Ends everything, politely for a moment.
    pub(crate) async fn close(mut self) {
        for task in self.connecting.values() {
            task.abort();
        }
        let closing: Vec<_> = self
            .clients
            .drain()
            .filter_map(|(_, client)| Arc::into_inner(client))
            .map(|client| tokio::spawn(client.close()))
            .collect();
        let all = async {
            for task in closing {
                let _ = task.await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(3), all).await;
    }
}

async fn connect(spec: ServerSpec) -> Result<(Arc<Client>, Vec<McpTool>), String> {
    let options = Options { client_name: "acp-mock".to_owned(), ..Options::default() };
    let client = Client::connect_with(spec, options).await.map_err(|error| error.to_string())?;
    let tools = client.tools().await.map_err(|error| error.to_string())?;
    let tools = tools
        .into_iter()
        .map(|tool| McpTool { name: tool.name, description: tool.description.unwrap_or_default() })
        .collect();
    Ok((Arc::new(client), tools))
}

/// An entry of `mcpServers`, which the agent has already checked.
fn spec(server: &Value, cwd: &str) -> Option<ServerSpec> {
    let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
    let pairs = |key: &str| -> Vec<(String, String)> {
        let items = server.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items
            .iter()
            .filter_map(|item| Some((item["name"].as_str()?.to_owned(), item["value"].as_str()?.to_owned())))
            .collect()
    };
    if server.get("type").and_then(Value::as_str) == Some("http") {
        return Some(ServerSpec::Http { url: text("url")?, headers: pairs("headers") });
    }
    let args = server.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    Some(ServerSpec::Stdio {
        command: text("command")?,
        args: args.iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
        env: pairs("env"),
        cwd: Some(PathBuf::from(cwd)).filter(|folder| folder.is_dir()),
    })
}
