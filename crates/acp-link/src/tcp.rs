//! Links over TCP, one line per frame, without Nagle's delay.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

use crate::{Link, Wire, stream};

/// Connects to an agent (or a proxy) that listens.
pub async fn connect(address: impl ToSocketAddrs, wire: &Wire) -> io::Result<Link> {
    over(TcpStream::connect(address).await?, wire)
}

/// Listens for clients. Port 0 takes a free one: see [`Listener::local_addr`].
pub async fn listen(address: impl ToSocketAddrs, wire: &Wire) -> io::Result<Listener> {
    Ok(Listener { socket: TcpListener::bind(address).await?, wire: wire.clone() })
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    wire: Wire,
}

impl Listener {
    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The next client. Cancel safe.
    pub async fn accept(&self) -> io::Result<(Link, SocketAddr)> {
        let (socket, peer) = self.socket.accept().await?;
        Ok((over(socket, &self.wire)?, peer))
    }
}

fn over(socket: TcpStream, wire: &Wire) -> io::Result<Link> {
    socket.set_nodelay(true)?;
    // Dropping the writing half ends our output and leaves theirs open.
    let (reader, writer) = socket.into_split();
    Ok(stream::link(reader, writer, wire))
}
