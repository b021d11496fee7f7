//! Links over TCP, one line per frame, without Nagle's delay.
//!
//! A peer that vanished without a word (its machine lost power, its network went away) is noticed after two minutes. Pages
//! of browsers, which can reach any port of this machine, are turned away: see [`crate::ws`] for those that may come.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::net::sockopt;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

use crate::address::{ConnectError, authority};
use crate::browser::NoBrowser;
use crate::listen::Accept;
use crate::transport::Transport;
use crate::{AccessControl, Link, LinkSettings, VisitorInfo, stream};

/// A connection on which nothing was heard for so long is asked whether it is still there …
const IDLE: Duration = Duration::from_secs(60);
/// … so often …
const ASKED: u32 = 4;
/// … at these intervals.
const BETWEEN: Duration = Duration::from_secs(15);

/// Connects to an agent (or a proxy) that listens.
pub async fn connect(address: impl ToSocketAddrs, wire: &LinkSettings) -> io::Result<Link> {
    let (reader, writer) = opened(TcpStream::connect(address).await?)?.into_split();
    Ok(stream::link(reader, writer, wire))
}

/// Listens for clients. Port 0 takes a free one: see [`TcpClients::local_addr`].
pub async fn listen(address: impl ToSocketAddrs, wire: &LinkSettings) -> io::Result<TcpClients> {
    Ok(TcpClients { socket: TcpListener::bind(address).await?, wire: wire.clone() })
}

/// A socket that takes clients over TCP.
#[derive(Debug)]
pub struct TcpClients {
    socket: TcpListener,
    wire: LinkSettings,
}

impl TcpClients {
    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The next client. Cancel safe.
    pub fn accept(&self) -> BoxFuture<'_, io::Result<(Link, SocketAddr)>> {
        Box::pin(async move {
            let (socket, peer) = self.socket.accept().await?;
            // Dropping the writing half ends our output and leaves theirs open.
            let (reader, writer) = opened(socket)?.into_split();
            Ok((stream::link(NoBrowser::new(reader), writer, &self.wire), peer))
        })
    }
}

/// `tcp://HOST:PORT`
pub(crate) struct Tcp;

impl Transport for Tcp {
    fn scheme(&self) -> &'static str {
        "tcp"
    }

    fn path(&self) -> &'static str {
        ""
    }

    fn checks_access(&self) -> bool {
        false
    }

    fn connect<'a>(
        &'a self,
        url: &'a str,
        wire: &'a LinkSettings,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Link, ConnectError>> {
        Box::pin(async move {
            let refused = |error| ConnectError::Refused { url: url.to_owned(), error };
            connect(authority(url), wire).await.map_err(refused)
        })
    }

    fn listen(&self, socket: TcpListener, wire: &LinkSettings, _: AccessControl) -> Box<dyn Accept> {
        Box::new(TcpClients { socket, wire: wire.clone() })
    }
}

impl Accept for TcpClients {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Link, VisitorInfo)>> {
        Box::pin(async move {
            let (link, _) = TcpClients::accept(self).await?;
            Ok((link, VisitorInfo::default()))
        })
    }
}

/// What every connection of ours is like.
pub(crate) fn opened(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, BETWEEN)?;
    sockopt::set_tcp_keepcnt(&socket, ASKED)?;
    Ok(socket)
}
