//! Listening for clients: one address, one listener and one accept loop for all transports.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use crate::transport::{self, Transport};
use crate::{AccessControl, Link, LinkSettings, VisitorInfo};

/// How long to wait after a connection that could not be accepted: out of descriptors, most likely, until some come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Where to listen: a transport, and an address of this machine. Port 0 takes a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    transport: &'static dyn Transport,
    /// The address of the socket.
    pub socket: SocketAddr,
}

/// Why no client can be taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}; is another program using it?")]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// What the system said.
    pub error: io::Error,
}

impl ListenAddress {
    /// Lines over TCP.
    #[must_use]
    pub fn tcp(socket: SocketAddr) -> ListenAddress {
        ListenAddress { transport: &crate::tcp::Tcp, socket }
    }

    /// Messages over WebSocket.
    #[must_use]
    pub fn web_socket(socket: SocketAddr) -> ListenAddress {
        ListenAddress { transport: &crate::ws::WebSocket, socket }
    }

    /// Whether clients show tokens and origins when they connect, so that a [`AccessControl`] decides who comes in. Without one,
    /// the token is the first line.
    #[must_use]
    pub fn has_door(&self) -> bool {
        self.transport.has_door()
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.socket.ip().is_loopback()
    }

    /// What such addresses look like.
    #[must_use]
    pub fn examples() -> String {
        transport::forms("127.0.0.1:PORT")
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        let split = text.split_once("://").and_then(|(scheme, rest)| Some((transport::named(scheme)?, rest)));
        let Some((transport, rest)) = split else {
            return Err(format!("write {}", ListenAddress::examples()));
        };
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !path.is_empty() && path != transport.path().trim_start_matches('/') {
            let served = match transport.path() {
                "" => format!("{}:// addresses have no path", transport.scheme()),
                served => format!("agents are served under {served}, not under /{path}"),
            };
            return Err(served);
        }
        let found = place.to_socket_addrs();
        let mut found = found.map_err(|error| format!("{place:?} is not HOST:PORT: {error}"))?;
        let socket = found.next().ok_or_else(|| format!("{place:?} is no address"))?;
        Ok(ListenAddress { transport, socket })
    }
}

/// A transport's listening socket.
pub(crate) trait Accept: Send {
    /// The next client, and what is known of it. Cancel safe.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Link, VisitorInfo)>>;
}

/// Takes clients.
pub struct Listener {
    accept: Box<dyn Accept>,
    address: SocketAddr,
    has_door: bool,
}

impl Listener {
    /// Listens. `door` decides who comes in, where the transport has one. Must be called inside a tokio runtime.
    pub fn bind(
        at: ListenAddress,
        wire: &LinkSettings,
        door: AccessControl,
    ) -> Result<Listener, ListenError> {
        let failed = |error| ListenError { address: at.socket, error };
        Listener::of(bound(at.socket).map_err(failed)?, at, wire, door)
    }

    /// Listens on a socket that is open already.
    pub fn on(
        socket: std::net::TcpListener,
        at: ListenAddress,
        wire: &LinkSettings,
        door: AccessControl,
    ) -> Result<Listener, ListenError> {
        let open = || {
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        };
        Listener::of(open().map_err(|error| ListenError { address: at.socket, error })?, at, wire, door)
    }

    fn of(
        socket: TcpListener,
        at: ListenAddress,
        wire: &LinkSettings,
        door: AccessControl,
    ) -> Result<Listener, ListenError> {
        let address = socket.local_addr().map_err(|error| ListenError { address: at.socket, error })?;
        Ok(Listener { accept: at.transport.listen(socket, wire, door), address, has_door: at.has_door() })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether clients have passed a [`AccessControl`].
    #[must_use]
    pub fn has_door(&self) -> bool {
        self.has_door
    }

    /// The next client, and what is known of it. Cancel safe.
    pub fn accept(&mut self) -> BoxFuture<'_, io::Result<(Link, VisitorInfo)>> {
        self.accept.accept()
    }

    /// Serves each client in a task of its own, made by `serve`, until `stop` is ready; then waits for these tasks. What
    /// cannot be accepted goes to `failed`.
    pub async fn serve<S>(
        mut self,
        stop: impl Future<Output = ()>,
        mut serve: impl FnMut(Link, VisitorInfo) -> S,
        mut failed: impl FnMut(&io::Error),
    ) where
        S: Future<Output = ()> + Send + 'static,
    {
        let mut serving = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_) = serving.join_next() => {}
                accepted = self.accept.accept() => match accepted {
                    Ok((link, visitor)) => {
                        serving.spawn(serve(link, visitor));
                    }
                    Err(error) => {
                        failed(&error);
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(self);
        while serving.join_next().await.is_some() {}
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}
