//! Back-pressure from those who keep what passes.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Holds an agent back while too much waits to be kept.
#[derive(Debug)]
pub struct Gate {
    waiting: AtomicUsize,
    most: usize,
    opened: Notify,
}

impl Gate {
    /// A gate that closes when more than `most` things wait.
    #[must_use]
    pub fn new(most: usize) -> Gate {
        Gate { waiting: AtomicUsize::new(0), most, opened: Notify::new() }
    }

    /// So many more things wait.
    pub fn enter(&self, count: usize) {
        self.waiting.fetch_add(count, Ordering::AcqRel);
    }

    /// So many things are kept.
    pub fn leave(&self, count: usize) {
        let before = self.waiting.fetch_sub(count, Ordering::AcqRel);
        if before > self.most && before - count <= self.most {
            self.opened.notify_waiters();
        }
    }

    /// Whether the agent may be read.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.waiting.load(Ordering::Acquire) <= self.most
    }

    /// Waits until the agent may be read.
    pub async fn open(&self) {
        loop {
            let opened = self.opened.notified();
            if self.is_open() {
                return;
            }
            opened.await;
        }
    }
}
