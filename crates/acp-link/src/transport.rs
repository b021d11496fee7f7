//! The transports over which agents listen: one line each in [`TRANSPORTS`].

use std::fmt;

use futures_util::future::BoxFuture;
use tokio::net::TcpListener;

use crate::address::ConnectError;
use crate::listen::Accept;
use crate::{AccessControl, Link, LinkSettings};

/// Every transport with an address. [`Address`](crate::Address), [`ListenAddress`](crate::ListenAddress) and
/// [`Listener`](crate::Listener) know all of them.
const TRANSPORTS: &[&dyn Transport] = &[&crate::tcp::Tcp, &crate::ws::WebSocket];

/// A way to reach an agent that listens on a socket.
pub(crate) trait Transport: Send + Sync {
    /// How addresses begin, before `://`.
    fn scheme(&self) -> &'static str;

    /// What follows host and port in an address, if anything does.
    fn path(&self) -> &'static str;

    /// Whether clients show tokens and origins when they connect, so that an [`AccessControl`] can refuse them. Without a access, the
    /// token is the first line.
    fn checks_access(&self) -> bool;

    /// Connects to what listens at `url`.
    fn connect<'a>(
        &'a self,
        url: &'a str,
        wire: &'a LinkSettings,
        token: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Link, ConnectError>>;

    /// Takes clients from an open socket.
    fn listen(&self, socket: TcpListener, wire: &LinkSettings, access: AccessControl) -> Box<dyn Accept>;
}

/// The transport of this scheme.
pub(crate) fn named(scheme: &str) -> Option<&'static dyn Transport> {
    TRANSPORTS.iter().copied().find(|transport| transport.scheme() == scheme)
}

/// What addresses look like, for error messages.
pub(crate) fn examples() -> String {
    forms("HOST:PORT")
}

/// What addresses look like with this host and port.
pub(crate) fn forms(authority: &str) -> String {
    let all = TRANSPORTS.iter().map(|it| format!("{}://{authority}{}", it.scheme(), it.path()));
    all.collect::<Vec<_>>().join(" or ")
}

impl PartialEq for dyn Transport {
    fn eq(&self, other: &Self) -> bool {
        self.scheme() == other.scheme()
    }
}

impl Eq for dyn Transport {}

impl fmt::Debug for dyn Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme())
    }
}
