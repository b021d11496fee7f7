//! For who operates a proxy: is it alive, does it take work, what has it done.
//!
//! Served from a thread of its own, so that it answers while the proxy waits for a disk.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::metrics::Metrics;

/// Says what is wrong now, if anything is.
pub type Check = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Whether a proxy takes work. Clones share it.
#[derive(Clone, Default)]
pub struct Health {
    checks: Arc<Mutex<BTreeMap<&'static str, Check>>>,
}

impl Health {
    /// Not ready while `check` says something.
    pub fn watch(&self, name: &'static str, check: Check) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).insert(name, check);
    }

    /// What is wrong now, by name.
    #[must_use]
    pub fn troubles(&self) -> Vec<(&'static str, String)> {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.iter().filter_map(|(name, check)| Some((*name, check()?))).collect()
    }
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health").field("troubles", &self.troubles()).finish()
    }
}

/// Serves `/healthz`, `/readyz` and `/metrics` until the process ends. Says where.
pub fn serve(address: SocketAddr, health: Health, metrics: Metrics) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("acp-ops".into()).spawn(move || {
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            // It ends with the process.
            let _ = axum::serve(listener, router(health, metrics)).await;
        });
    })?;
    Ok(bound)
}

fn router(health: Health, metrics: Metrics) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(numbers))
        .with_state((health, metrics))
}

async fn ready(State((health, _)): State<(Health, Metrics)>) -> Response {
    let troubles = health.troubles();
    if troubles.is_empty() {
        return "ready\n".into_response();
    }
    let words: String = troubles.iter().map(|(name, trouble)| format!("{name}: {trouble}\n")).collect();
    (StatusCode::SERVICE_UNAVAILABLE, words).into_response()
}

async fn numbers(State((health, metrics)): State<(Health, Metrics)>) -> Response {
    let ready = metrics.gauge("acp_proxy_ready", "Whether the proxy takes work.", &[]);
    ready.set(u64::from(health.troubles().is_empty()));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics.to_text()).into_response()
}
