//! What time it is. The system's clock is asked each time: it is set, and it goes on while the machine sleeps.
//!
//! An epoch is the microseconds at takeover: unique without asking NATS, so a session can begin while NATS is gone, and
//! it goes up within a process whatever the clock does. Events are numbered before the server is known and cannot be
//! cut later, so until the first connection they are cut to 32 KiB.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Clocks that were set back by less than this were only read at different moments.
const JITTER_MS: u64 = 1000;

/// Milliseconds since 1970, now.
pub(super) fn now() -> u64 {
    millis(since_1970())
}

/// Milliseconds since 1970 at a moment that has passed; never just before `last`, the moment before it.
pub(super) fn wall(at: Instant, last: u64) -> u64 {
    // How long ago it was is read first: whatever holds us up between the two must not make it earlier than it was.
    let ago = at.elapsed();
    steady(millis(since_1970().saturating_sub(ago)), last)
}

fn steady(wall: u64, last: u64) -> u64 {
    if last.saturating_sub(wall) < JITTER_MS { wall.max(last) } else { wall }
}

/// Gives numbers that no other taking over has: the microseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Epochs(AtomicU64);

impl Epochs {
    pub(super) fn next(&self) -> u64 {
        self.after(u64::try_from(since_1970().as_micros()).unwrap_or_default())
    }

    /// The clock says `now`; it may have been set back.
    fn after(&self, now: u64) -> u64 {
        let last = self.0.fetch_max(now, Ordering::Relaxed);
        if last < now { now } else { self.0.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_up_unless_the_clock_was_set_back() {
        assert_eq!([(7, 5), (5, 5), (5, 7)].map(|(wall, last)| steady(wall, last)), [7, 5, 7]);
        assert_eq!(steady(5_000, 3_600_000), 5_000);
        let (before, at) = (now(), Instant::now());
        assert!(wall(at, 0) + 1 >= before && wall(at, 0) <= now());
    }

    #[test]
    fn epochs_go_up_whatever_the_clock_does() {
        let epochs = Epochs::default();
        assert_eq!([10, 10, 3, 4, 20].map(|now| epochs.after(now)), [10, 11, 12, 13, 20]);
        assert!(epochs.next() > 20);
    }
}
