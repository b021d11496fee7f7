//! Links over WebSocket, one text message per frame.
//!
//! A binary message arrives as `Line::NotUtf8`, whatever is in it: ACP has none, and the judge shall see that. A
//! message over the limit arrives as `Line::Oversized` and ends what is received, because a WebSocket cannot skip it. What
//! is sent then still arrives, before a close that says why.
//! A WebSocket cannot be half closed: after [`Sender::close`](crate::Sender::close) the other side answers with what
//! it had already sent and its own close. Pings are answered while somebody receives.

mod unread;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use acp_rpc::Line;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, Stream, StreamExt};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config, client_async_with_config};

use crate::access::{self, AccessControl, VisitorInfo};
use crate::address::ConnectError;
use crate::listen::Accept;
use crate::outbox::{Batch, CLOSED_BY_US, Framing, Outbox};
use crate::receiver::Source;
use crate::transport::Transport;
use crate::{Link, LinkEnd, LinkSettings, Receiver, Sender};

/// The path that agents are served under.
pub const PATH: &str = "/acp";
/// How long the opening handshake, and the answer to our close, may take.
const PATIENCE: Duration = Duration::from_secs(10);

type Socket = WebSocketStream<unread::Socket>;

/// Connects to `ws://HOST:PORT/acp`; a missing path is `/acp`, a missing port 80.
pub async fn connect(url: &str, wire: &LinkSettings) -> Result<Link, ConnectError> {
    connect_as(url, wire, None).await
}

/// Like [`connect`], showing a token.
pub fn connect_as<'a>(
    url: &'a str,
    wire: &'a LinkSettings,
    token: Option<&'a str>,
) -> BoxFuture<'a, Result<Link, ConnectError>> {
    Box::pin(async move {
        let bad = |why: String| ConnectError::Address { url: url.to_owned(), why };
        let mut request = url.into_client_request().map_err(|error| bad(error.to_string()))?;
        let uri = request.uri().clone();
        match uri.scheme_str() {
            Some("ws") => {}
            Some("wss") => return Err(bad("TLS is not supported".to_owned())),
            _ => return Err(bad("not a WebSocket address".to_owned())),
        }
        let host = uri.host().ok_or_else(|| bad("it names no host".to_owned()))?;
        if matches!(uri.path(), "" | "/") && uri.query().is_none() {
            let authority = uri.authority().map_or(host, |it| it.as_str());
            let with_path = format!("ws://{authority}{PATH}");
            *request.uri_mut() = with_path.parse().map_err(|error| bad(format!("{error}")))?;
        }
        if let Some(token) = token {
            let value = format!("Bearer {token}")
                .parse()
                .map_err(|_| bad("the token has odd characters".to_owned()))?;
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let address = (host.trim_start_matches('[').trim_end_matches(']'), uri.port_u16().unwrap_or(80));
        let tcp = |error| ConnectError::Refused { url: url.to_owned(), error };
        let socket = TcpStream::connect(address).await.map_err(tcp)?;
        let socket = crate::tcp::opened(socket).map_err(tcp)?;
        let socket = unread::Socket::new(socket);
        let handshake = client_async_with_config(request, socket, Some(config(wire)));
        let why = match timeout(PATIENCE, handshake).await {
            Ok(Ok((socket, _response))) => return Ok(link(socket, wire)),
            Ok(Err(Error::Http(response))) => {
                let words = response.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                format!("the server answered {}: {}", response.status(), words.trim())
            }
            Ok(Err(Error::Protocol(
                ProtocolError::HttparseError(_) | ProtocolError::HandshakeIncomplete,
            ))) => {
                format!(
                    "what listens there does not speak HTTP; without WebSocket the address is tcp://{}:{}",
                    address.0, address.1
                )
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        Err(ConnectError::Handshake { url: url.to_owned(), why })
    })
}

/// Listens for clients under [`PATH`], and refuses the pages of browsers. Port 0 takes a free one: see
/// [`WebSocketClients::local_addr`].
pub async fn listen(address: impl ToSocketAddrs, wire: &LinkSettings) -> io::Result<WebSocketClients> {
    listen_behind(address, wire, AccessControl::default()).await
}

/// Like [`listen`], for those who may connect.
pub async fn listen_behind(
    address: impl ToSocketAddrs,
    wire: &LinkSettings,
    access: AccessControl,
) -> io::Result<WebSocketClients> {
    Ok(WebSocketClients::new(TcpListener::bind(address).await?, wire, access))
}

/// A socket that takes clients over WebSocket.
#[derive(Debug)]
pub struct WebSocketClients {
    socket: TcpListener,
    wire: LinkSettings,
    /// Connections in their handshake: a slow one does not keep others waiting.
    opening: JoinSet<Option<(Socket, SocketAddr, VisitorInfo)>>,
    refused: u64,
    access: Arc<AccessControl>,
}

impl WebSocketClients {
    fn new(socket: TcpListener, wire: &LinkSettings, access: AccessControl) -> WebSocketClients {
        WebSocketClients {
            access: Arc::new(access),
            socket,
            wire: wire.clone(),
            opening: JoinSet::new(),
            refused: 0,
        }
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// How many connections were refused so far: no WebSocket, another path, or too slow.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The next client. Cancel safe.
    pub async fn accept(&mut self) -> io::Result<(Link, SocketAddr)> {
        self.accept_visitor().await.map(|(link, peer, _)| (link, peer))
    }

    /// The next client, and what is known of it. Cancel safe.
    pub fn accept_visitor(&mut self) -> BoxFuture<'_, io::Result<(Link, SocketAddr, VisitorInfo)>> {
        Box::pin(async move {
            loop {
                tokio::select! {
                    accepted = self.socket.accept() => {
                        let (socket, peer) = accepted?;
                        let (config, access) = (config(&self.wire), self.access.clone());
                        self.opening.spawn(async move {
                            let (socket, visitor) = open(socket, config, &access).await?;
                            Some((socket, peer, visitor))
                        });
                    }
                    Some(opened) = self.opening.join_next() => match opened {
                        Ok(Some((socket, peer, visitor))) => {
                            return Ok((link(socket, &self.wire), peer, visitor));
                        }
                        _ => self.refused += 1,
                    },
                }
            }
        })
    }
}

/// `ws://HOST:PORT/acp`
pub(crate) struct WebSocket;

impl Transport for WebSocket {
    fn scheme(&self) -> &'static str {
        "ws"
    }

    fn path(&self) -> &'static str {
        PATH
    }

    fn checks_access(&self) -> bool {
        true
    }

    fn connect<'a>(
        &'a self,
        url: &'a str,
        wire: &'a LinkSettings,
        token: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Link, ConnectError>> {
        connect_as(url, wire, token)
    }

    fn listen(&self, socket: TcpListener, wire: &LinkSettings, access: AccessControl) -> Box<dyn Accept> {
        Box::new(WebSocketClients::new(socket, wire, access))
    }
}

