//! Takes clients, many at once, until told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_link::{Link, LinkSettings, Listener, VisitorInfo, stdio};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::conversation::ClientInfo;
use crate::endings::{excuse, farewell, stopped};
use crate::proxy::{Outcome, Proxy};

/// Refused clients that are told why, at once; more are turned away without a word.
const REFUSALS: usize = 64;

/// Where clients come from.
#[derive(Debug)]
pub enum ClientSource {
    /// One client, at the other end of our own standard input and output.
    Stdio(LinkSettings),
    /// Any number of clients, over a socket. Its access control decides who opens a WebSocket; what a TCP client must say is up to
    /// [`ProxySettings::token`](crate::ProxySettings::token).
    Socket {
        /// The socket.
        listener: Listener,
        /// At most this many at once.
        max_clients: Option<usize>,
    },
}

impl ClientSource {
    /// Where clients can connect.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Stdio(_) => None,
            Self::Socket { listener, .. } => Some(listener.address()),
        }
    }

    /// Serves clients until `stop` turns true; then every conversation is ended and its agent with it. On standard
    /// streams there is one client, and this ends with it.
    pub fn serve(
        self,
        proxy: Arc<Proxy>,
        stop: watch::Receiver<bool>,
    ) -> BoxFuture<'static, io::Result<Outcome>> {
        Box::pin(async move {
            match self {
                Self::Stdio(wire) => {
                    let link = stdio::own(&wire).map_err(|error| {
                        io::Error::new(error.kind(), format!("cannot use standard input and output: {error}"))
                    })?;
                    let info = ClientInfo { admitted: true, ..ClientInfo::default() };
                    Ok(proxy.serve_known(link, info, stop).await)
                }
                Self::Socket { listener, max_clients } => {
                    serve_all(listener, max_clients, proxy, stop).await;
                    Ok(Outcome::Stopped)
                }
            }
        })
    }
}

async fn serve_all(
    listener: Listener,
    max_clients: Option<usize>,
    proxy: Arc<Proxy>,
    stop: watch::Receiver<bool>,
) {
    let (clients, refusals) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let checks_access = listener.checks_access();
    let serve = |link: Link, visitor: VisitorInfo| -> BoxFuture<'static, ()> {
        let mut stop = stop.clone();
        let Some(place) = Place::take(&clients, max_clients.unwrap_or(usize::MAX)) else {
            let most = max_clients.unwrap_or_default();
            let why = format!(
                "this proxy serves at most {most} connections at once (--max-connections); try again later"
            );
            proxy.refused(&why);
            let place = Place::take(&refusals, REFUSALS);
            return Box::pin(async move {
                if let Some(_place) = place {
                    tokio::select! {
                        () = refuse(link, why, stop.clone()) => {}
                        () = stopped(&mut stop) => {}
                    }
                }
            });
        };
        let info =
            ClientInfo { admitted: checks_access, trace: visitor.traceparent, ..ClientInfo::default() };
        let proxy = proxy.clone();
        Box::pin(async move {
            proxy.serve_known(link, info, stop).await;
            drop(place);
        })
    };
    let failed = |error: &io::Error| proxy.log.warn(&format!("cannot accept a connection: {error}"));
    let mut told = stop.clone();
    listener.serve(stopped(&mut told), serve, failed).await;
}

/// One of a limited number of places; given back when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Place> {
        // Only the accept loop takes places, so that none is taken between the two.
        let is_free = taken.load(Ordering::Acquire) < most;
        is_free.then(|| {
            taken.fetch_add(1, Ordering::AcqRel);
            Place(taken.clone())
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers what the client asks first, and closes.
async fn refuse(mut client: Link, why: String, mut stop: watch::Receiver<bool>) {
    excuse(&mut client, &[], &why).await;
    farewell(client, &mut stop).await;
}
