//! Many connections at once, each under a number, with what happens to them as events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use acp_link::process_guard::ProcessGuard;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{JoinHandle, JoinSet};

use crate::{McpClient, McpError, McpOptions, ServerSpec, ServerTool};

/// A connection that came about, with its tools.
pub type Connected = (Arc<McpClient>, Vec<ServerTool>);

/// What a connection of a [`Hub`] reports.
pub enum HubEvent {
    /// It is there, will not come, or is gone; pass it to [`Hub::keep`].
    Connected {
        /// Its number.
        key: u64,
        /// The connection, or why there is none any more.
        outcome: Result<Connected, String>,
    },
    /// A tool has answered.
    Answered {
        /// As given to [`Hub::call`].
        token: u64,
        /// `content`, `isError` and `structuredContent`, or why there is no answer.
        answer: Result<Value, String>,
    },
}

/// The MCP connections of one agent.
pub struct Hub {
    name: String,
    process_guard: Option<ProcessGuard>,
    events: UnboundedSender<HubEvent>,
    clients: HashMap<u64, Arc<McpClient>>,
    connecting: HashMap<u64, JoinHandle<()>>,
    /// Calls by their token, with their connection.
    calls: HashMap<u64, (u64, JoinHandle<()>)>,
    /// Connections that are being ended; without the hub they are gone at once.
    closing: JoinSet<()>,
}

impl Hub {
    /// A hub without connections; `name` is told to the servers.
    pub fn new(name: &str, events: UnboundedSender<HubEvent>) -> Self {
        Self {
            name: name.to_owned(),
            process_guard: None,
            events,
            clients: HashMap::new(),
            connecting: HashMap::new(),
            calls: HashMap::new(),
            closing: JoinSet::new(),
        }
    }

    /// The same, with programs that do not outlive us, however we end.
    #[must_use]
    pub fn leashed(self, process_guard: Option<ProcessGuard>) -> Self {
        Self { process_guard, ..self }
    }

    /// Begins to connect; without a spec the answer is that there is no such kind of server.
    pub fn connect(&mut self, key: u64, spec: Option<ServerSpec>) {
        let events = self.events.clone();
        let Some(spec) = spec else {
            let outcome = Err("not a server this agent knows".to_owned());
            let _ = events.send(HubEvent::Connected { key, outcome });
            return;
        };
        let (client_name, process_guard) = (self.name.clone(), self.process_guard.clone());
        let options = McpOptions { client_name, process_guard, ..McpOptions::default() };
        let task = tokio::spawn(async move {
            let outcome = connect(spec, options).await;
            let _ = events.send(HubEvent::Connected { key, outcome });
        });
        self.connecting.insert(key, task);
    }

    /// Keeps a connection that came about, and lets go of one that is gone; one that is no longer wanted is dropped.
    pub fn keep(&mut self, key: u64, outcome: Result<Connected, String>) -> Result<Vec<ServerTool>, String> {
        let wanted = self.connecting.remove(&key).is_some();
        if outcome.is_err() {
            self.clients.remove(&key);
        }
        outcome.map(|(client, tools)| {
            if wanted {
                self.clients.insert(key, client);
            }
            tools
        })
    }

    /// Ends a connection, politely and in the background. Its calls end first, without an answer.
    pub fn disconnect(&mut self, key: u64) {
        while self.closing.try_join_next().is_some() {}
        if let Some(task) = self.connecting.remove(&key) {
            task.abort();
        }
        let calls: Vec<_> =
            self.calls.extract_if(|_, (its, _)| *its == key).map(|(_, (_, call))| call).collect();
        let Some(client) = self.clients.remove(&key) else { return };
        self.closing.spawn(async move {
            calls.iter().for_each(JoinHandle::abort);
            for call in calls {
                let _ = call.await;
            }
            // Nobody else has it any more, so that its process ends with it.
            if let Some(client) = Arc::into_inner(client) {
                client.close().await;
            }
        });
    }

    /// The answer to this call is no longer wanted: the server is told, and no event comes.
    pub fn abandon(&mut self, token: u64) {
        if let Some((_, call)) = self.calls.remove(&token) {
            call.abort();
        }
    }

    /// Calls a tool; the answer comes as an event.
    pub fn call(&mut self, key: u64, token: u64, tool: String, arguments: Value) {
        self.calls.retain(|_, (_, call)| !call.is_finished());
        let events = self.events.clone();
        let Some(client) = self.clients.get(&key).cloned() else {
            let _ = events.send(HubEvent::Answered { token, answer: Err("the server is gone".into()) });
            return;
        };
        let call = tokio::spawn(async move {
            let answer = match client.call(&tool, arguments).await {
                Ok(result) => {
                    let mut answer = json!({ "content": result.content, "isError": result.is_error });
                    if let Some(structured) = result.structured {
                        answer["structuredContent"] = structured;
                    }
                    Ok(answer)
                }
                Err(error) => {
                    if matches!(error, McpError::Gone { .. }) && client.is_gone().await {
                        let outcome = Err(error.to_string());
                        let _ = events.send(HubEvent::Connected { key, outcome });
                    }
                    Err(error.to_string())
                }
            };
            let _ = events.send(HubEvent::Answered { token, answer });
        });
        self.calls.insert(token, (key, call));
    }

    /// Ends everything, politely for a moment.
    pub fn close(mut self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let keys: Vec<u64> = self.connecting.keys().chain(self.clients.keys()).copied().collect();
            keys.into_iter().for_each(|key| self.disconnect(key));
            let all = async { while self.closing.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(Duration::from_secs(3), all).await;
        })
    }
}

async fn connect(spec: ServerSpec, options: McpOptions) -> Result<Connected, String> {
    let client = McpClient::connect_with(spec, options).await.map_err(|error| error.to_string())?;
    let tools = client.tools().await.map_err(|error| error.to_string())?;
    Ok((Arc::new(client), tools))
}
