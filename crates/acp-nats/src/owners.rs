//! Which conversation has a session. What two conversations say under one name is never mixed: of agents that number
//! their sessions from one, each has a first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::hub::Nats;
use acp_proxy::DecisionReasons;

/// How long a look at what is stored may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);
/// A second look at who has a session: by then the first event of whoever has just taken it over is stored.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(1);

/// What a conversation has of a session that is its own, until another takes it over.
#[derive(Clone, Debug, Default)]
pub(super) struct Hold(Arc<AtomicBool>);

impl Hold {
    /// Whether another conversation has the session now.
    pub(super) fn is_lost(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Whether both are of one claim.
    pub(super) fn is(&self, other: &Hold) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The sessions of a proxy's conversations.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<HashMap<Arc<str>, Owner>>);

#[derive(Debug)]
struct Owner {
    hold: Hold,
    /// What identifies a conversation of the queue.
    queue: Option<DecisionReasons>,
}

/// What came of a claim.
pub(super) enum Claimed {
    /// Nobody had it.
    Free(Hold),
    /// Somebody had it, who has lost it.
    From(Hold),
    /// Somebody has it.
    Taken,
}

impl Owners {
    /// Takes a session: one that nobody has, or also somebody else's if that is meant.
    pub(super) fn claim(
        &self,
        session: &Arc<str>,
        queue: Option<&DecisionReasons>,
        anyones: bool,
    ) -> Claimed {
        let mut owners = self.all();
        let before = owners.get(session);
        if before.is_some() && !anyones {
            return Claimed::Taken;
        }
        let hold = Hold::default();
        let claimed = match before {
            None => Claimed::Free(hold.clone()),
            Some(before) => {
                before.hold.0.store(true, Ordering::Release);
                Claimed::From(hold.clone())
            }
        };
        owners.insert(session.clone(), Owner { hold, queue: queue.cloned() });
        claimed
    }

    /// Lets go of a session, unless another conversation has it since.
    pub(super) fn release(&self, session: &str, hold: &Hold) {
        let mut owners = self.all();
        if owners.get(session).is_some_and(|owner| owner.hold.is(hold)) {
            owners.remove(session);
        }
    }

    /// Whether a conversation of the queue has a session.
    pub(super) fn is_of(&self, session: &str, queue: &DecisionReasons) -> bool {
        let owners = self.all();
        let owner = owners.get(session).and_then(|owner| owner.queue.as_ref());
        owner.is_some_and(|owner| owner.is(queue))
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, Owner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Nats {
    /// Whether another proxy has taken a session over that is open here, as far as what is stored says.
    pub(super) async fn is_taken_over(&self, session: &str) -> bool {
        if !self.is_outdated(session).await {
            return false;
        }
        tokio::time::sleep(SECOND_LOOK_AFTER).await;
        self.is_outdated(session).await
    }

    async fn is_outdated(&self, session: &str) -> bool {
        let Some(own) = self.epoch_of(session) else { return false };
        let subject = self.shared.subjects.event(session);
        let last = tokio::time::timeout(LOOK_TIMEOUT, self.shared.last_event(&subject)).await;
        matches!(last, Ok(Ok(Some(last))) if last.epoch > own)
    }
}
