//! The signals that tell a program to end.
//!
//! Whatever the program's starter had ignored stays ignored, as `nohup` and shells expect.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals within this time after the first one belong to it.
const SAME_WISH: Duration = Duration::from_millis(250);

/// SIGTERM, SIGINT and SIGHUP, except those that the program was started to ignore: `nohup` ignores hangups, and a
/// script's shell the interrupts of what it starts in the background.
#[derive(Debug)]
pub struct EndSignals(Vec<(SignalKind, Signal)>);

impl EndSignals {
    /// From now on they do not end the program by themselves.
    pub fn listen() -> io::Result<EndSignals> {
        let ignored = ignored();
        let all = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let heard = all.into_iter().filter(|kind| ignored >> (kind.as_raw_value() - 1) & 1 == 0);
        Ok(EndSignals(heard.map(|kind| Ok((kind, signal(kind)?))).collect::<io::Result<_>>()?))
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> SignalKind {
        poll_fn(|context| {
            let come = self
                .0
                .iter_mut()
                .find_map(|(kind, signal)| signal.poll_recv(context).is_ready().then_some(*kind));
            come.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for a second wish after the first. One wish may come as two signals: `timeout` and shells signal the
    /// process and its group.
    pub async fn again(&mut self) {
        let once = tokio::time::sleep(SAME_WISH);
        tokio::pin!(once);
        while tokio::select! { () = &mut once => false, _ = self.next() => true } {}
        self.next().await;
    }
}

/// The signals that this process ignores, one bit each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
