//! The stub on a loopback port, over streamable HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::log::StubEvent;
use super::server::{LogFile, Stub, StubSettings};

/// A stub that listens. Nothing is answered until [`HttpStub::run`].
pub struct HttpStub {
    listener: TcpListener,
    address: SocketAddr,
    settings: StubSettings,
    log: LogFile,
}

/// Binds a loopback port; 0 takes any free one.
pub fn serve_http(
    settings: &StubSettings,
    log: LogFile,
    port: u16,
) -> BoxFuture<'_, std::io::Result<HttpStub>> {
    Box::pin(async move {
        log.started(settings, "http");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let stub = HttpStub { listener, address, settings: settings.clone(), log };
        stub.log.write(StubEvent::Listening { url: stub.url() });
        Ok(stub)
    })
}

impl HttpStub {
    /// The endpoint's address.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The bound port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Serves until SIGTERM or SIGINT.
    pub fn run(self) -> BoxFuture<'static, std::io::Result<()>> {
        Box::pin(async move {
            let Self { listener, settings, log, .. } = self;
            let stop = CancellationToken::new();
            let maker = {
                let (settings, log) = (settings.clone(), log.clone());
                move || Ok(Stub::new(&settings, log.clone()))
            };
            let config = StreamableHttpServerConfig::default()
                .with_cancellation_token(stop.clone())
                .with_sse_retry(None);
            let service = StreamableHttpService::new(maker, Arc::new(sessions()), config);
            let app = axum::Router::new().fallback_service(service);
            let mut terminated = signal(SignalKind::terminate())?;
            let mut interrupted = signal(SignalKind::interrupt())?;
            let reason = tokio::select! {
                served = axum::serve(listener, app).into_future() => format!("the server failed: {served:?}"),
                _ = terminated.recv() => "SIGTERM".to_owned(),
                _ = interrupted.recv() => "SIGINT".to_owned(),
            };
            stop.cancel();
            log.write(StubEvent::Exit { reason });
            Ok(())
        })
    }
}

/// Sessions whose streams begin with the answer: an event without data before it, for clients that come back, is new in
/// version 2025-11-25 of MCP, and clients of earlier versions take every event for a message.
fn sessions() -> LocalSessionManager {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.sse_retry = None;
    sessions
}