impl Accept for WebSocketClients {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Link, VisitorInfo)>> {
        Box::pin(async move {
            let (link, _, visitor) = self.accept_visitor().await?;
            Ok((link, visitor))
        })
    }
}

async fn open(
    socket: TcpStream,
    config: WebSocketConfig,
    access: &AccessControl,
) -> Option<(Socket, VisitorInfo)> {
    let socket = crate::tcp::opened(socket).ok()?;
    let mut visitor = VisitorInfo::default();
    #[expect(clippy::result_large_err, reason = "the signature is the handshake's")]
    let admit = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        if request.uri().path() != PATH {
            return Err(access::refusal(StatusCode::NOT_FOUND, format!("agents are served under {PATH}\n")));
        }
        visitor = access.open(request)?;
        Ok(response)
    };
    let socket = unread::Socket::new(socket);
    let handshake = accept_hdr_async_with_config(socket, admit, Some(config));
    let socket = timeout(PATIENCE, handshake).await.ok()?.ok()?;
    Some((socket, visitor))
}

fn config(wire: &LinkSettings) -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(wire.line_limit)).max_frame_size(Some(wire.line_limit))
}

fn link(socket: Socket, wire: &LinkSettings) -> Link {
    let outbox = wire.outbox(Framing::Messages);
    let below = socket.get_ref().clone();
    let (sink, stream) = socket.split();
    let parting = Parting::default();
    tokio::spawn(write_all(sink, outbox.clone(), wire.flush_each, parting.clone()));
    let stream = Some((stream, below));
    let messages = Messages { stream, outbox: outbox.clone(), end: None, closed: None, parting };
    Link { tx: Sender::new(outbox), rx: Receiver::new(Source::Messages(Box::new(messages))) }
}

/// What our close says, if it has a reason.
type Parting = Arc<OnceLock<CloseFrame>>;

async fn write_all(
    mut sink: SplitSink<Socket, Message>,
    outbox: Arc<Outbox>,
    flush_each: bool,
    parting: Parting,
) {
    let mut batch = Batch::default();
    let outcome = loop {
        if poll_fn(|cx| outbox.poll_take(cx, &mut batch)).await.is_none() {
            break close(&mut sink, parting.get().cloned()).await;
        }
        if let Err(error) = write_batch(&mut sink, &mut batch, flush_each).await {
            break Err(error);
        }
    };
    match outcome {
        Ok(()) => outbox.end(CLOSED_BY_US),
        Err(Error::ConnectionClosed | Error::AlreadyClosed) => outbox.end(CLOSED_BY_THEM),
        Err(error) => outbox.end(&format!("writing failed: {error}")),
    }
}

