//! Agents at an address.

use acp_link::{Address, Link, LinkSettings, memory};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;

use crate::launch::{AgentLaunch, AgentStarter, AgentStdio, StartedAgent};

/// How many lines may wait on their way to a WebSocket.
const WAITING: usize = 64;

/// Connects to an agent that listens at an address; each launch is a connection.
#[derive(Clone, Debug)]
pub struct AddressStarter {
    address: Address,
    token: Option<String>,
}

impl AddressStarter {
    /// An agent at `tcp://…` or `ws://…`, with the token that it asks for.
    pub fn new(address: Address, token: Option<String>) -> Self {
        Self { address, token }
    }
}

impl AgentStarter for AddressStarter {
    fn start(&self, launch: AgentLaunch) -> BoxFuture<'_, Result<StartedAgent, String>> {
        async move {
            let link = match launch.stdio {
                AgentStdio::BinaryMessages => binary(self.address.as_str()).await?,
                AgentStdio::Pipes | AgentStdio::Tty => {
                    let (wire, token) = (LinkSettings::default(), self.token.as_deref());
                    self.address.connect(&wire, token).await.map_err(|error| error.to_string())?
                }
            };
            Ok(StartedAgent { link, process: None })
        }
        .boxed()
    }
}

/// A WebSocket on which we send binary messages.
async fn binary(url: &str) -> Result<Link, String> {
    let connected = tokio_tungstenite::connect_async(url).await;
    let (socket, _) = connected.map_err(|error| format!("cannot connect to {url}: {error}"))?;
    let (mut sink, mut stream) = socket.split();
    let (ours, theirs) = memory(WAITING);
    let Link { tx, mut rx } = theirs;
    tokio::spawn(async move {
        while let Some(arrival) = rx.recv().await {
            if sink.send(Message::Binary(arrival.line.bytes().clone())).await.is_err() {
                return;
            }
        }
        let _ = sink.close().await;
    });
    tokio::spawn(async move {
        while let Some(Ok(message)) = stream.next().await {
            if matches!(message, Message::Text(_) | Message::Binary(_))
                && tx.send(message.into_data()).await.is_err()
            {
                return;
            }
        }
    });
    Ok(ours)
}
