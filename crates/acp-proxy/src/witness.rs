//! Who keeps what passes: the journal, NATS.

use std::sync::Arc;
use std::time::Instant;

use acp_dialect::Side;
use acp_host::Gate;
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
