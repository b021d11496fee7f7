//! How a call is cut short.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Tells a running call to end: at a deadline (partial results, marked `truncated`), or at once
/// ([`crate::CodeError::Cancelled`]). Clones share the same flag.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    cancelled: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

/// Why a call must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// Somebody called [`StopSignal::cancel`].
    Cancelled,
    /// The deadline has passed.
    Deadline,
}

impl StopSignal {
    /// Runs to the end unless cancelled.
    pub fn never() -> Self {
        Self::default()
    }

    /// Ends at this moment with what has been found until then.
    pub fn at(deadline: Instant) -> Self {
        Self { cancelled: Arc::default(), deadline: Some(deadline) }
    }

    /// Ends after this long with what has been found until then.
    pub fn after(limit: Duration) -> Self {
        Instant::now().checked_add(limit).map_or_else(Self::never, Self::at)
    }

    /// Ends the call as soon as its threads notice; it returns an error.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether, and why, the call must end now.
    pub fn reason(&self) -> Option<StopCause> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Some(StopCause::Cancelled);
        }
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some(StopCause::Deadline)
    }
}
