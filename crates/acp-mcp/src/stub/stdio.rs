//! The stub on its own standard streams.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use rmcp::service::DynService;
use rmcp::transport::io::stdio_pipes;
use rmcp::{RoleServer, ServiceExt as _, serve_server};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::log::StubEvent;
use super::server::{LogFile, Stub, StubSettings};

/// How long answers that are under way may still take once the input has ended.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(250);

/// Serves until the input ends or SIGTERM comes, and says in the log which it was.
pub fn serve_stdio(settings: &StubSettings, log: LogFile) -> LocalBoxFuture<'_, std::io::Result<()>> {
    Box::pin(async move {
        log.started(settings, "stdio");
        let mut terminated = signal(SignalKind::terminate())?;
        let ended = CancellationToken::new();
        let overdue = async {
            ended.cancelled().await;
            tokio::time::sleep(LAST_WORDS).await;
        };
        let reason = tokio::select! {
            reason = converse(Stub::new(settings, log.clone()).into_dyn(), ended.clone()) => reason,
            () = overdue => "end of input".to_owned(),
            _ = terminated.recv() => "SIGTERM".to_owned(),
        };
        log.write(StubEvent::Exit { reason });
        Ok(())
    })
}

/// Serves on standard input and output until the input ends; returns why it ended. Each kind of server would have
/// `rmcp` compiled once more, so they come as trait objects.
pub(crate) async fn converse(server: Box<dyn DynService<RoleServer>>, ended: CancellationToken) -> String {
    let (input, output) = stdio_pipes();
    match serve_server(server, (Watched { input, ended }, output)).await {
        Ok(service) => match service.waiting().await {
            Ok(_) => "end of input".to_owned(),
            Err(error) => format!("the server failed: {error}"),
        },
        Err(error) => format!("no handshake: {error}"),
    }
}

/// Tells when the input ends: `rmcp` waits some seconds for running tools then, which looks like a server
/// that survives its client.
struct Watched<R> {
    input: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.input).poll_read(context, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.ended.cancel();
        }
        Poll::Ready(read)
    }
}
