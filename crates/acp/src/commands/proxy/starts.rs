//! Whether agents can be started, for `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use acp_proxy::ops::Health;
use acp_proxy::{Opener, ProxyLog};
use tokio::sync::watch;

/// The first pause before an agent is tried again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Whether the last attempt to start an agent failed, and why.
pub struct Starts {
    failing: Arc<watch::Sender<Option<String>>>,
}

impl Starts {
    /// Shows on `/readyz` why agents cannot be started. `missing` says what is known to be in their way.
    pub fn shown_on(health: &Health, missing: Option<String>) -> Self {
        let failing = Arc::new(watch::channel(missing).0);
        let seen = failing.clone();
        health.watch("agent", Arc::new(move || seen.borrow().clone()));
        Self { failing }
    }

    /// The same opener, whose failures make the proxy not ready until an agent can be started again. That is tried from time
    /// to time, because no load balancer sends clients to a proxy that is not ready.
    pub fn watched(self, open: Opener, log: ProxyLog) -> Opener {
        let failing = self.failing;
        tokio::spawn(try_again(open.clone(), failing.clone(), log));
        Arc::new(move || {
            let (opening, failing) = (open(), failing.clone());
            Box::pin(async move {
                let opened = opening.await;
                let why = opened.as_ref().err().map(ToString::to_string);
                failing.send_if_modified(|known| {
                    let news = *known != why;
                    *known = why;
                    news
                });
                opened
            })
        })
    }
}

async fn try_again(open: Opener, failing: Arc<watch::Sender<Option<String>>>, log: ProxyLog) {
    let mut seen = failing.subscribe();
    while let Ok(why) = seen.wait_for(Option::is_some).await.map(|why| why.clone().unwrap_or_default()) {
        log.warn(&format!("not ready: {why}"));
        let mut pause = PAUSES.0;
        while failing.borrow().is_some() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
            // An agent that is opened only to see whether that works ends when it is dropped.
            let tried = open().await;
            failing.send_replace(tried.err().map(|error| error.to_string()));
        }
        log.info("agents can be started again");
    }
}
