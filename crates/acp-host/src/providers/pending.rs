//! Requests that are being answered, and how they learn that they need not be any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acp_rpc::Id;
use tokio::sync::watch;

/// Why a request need not be answered in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The agent took it back (`$/cancel_request`).
    Request,
    /// The client cancelled the turn or closed the session.
    Session,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Pending {
    list: Arc<Mutex<List>>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    id: Id,
    session: Option<String>,
    tell: watch::Sender<Option<Why>>,
}

impl Pending {
    pub(super) fn register(&self, id: &Id, session: Option<String>) -> Ticket {
        let (tell, told) = watch::channel(None);
        let mut list = self.list();
        list.next += 1;
        let serial = list.next;
        list.entries.push(Entry { serial, id: id.clone(), session, tell });
        Ticket { serial, told, pending: self.clone() }
    }

    pub(super) fn cancel_request(&self, id: &Id) {
        self.tell(Why::Request, |entry| entry.id == *id);
    }

    pub(super) fn cancel_session(&self, session: &str) {
        self.tell(Why::Session, |entry| entry.session.as_deref() == Some(session));
    }

    pub(super) fn cancel_all(&self) {
        self.tell(Why::Session, |_| true);
    }

    fn tell(&self, why: Why, which: impl Fn(&Entry) -> bool) {
        for entry in self.list().entries.iter().filter(|entry| which(entry)) {
            entry.tell.send_if_modified(|told| told.replace(why).is_none());
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by the request; leaves the list when dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    serial: u64,
    told: watch::Receiver<Option<Why>>,
    pending: Pending,
}

impl Ticket {
    /// Waits until the request is cancelled, which may be never.
    pub(super) async fn cancelled(&mut self) -> Why {
        let told = self.told.wait_for(Option::is_some).await.ok().and_then(|why| *why);
        match told {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.pending.list().entries.retain(|entry| entry.serial != self.serial);
    }
}
