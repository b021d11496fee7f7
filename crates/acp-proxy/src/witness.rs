//! Who sees what passes, and may tell a conversation to end: NATS.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use acp_dialect::Side;
use acp_host::{Ended, Gate, Watch};
use acp_rpc::Frame;
use tokio::sync::{mpsc, oneshot};

use crate::proxy::Guest;

/// Sees every conversation of a proxy.
pub trait Witness: Send + Sync {
    /// A client has come and has an agent. `number` counts the clients of this proxy; `reins` reach the conversation as
    /// long as it lasts.
    fn begins(&self, number: u64, guest: &Guest, reins: Reins) -> Box<dyn Hearing>;
}

/// Sees one conversation in its canonical form.
pub trait Hearing: Send {
    /// One frame, in the order in which frames passed. Must not block; see [`Hearing::gate`].
    fn seen(&mut self, from: Side, at: Instant, frame: &Frame);

    /// A request of the agent that the proxy answered itself, and why so. Nobody else sees either of them.
    fn decided(&mut self, at: Instant, request: &Frame, answer: &Frame, reason: &str);

    /// The conversation is over, and why.
    fn over(&mut self, reason: &str);

    /// While this is closed, the agent is not read.
    fn gate(&self) -> Option<Arc<Gate>> {
        None
    }
}

/// What a conversation is told from outside.
pub(crate) enum Order {
    /// Cancel the running turn of a session. The answer is whether one was running.
    Cancel { session: String, done: oneshot::Sender<bool> },
    /// Cancel what is running, and end the conversation for this reason.
    Close { why: String, done: oneshot::Sender<bool> },
}

/// Tells a conversation what to do. Clones reach the same one.
#[derive(Clone, Debug)]
pub struct Reins(mpsc::Sender<Order>);

/// Where a conversation hears it.
pub(crate) struct Orders(mpsc::Receiver<Order>);

/// Both ends.
pub(crate) fn reins() -> (Reins, Orders) {
    let (tell, told) = mpsc::channel(4);
    (Reins(tell), Orders(told))
}

impl Reins {
    /// Cancels the running turn of a session, as its client would. False when there is none, or no conversation.
    pub async fn cancel(&self, session: &str) -> bool {
        let session = session.to_owned();
        self.tell(|done| Order::Cancel { session, done }).await
    }

    /// Ends the conversation: turns are cancelled, the client is told why, its agent is ended. False when it is over.
    pub async fn close(&self, why: &str) -> bool {
        let why = why.to_owned();
        self.tell(|done| Order::Close { why, done }).await
    }

    async fn tell(&self, order: impl FnOnce(oneshot::Sender<bool>) -> Order) -> bool {
        let (done, answer) = oneshot::channel();
        self.0.send(order(done)).await.is_ok() && answer.await.unwrap_or(false)
    }
}

impl Orders {
    /// The next one.
    pub(crate) async fn next(&mut self) -> Order {
        match self.0.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        }
    }
}

/// Why permission requests were answered as they were, by their tool calls: told by who answers in a client's place, to
/// who sees the answer pass. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Reasons(Arc<Mutex<HashMap<String, String>>>);

impl Reasons {
    /// The answer for this tool call is on its way.
    pub(crate) fn put(&self, tool_call: &str, reason: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(tool_call.to_owned(), reason.to_owned());
    }

    /// Whether the two are shared.
    pub(crate) fn is(&self, other: &Reasons) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// It has come.
    pub(crate) fn take(&self, tool_call: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(tool_call)
    }
}

/// A hearing that frames are shown to, and that is told of the end.
pub(crate) type Heard = Arc<Mutex<Box<dyn Hearing>>>;

/// Shows it what passes a joint, besides whoever sees it already.
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
        Some(Ended::Refused { reason, .. } | Ended::Stopped(reason) | Ended::Closed(reason)) => {
            reason.clone()
        }
    };
    lock(heard).over(&reason);
}

pub(crate) fn lock(heard: &Heard) -> MutexGuard<'_, Box<dyn Hearing>> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
