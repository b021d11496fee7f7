//! The stub on its own standard streams.

use rmcp::serve_server;
use rmcp::transport::io::stdio_pipes;
use tokio::signal::unix::{SignalKind, signal};

use super::log::Event;
use super::server::{LogFile, Stub, StubSettings};

/// Serves until the input ends or SIGTERM comes, and says in the log which it was.
pub async fn serve_stdio(settings: &StubSettings, log: LogFile) -> std::io::Result<()> {
    log.started(settings, "stdio");
    let mut terminated = signal(SignalKind::terminate())?;
    let reason = tokio::select! {
        reason = converse(Stub::new(settings, log.clone())) => reason,
        _ = terminated.recv() => "SIGTERM".to_owned(),
    };
    log.write(Event::Exit { reason });
    Ok(())
}

async fn converse(stub: Stub) -> String {
    match serve_server(stub, stdio_pipes()).await {
        Ok(service) => match service.waiting().await {
            Ok(_) => "end of input".to_owned(),
            Err(error) => format!("the server failed: {error}"),
        },
        Err(error) => format!("no handshake: {error}"),
    }
}
