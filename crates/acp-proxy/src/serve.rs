//! Takes clients, many at once, until told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use acp_link::{Door, Link, Wire, stdio, tcp, ws};
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::conversation::ClientInfo;
use crate::endings::{excuse, farewell, stopped};
use crate::proxy::{Outcome, Proxy};
use crate::talk::Level;

/// Refused clients that are told why, at once; more are turned away without a word.
const REFUSALS: usize = 64;

/// Where clients come from.
#[derive(Debug)]
pub enum Listener {
    /// One client, at the other end of our own standard input and output.
    Stdio(Entry),
    /// Lines over TCP.
    Tcp(tcp::Listener, Entry),
    /// Messages over WebSocket.
    WebSocket(ws::Listener, Entry),
}

/// How clients come in.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The limits of their wires.
    pub wire: Wire,
    /// Who may open a WebSocket. What a TCP client must say is up to [`Settings::token`](crate::Settings::token).
    pub door: Door,
    /// At most so many at once.
    pub most: Option<usize>,
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
    /// A socket that was handed to us.
    #[error("cannot listen on the socket: {0}")]
    Socket(io::Error),
    /// Own standard streams.
    #[error("cannot use standard input and output: {0}")]
    Stdio(io::Error),
}

impl Listener {
    /// Listens for TCP connections; port 0 takes a free one.
    pub fn tcp(address: SocketAddr, entry: Entry) -> BoxFuture<'static, Result<Self, ListenError>> {
        Box::pin(async move {
            let listener = tcp::listen(address, &entry.wire).await;
            listener.map(|tcp| Self::Tcp(tcp, entry)).map_err(|error| ListenError::Address { address, error })
        })
    }

    /// Listens for WebSocket connections; port 0 takes a free one.
    pub fn web_socket(address: SocketAddr, entry: Entry) -> BoxFuture<'static, Result<Self, ListenError>> {
        Box::pin(async move {
            let listener = ws::listen_behind(address, &entry.wire, entry.door.clone()).await;
            listener
                .map(|ws| Self::WebSocket(ws, entry))
                .map_err(|error| ListenError::Address { address, error })
        })
    }

    /// Listens for TCP connections on a socket that is open already.
    pub fn tcp_on(socket: std::net::TcpListener, entry: Entry) -> Result<Self, ListenError> {
        let listener = tcp::listen_on(socket, &entry.wire);
        listener.map(|tcp| Self::Tcp(tcp, entry)).map_err(ListenError::Socket)
    }

    /// Listens for WebSocket connections on a socket that is open already.
    pub fn web_socket_on(socket: std::net::TcpListener, entry: Entry) -> Result<Self, ListenError> {
        let listener = ws::listen_on(socket, &entry.wire, entry.door.clone());
        listener.map(|ws| Self::WebSocket(ws, entry)).map_err(ListenError::Socket)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Stdio(_) => None,
            Self::Tcp(listener, _) => listener.local_addr().ok(),
            Self::WebSocket(listener, _) => listener.local_addr().ok(),
        }
    }

    /// Serves clients until `stop` turns true; then every conversation is ended and its agent with it. On standard
    /// streams there is one client, and this ends with it.
    pub fn run(
        self,
        proxy: Arc<Proxy>,
        mut stop: watch::Receiver<bool>,
    ) -> BoxFuture<'static, Result<Outcome, ListenError>> {
        Box::pin(async move {
            let (mut listener, most) = match self {
                Self::Stdio(entry) => {
                    let link = stdio::own(&entry.wire).map_err(ListenError::Stdio)?;
                    let info = ClientInfo { admitted: true, ..ClientInfo::default() };
                    return Ok(proxy.serve_known(link, info, stop).await);
                }
                Self::Tcp(_, Entry { most, .. }) | Self::WebSocket(_, Entry { most, .. }) => (self, most),
            };
            let (mut conversations, mut refusals) = (JoinSet::new(), JoinSet::new());
            loop {
                tokio::select! {
                    () = stopped(&mut stop) => break,
                    Some(_) = conversations.join_next() => {}
                    Some(()) = next_refusal(&mut refusals) => {}
                    accepted = listener.accept() => match accepted {
                        Ok((link, _)) if most.is_some_and(|most| conversations.len() >= most) => {
                            let most = most.unwrap_or_default();
                            let why = format!(
                                "this proxy serves at most {most} connections at once (--max-connections); try again later"
                            );
                            proxy.refused(&why);
                            if refusals.len() < REFUSALS {
                                refusals.spawn(refuse(link, why, stop.clone()));
                            }
                        }
                        Ok((link, info)) => {
                            let (proxy, stop) = (proxy.clone(), stop.clone());
                            conversations.spawn(async move { proxy.serve_known(link, info, stop).await });
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
            refusals.abort_all();
            while conversations.join_next().await.is_some() {}
            Ok(Outcome::Stopped)
        })
    }

    /// The next client, and what is known of it.
    async fn accept(&mut self) -> io::Result<(Link, ClientInfo)> {
        match self {
            Self::Tcp(listener, _) => {
                let (link, _) = listener.accept().await?;
                Ok((link, ClientInfo::default()))
            }
            Self::WebSocket(listener, _) => {
                let (link, _, visitor) = listener.accept_visitor().await?;
                Ok((link, ClientInfo { admitted: true, trace: visitor.traceparent, ..ClientInfo::default() }))
            }
            Self::Stdio(_) => std::future::pending().await,
        }
    }
}

async fn next_refusal(refusals: &mut JoinSet<()>) -> Option<()> {
    refusals.join_next().await.map(|_| ())
}

/// Answers what the client asks first, and closes.
async fn refuse(mut client: Link, why: String, mut stop: watch::Receiver<bool>) {
    excuse(&mut client, &[], &why).await;
    farewell(client, &mut stop).await;
}
