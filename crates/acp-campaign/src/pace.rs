//! How many tests run at once: as many as asked for, fewer while the machine cannot keep up.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::Notify;

use crate::canary::Canary;

/// A round trip of the canary that an unburdened machine never takes.
const BUSY: Duration = Duration::from_millis(20);
/// A round trip at which only one test runs at a time.
const OVERLOADED: Duration = Duration::from_millis(80);
/// How often a test that waits for its turn looks at the machine again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Hands out turns to tests.
#[derive(Debug)]
pub struct Pace {
    jobs: usize,
    canary: Option<Canary>,
    running: Mutex<usize>,
    freed: Notify,
}

/// A turn; dropping it lets the next test begin.
#[derive(Debug)]
pub struct Turn<'a>(&'a Pace);

impl Pace {
    /// At most `jobs` tests at once.
    pub fn new(jobs: usize, canary: Option<Canary>) -> Pace {
        Pace { jobs: jobs.max(1), canary, running: Mutex::new(0), freed: Notify::new() }
    }

    /// How many tests run at once on a machine that keeps up.
    pub fn jobs(&self) -> usize {
        self.jobs
    }

    /// Waits until another test may begin. One always may when none runs.
    pub async fn turn(&self) -> Turn<'_> {
        loop {
            if self.take() {
                return Turn(self);
            }
            tokio::select! {
                () = self.freed.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    fn take(&self) -> bool {
        let allowed = allowed(self.jobs, self.canary.as_ref().map(Canary::recent));
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let may = *running < allowed;
        *running += usize::from(may);
        may
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_waiters();
    }
}

/// How many of `jobs` may run when the canary's last round trips took so long at worst.
fn allowed(jobs: usize, trip: Option<Duration>) -> usize {
    match trip {
        Some(trip) if trip >= OVERLOADED => 1,
        Some(trip) if trip >= BUSY => jobs.div_ceil(2),
        _ => jobs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_cannot_keep_up_gets_fewer_tests_at_once() {
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(allowed(8, None), 8);
        assert_eq!(allowed(8, ms(1)), 8);
        assert_eq!(allowed(8, ms(30)), 4);
        assert_eq!(allowed(8, ms(500)), 1);
        assert_eq!(allowed(1, ms(30)), 1);
    }

    #[tokio::test]
    async fn a_turn_that_ends_lets_the_next_test_begin() {
        let pace = Pace::new(1, None);
        let first = pace.turn().await;
        assert!(!pace.take());
        drop(first);
        let _second = pace.turn().await;
    }
}
