//! Who has which session open: one connection at a time, of all processes that share the state folder, so that no turn
//! overwrites another's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::store::{SessionStore, SessionStoreError};

/// How long a session may take to become free: a client that comes back at once is faster than the end of its old
/// connection.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often it is tried whether another process has let go of a session.
const LOOK: Duration = Duration::from_millis(50);

/// The open sessions of all connections.
pub(crate) struct Claims {
    store: SessionStore,
    held: Mutex<HashMap<String, u64>>,
    freed: Notify,
    holders: AtomicU64,
}

impl Claims {
    pub(crate) fn new(store: SessionStore) -> Self {
        Self { store, held: Mutex::default(), freed: Notify::new(), holders: AtomicU64::new(0) }
    }

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

    /// Takes a session, unless another connection or another process has it.
    pub(crate) fn take(&self, session: &str) -> Result<(), SessionStoreError> {
        self.claims.held(|held| match held.get(session) {
            Some(holder) if *holder == self.number => Ok(()),
            Some(_) => Err(SessionStoreError::Elsewhere { session: session.to_owned() }),
            None => {
                self.claims.store.claim(session)?;
                held.insert(session.to_owned(), self.number);
                Ok(())
            }
        })
    }

    /// Takes a session as soon as it is free; an error if that does not happen soon.
    pub(crate) async fn take_soon(&self, session: &str) -> Result<(), SessionStoreError> {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let mut freed = std::pin::pin!(self.claims.freed.notified());
            freed.as_mut().enable();
            match self.take(session) {
                Err(error) if error.is_elsewhere() && tokio::time::Instant::now() < until => {
                    // Nobody tells when another process has let go.
                    let _ = tokio::time::timeout(LOOK, freed).await;
                }
                done => return done,
            }
        }
    }

    /// Gives a session back.
    pub(crate) fn free(&self, session: &str) {
        self.claims.held(|held| {
            if held.get(session) == Some(&self.number) {
                held.remove(session);
                self.claims.store.release(session);
            }
        });
        self.claims.freed.notify_waiters();
    }

    /// Gives everything back.
    pub(crate) fn free_all(&self) {
        self.claims.held(|held| {
            for (session, _) in held.extract_if(|_, holder| *holder == self.number) {
                self.claims.store.release(&session);
            }
        });
        self.claims.freed.notify_waiters();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.free_all();
    }
}
