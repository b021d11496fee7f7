//! The signals that tell a program to end.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that come so soon after the first one are the same wish.
const ONCE: Duration = Duration::from_millis(250);

/// SIGTERM, SIGINT and SIGHUP.
pub struct Ends([(SignalKind, Signal); 3]);

impl Ends {
    /// From now on they do not end the program by themselves.
    pub fn listen() -> io::Result<Ends> {
        let listen = |kind| Ok::<_, io::Error>((kind, signal(kind)?));
        Ok(Ends([
            listen(SignalKind::terminate())?,
            listen(SignalKind::interrupt())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> SignalKind {
        let any = self.0.iter_mut().map(|(kind, signal)| {
            Box::pin(async move {
                signal.recv().await;
                *kind
            })
        });
        futures_util::future::select_all(any).await.0
    }

    /// Waits for a second wish after the first. One wish may come as two signals: `timeout` and shells signal the
    /// process and its group.
    pub async fn again(&mut self) {
        let once = tokio::time::sleep(ONCE);
        tokio::pin!(once);
        while tokio::select! { () = &mut once => false, _ = self.next() => true } {}
        self.next().await;
    }
}
