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

    /// Whether clients show tokens and origins when they connect, so that an [`AccessControl`] decides who comes in. Without one,
    /// the token is the first line.
    #[must_use]
    pub fn checks_access(&self) -> bool {
        self.transport.checks_access()
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

/// Why a text is not an address to listen on.
#[derive(Debug, thiserror::Error)]
pub enum ListenAddressError {
    /// No transport has this scheme.
    #[error("write {}", ListenAddress::examples())]
    Scheme,
    /// The transport knows no paths.
    #[error("{0}:// addresses have no path")]
    NoPath(&'static str),
    /// The transport serves one path.
    #[error("agents are served under {served}, not under /{given}")]
    Path {
        /// The path there is.
        served: &'static str,
        /// The path that was given.
        given: String,
    },
    /// It is not a host with a port, or the host is not known.
    #[error("{place:?} is not HOST:PORT: {error}")]
    Place {
        /// What was given.
        place: String,
        /// What the system said.
        error: io::Error,
    },
    /// The host has no address.
    #[error("{0:?} is no address")]
    Nowhere(String),
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<ListenAddress, ListenAddressError> {
        let split = text.split_once("://").and_then(|(scheme, rest)| Some((transport::named(scheme)?, rest)));
        let Some((transport, rest)) = split else {
            return Err(ListenAddressError::Scheme);
        };
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !path.is_empty() && path != transport.path().trim_start_matches('/') {
            return Err(match transport.path() {
                "" => ListenAddressError::NoPath(transport.scheme()),
                served => ListenAddressError::Path { served, given: path.to_owned() },
            });
        }
        let found = place.to_socket_addrs();
        let mut found =
            found.map_err(|error| ListenAddressError::Place { place: place.to_owned(), error })?;
        let socket = found.next().ok_or_else(|| ListenAddressError::Nowhere(place.to_owned()))?;
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
    checks_access: bool,
}

impl Listener {
    /// Listens. `access` decides who may connect, where the transport has one. Must be called inside a tokio runtime.
    pub fn bind(
        at: ListenAddress,
        wire: &LinkSettings,
        access: AccessControl,
    ) -> Result<Listener, ListenError> {
        let failed = |error| ListenError { address: at.socket, error };
        Listener::of(bound(at.socket).map_err(failed)?, at, wire, access)
    }

    /// Listens on a socket that is open already.
    pub fn on(
        socket: std::net::TcpListener,
        at: ListenAddress,
        wire: &LinkSettings,
        access: AccessControl,
    ) -> Result<Listener, ListenError> {
        let open = || {
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        };
        Listener::of(open().map_err(|error| ListenError { address: at.socket, error })?, at, wire, access)
    }

    fn of(
        socket: TcpListener,
        at: ListenAddress,
        wire: &LinkSettings,
        access: AccessControl,
    ) -> Result<Listener, ListenError> {
        let address = socket.local_addr().map_err(|error| ListenError { address: at.socket, error })?;
        Ok(Listener {
            accept: at.transport.listen(socket, wire, access),
            address,
            checks_access: at.checks_access(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether clients have passed an [`AccessControl`].
    #[must_use]
    pub fn checks_access(&self) -> bool {
        self.checks_access
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
