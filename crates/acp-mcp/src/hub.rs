//! Many connections at once, each under a number, with what happens to them as events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use crate::{Client, Options, ServerSpec, Tool};

/// A connection that came about, with its tools.
pub type Connected = (Arc<Client>, Vec<Tool>);

/// What a connection of a [`Hub`] reports.
pub enum HubEvent {
    /// It is there, or will not come; pass it to [`Hub::keep`].
    Connected {
        /// Its number.
        key: u64,
        /// The connection, or why there is none.
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
    events: UnboundedSender<HubEvent>,
    clients: HashMap<u64, Arc<Client>>,
    connecting: HashMap<u64, JoinHandle<()>>,
}

impl Hub {
    /// A hub without connections; `name` is told to the servers.
    pub fn new(name: &str, events: UnboundedSender<HubEvent>) -> Self {
        Self { name: name.to_owned(), events, clients: HashMap::new(), connecting: HashMap::new() }
    }

    /// Begins to connect; without a spec the answer is that there is no such kind of server.
    pub fn connect(&mut self, key: u64, spec: Option<ServerSpec>) {
        let events = self.events.clone();
        let Some(spec) = spec else {
            let outcome = Err("not a server this agent knows".to_owned());
            let _ = events.send(HubEvent::Connected { key, outcome });
            return;
        };
        let options = Options { client_name: self.name.clone(), ..Options::default() };
        let task = tokio::spawn(async move {
            let outcome = connect(spec, options).await;
            let _ = events.send(HubEvent::Connected { key, outcome });
        });
        self.connecting.insert(key, task);
    }

    /// Keeps a connection that came about; one that is no longer wanted is dropped.
    pub fn keep(&mut self, key: u64, outcome: Result<Connected, String>) -> Result<Vec<Tool>, String> {
        let wanted = self.connecting.remove(&key).is_some();
        outcome.map(|(client, tools)| {
            if wanted {
                self.clients.insert(key, client);
            }
            tools
        })
    }

    /// Ends a connection, politely and in the background.
    pub fn disconnect(&mut self, key: u64) {
        if let Some(task) = self.connecting.remove(&key) {
            task.abort();
        }
        if let Some(client) = self.clients.remove(&key).and_then(Arc::into_inner) {
            tokio::spawn(client.close());
        }
    }

    /// Calls a tool; the answer comes as an event.
    pub fn call(&self, key: u64, token: u64, tool: String, arguments: Value) {
        let events = self.events.clone();
        let Some(client) = self.clients.get(&key).cloned() else {
            let _ = events.send(HubEvent::Answered { token, answer: Err("the server is gone".into()) });
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
            let _ = events.send(HubEvent::Answered { token, answer });
        });
    }

    /// Ends everything, politely for a moment.
    pub async fn close(mut self) {
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

async fn connect(spec: ServerSpec, options: Options) -> Result<Connected, String> {
    let client = Client::connect_with(spec, options).await.map_err(|error| error.to_string())?;
    let tools = client.tools().await.map_err(|error| error.to_string())?;
    Ok((Arc::new(client), tools))
}
