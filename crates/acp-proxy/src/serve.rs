//! Takes clients, many at once, until told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use acp_link::{Wire, stdio, tcp, ws};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::proxy::{Outcome, Proxy, stopped};
use crate::talk::Level;

/// Where clients come from.
#[derive(Debug)]
pub enum Listener {
    /// One client, at the other end of our own standard input and output.
    Stdio,
    /// Lines over TCP.
    Tcp(tcp::Listener),
    /// Messages over WebSocket.
    WebSocket(ws::Listener),
}

/// Why no client can be taken.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address.
    #[error("cannot listen on {address}: {error}; is another program using it?")]
    Address {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// Own standard streams.
    #[error("cannot use standard input and output: {0}")]
    Stdio(io::Error),
}

impl Listener {
    /// Listens for TCP connections; port 0 takes a free one.
    pub async fn tcp(address: SocketAddr) -> Result<Self, ListenError> {
        let listener = tcp::listen(address, &Wire::default()).await;
        listener.map(Self::Tcp).map_err(|error| ListenError::Address { address, error })
    }

    /// Listens for WebSocket connections; port 0 takes a free one.
    pub async fn web_socket(address: SocketAddr) -> Result<Self, ListenError> {
        let listener = ws::listen(address, &Wire::default()).await;
        listener.map(Self::WebSocket).map_err(|error| ListenError::Address { address, error })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Stdio => None,
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::WebSocket(listener) => listener.local_addr().ok(),
        }
    }

    /// Serves clients until `stop` turns true; then every conversation is ended and its agent with it. On standard
    /// streams there is one client, and this ends with it.
    pub async fn run(
        self,
        proxy: Arc<Proxy>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Outcome, ListenError> {
        let mut listener = match self {
            Self::Stdio => {
                let link = stdio::own(&Wire::default()).map_err(ListenError::Stdio)?;
                return Ok(proxy.serve(link, stop).await);
            }
            listener => listener,
        };
        let mut conversations = JoinSet::new();
        loop {
            let accept = async {
                match &mut listener {
                    Self::Tcp(listener) => listener.accept().await,
                    Self::WebSocket(listener) => listener.accept().await,
                    Self::Stdio => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stopped(&mut stop) => break,
                Some(_) = conversations.join_next() => {}
                accepted = accept => match accepted {
                    Ok((link, _)) => {
                        let (proxy, stop) = (proxy.clone(), stop.clone());
                        conversations.spawn(async move { proxy.serve(link, stop).await });
                    }
                    Err(error) => {
                        // Out of descriptors, most likely: wait for some to come back.
                        proxy.say(Level::Warn, &format!("cannot accept a connection: {error}"));
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
        drop(listener);
        while conversations.join_next().await.is_some() {}
        Ok(Outcome::Stopped)
    }
}