async fn close(sink: &mut SplitSink<Socket, Message>, parting: Option<CloseFrame>) -> Result<(), Error> {
    if parting.is_some() {
        sink.send(Message::Close(parting)).await?;
    }
    sink.close().await
}

const CLOSED_BY_THEM: &str = "the other side closed the connection";

async fn write_batch(
    sink: &mut SplitSink<Socket, Message>,
    batch: &mut Batch,
    flush_each: bool,
) -> Result<(), Error> {
    let lengths = std::mem::take::<VecDeque<usize>>(&mut batch.lengths);
    let mut all = Bytes::from(std::mem::take(&mut batch.buf));
    for length in lengths {
        let bytes = all.split_to(length);
        let message = match Utf8Bytes::try_from(bytes.clone()) {
            Ok(text) => Message::Text(text),
            Err(_) => Message::Binary(bytes),
        };
        sink.feed(message).await?;
        if flush_each {
            sink.flush().await?;
        }
    }
    sink.flush().await
}

/// Messages as lines, and the end of the connection as an end.
struct Messages {
    /// With the socket below it. Gone after the end: the socket is closed when neither half holds it.
    stream: Option<(SplitStream<Socket>, unread::Socket)>,
    outbox: Arc<Outbox>,
    end: Option<LinkEnd>,
    /// What the other side's close said.
    closed: Option<Option<CloseFrame>>,
    parting: Parting,
}

impl Stream for Messages {
    type Item = Result<Line, LinkEnd>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(end) = &self.end {
                return Poll::Ready(Some(Err(end.clone())));
            }
            let Some((stream, _)) = &mut self.stream else { return Poll::Ready(None) };
            let polled = stream.poll_next_unpin(cx);
            if polled.is_pending() && self.closed.is_some() {
                // Our answer is out. A client could wait for the server to close the socket; it need not.
                let end = end_of(self.closed.take());
                self.ended(end);
                continue;
            }
            match ready!(polled) {
                Some(Ok(Message::Text(text))) => return Poll::Ready(Some(Ok(Line::Text(text.into())))),
                Some(Ok(Message::Binary(bytes))) => return Poll::Ready(Some(Ok(Line::NotUtf8(bytes)))),
                // Polling on sends our answer.
                Some(Ok(Message::Close(frame))) => self.closed = Some(frame),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(Error::Capacity(CapacityError::MessageTooLong { size, max_size }))) => {
                    self.give_up(&format!("a message is longer than {max_size} bytes"));
                    return Poll::Ready(Some(Ok(Line::Oversized { len: size as u64, head: Bytes::new() })));
                }
                Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) | None => {
                    let end = end_of(self.closed.take());
                    self.ended(end);
                }
                Some(Err(error)) => self.ended(LinkEnd::Broken(error.to_string().into())),
            }
        }
    }
}

impl Messages {
    fn ended(&mut self, end: LinkEnd) {
        self.outbox.end(CLOSED_BY_THEM);
        self.end = Some(end);
        self.stream = None;
    }

    /// Nothing more can be read. The other side can still be told.
    fn give_up(&mut self, why: &str) {
        let _ = self.parting.set(CloseFrame { code: CloseCode::Size, reason: why.to_owned().into() });
        self.end = Some(LinkEnd::Broken(why.into()));
        if let Some((_, below)) = self.stream.take() {
            tokio::spawn(below.drop_the_rest(self.outbox.clone()));
        }
    }
}

fn end_of(closed: Option<Option<CloseFrame>>) -> LinkEnd {
    match closed {
        Some(None) => LinkEnd::Eof,
        Some(Some(frame))
            if matches!(frame.code, CloseCode::Normal | CloseCode::Away | CloseCode::Status) =>
        {
            LinkEnd::Eof
        }
        Some(Some(frame)) => {
            LinkEnd::Broken(format!("closed with {}: {}", u16::from(frame.code), frame.reason).into())
        }
        None => LinkEnd::Broken("the connection ended without a closing handshake".into()),
    }
}

impl Drop for Messages {
    /// Reads on for a moment, unseen: a socket that is closed with unread bytes in it resets the connection, and the
    /// other side could lose what we sent last.
    fn drop(&mut self) {
        let Some((mut stream, _)) = self.stream.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let outbox = self.outbox.clone();
            runtime.spawn(async move {
                outbox.ended().await;
                let _ = timeout(PATIENCE, async { while let Some(Ok(_)) = stream.next().await {} }).await;
            });
        }
    }
}
