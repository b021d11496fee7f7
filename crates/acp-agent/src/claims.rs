//! Who has which session open: one connection at a time, so that no turn overwrites another's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// How long a session may take to become free: a client that comes back at once is faster than the end of its old
/// connection.
const PATIENCE: Duration = Duration::from_secs(3);

/// The open sessions of all connections.
#[derive(Default)]
pub(crate) struct Claims {
    held: Mutex<HashMap<String, u64>>,
    freed: Notify,
    holders: AtomicU64,
}

impl Claims {
    fn held<T>(&self, work: impl FnOnce(&mut HashMap<String, u64>) -> T) -> T {
        work(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One connection, with its sessions; they are free when it goes.
pub(crate) struct Holder {
    claims: Arc<Claims>,
    number: u64,
}

impl Holder {
    pub(crate) fn new(claims: &Arc<Claims>) -> Self {
        let number = claims.holders.fetch_add(1, Ordering::Relaxed);
        Self { claims: claims.clone(), number }
    }

    /// Takes a session, unless another connection has it.
    pub(crate) fn take(&self, session: &str) -> bool {
        self.claims.held(|held| match held.get(session) {
            Some(holder) => *holder == self.number,
            None => held.insert(session.to_owned(), self.number).is_none(),
        })
    }

    /// Takes a session, as soon as it is free; false if that does not happen soon.
    pub(crate) async fn take_soon(&self, session: &str) -> bool {
        let taken = async {
            loop {
                let mut freed = std::pin::pin!(self.claims.freed.notified());
                freed.as_mut().enable();
                if self.take(session) {
                    return;
                }
                freed.await;
            }
        };
        tokio::time::timeout(PATIENCE, taken).await.is_ok()
    }

    /// Whether another connection has this session.
    pub(crate) fn is_elsewhere(&self, session: &str) -> bool {
        self.claims.held(|held| held.get(session).is_some_and(|holder| *holder != self.number))
    }

    /// Gives a session back.
    pub(crate) fn free(&self, session: &str) {
        let ours = |held: &mut HashMap<String, u64>| {
            if held.get(session) == Some(&self.number) {
                held.remove(session);
            }
        };
        self.claims.held(ours);
        self.claims.freed.notify_waiters();
    }

    /// Gives everything back.
    pub(crate) fn free_all(&self) {
        self.claims.held(|held| held.retain(|_, holder| *holder != self.number));
        self.claims.freed.notify_waiters();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.free_all();
    }
}
