//! Who keeps what passes: the journal, NATS.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use acp_dialect::Side;
use acp_host::{Ended, Gate, Watch};
use acp_rpc::Frame;

/// Sees every conversation of a proxy.
pub trait Witness: Send + Sync {
    /// A client has come and has an agent. `number` counts the clients of this proxy.
    fn begins(&self, number: u64) -> Box<dyn Hearing>;
}

/// Sees one conversation in its canonical form.
pub trait Hearing: Send {
    /// One frame, in the order in which frames passed. Must not block; see [`Hearing::gate`].
    fn seen(&mut self, from: Side, at: Instant, frame: &Frame);

    /// The conversation is over, and why.
    fn over(&mut self, reason: &str);

    /// While this is closed, the agent is not read.
    fn gate(&self) -> Option<Arc<Gate>> {
        None
    }
}

/// A hearing that the joint shows frames to, and that is told of the end.
pub(crate) type Heard = Arc<Mutex<Box<dyn Hearing>>>;

/// Shows it what passes, besides whoever sees it already.
pub(crate) fn attach(watch: &mut Watch, heard: &Heard) {
    watch.gate = lock(heard).gate();
    let (heard, mut others) = (heard.clone(), watch.seen.take());
    watch.seen = Some(Box::new(move |from, at, frame| {
        if let Some(others) = &mut others {
            others(from, at, frame);
        }
        lock(&heard).seen(from, at, frame);
    }));
}

/// Tells it that the conversation is over.
pub(crate) fn over(heard: &Heard, ended: Option<&Ended>) {
    let reason = match ended {
        None => "the proxy is shutting down".to_owned(),
        Some(Ended::AgentGone) => "the agent is gone".to_owned(),
        Some(Ended::ClientDone | Ended::ClientGone) => "the client left".to_owned(),
        Some(Ended::Refused { reason, .. } | Ended::Stopped(reason)) => reason.clone(),
    };
    lock(heard).over(&reason);
}

fn lock(heard: &Heard) -> MutexGuard<'_, Box<dyn Hearing>> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
