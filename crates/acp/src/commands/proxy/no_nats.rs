//! `acp proxy` in a build without the feature `nats`.

use std::sync::Arc;

use acp_proxy::ops::Health;
use acp_proxy::{ClientSource, Outcome, Proxy, ProxyLog};
use anyhow::Context as _;
use tokio::sync::watch;

use crate::features;

/// Explains that `--nats` is not there.
#[derive(clap::Args, Clone, Debug)]
pub struct NatsArgs {
    /// Publish what happens in sessions to JetStream
    #[arg(long, value_name = "URL", hide = true, value_parser = refused)]
    nats: Option<String>,
}

fn refused(_url: &str) -> Result<String, String> {
    Err(features::absent("NATS", "nats"))
}

impl NatsArgs {
    /// There is nothing to check.
    pub fn check(&self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Whether NATS keeps what happens: never.
    pub fn is_wanted(&self) -> bool {
        self.nats.is_some()
    }

    /// Starts nothing.
    pub async fn start(
        &self,
        _proxy: &acp_proxy::ProxySettings,
        _health: &Health,
        _log: &ProxyLog,
    ) -> anyhow::Result<NotStarted> {
        Ok(NotStarted)
    }
}

/// Stands for NATS where there is none.
pub struct NotStarted;

/// Serves clients until told to stop, or until the client on standard streams leaves.
pub async fn serve(
    _: NotStarted,
    proxy: Proxy,
    clients: Option<ClientSource>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<Outcome> {
    let clients = clients.context("--listen none needs --nats: no client could connect")?;
    Ok(clients.serve(Arc::new(proxy), stop).await?)
}
