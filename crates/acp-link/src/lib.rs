//! Ways to move lines between a client and an agent, and the tap that records them.
//!
//! **What it is.** A transport is a function that returns a [`Link`]: a [`Sender`] and a [`Receiver`], both
//! bounded, so that a slow reader slows the writer down and nothing grows. [`child`] starts an agent and leaves
//! no process of its behind ([`process_guard`] does so for other commands), [`stdio`] speaks over our own standard streams, [`tcp`] and [`ws`] over sockets,
//! [`memory`] inside one process, an [`Address`] or a [`ListenAddress`] over whichever it names, [`stream`] over any pair of byte streams. A [`Tap`] writes a transcript.
//!
//! **What it will never do.** Understand JSON, drop or repair a line, queue without a bound, or block a thread of
//! the runtime on a pipe.
//!
//! **Read first:** [`Link`], [`Sender`], [`Receiver`].

#[cfg(not(unix))]
compile_error!(
    "acp-link needs a Unix system: Linux, or macOS with fewer guarantees about an agent's descendants"
);

mod access;
mod address;
mod browser;
pub mod child;
pub mod credentials;
mod gauge;
pub mod kept;
mod listen;
mod outbox;
pub mod process_guard;
mod receiver;
mod sender;
pub mod signals;
pub mod stdio;
pub mod stream;
pub mod supervisor;
pub mod tap;
pub mod tcp;
pub mod token;
mod transport;
pub mod ws;

use acp_rpc::{DEFAULT_LINE_LIMIT, Direction, Splitter};

pub use access::{AccessControl, VisitorInfo, same_secret};
pub use address::{Address, AddressError, ConnectError};
pub use listen::{ListenAddress, ListenAddressError, ListenError, Listener};
pub use receiver::{Arrival, Burst, LinkEnd, Receiver};
pub use sender::{GLANCE, LinkClosed, Sender, TrySendError};
pub use tap::{Tap, TapError};

use outbox::{Bound, Framing, Outbox};
use receiver::{MemorySource, Source};
use tap::Recorder;

/// A connection to the other side: two bounded queues.
#[derive(Debug)]
pub struct Link {
    /// What we send.
    pub tx: Sender,
    /// What the other side sends.
    pub rx: Receiver,
}

/// The settings that every transport shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// The longest line (or message) that is received whole; a longer one arrives as `Line::Oversized`.
    pub line_limit: usize,
    /// How many bytes may wait to be written before senders wait.
    pub queue_bytes: usize,
    /// One write per frame instead of one per burst. For measuring, and for peers that read badly.
    pub flush_each: bool,
}

impl Default for LinkSettings {
    fn default() -> Self {
        LinkSettings { line_limit: DEFAULT_LINE_LIMIT, queue_bytes: 128 * 1024, flush_each: false }
    }
}

impl LinkSettings {
    pub(crate) fn outbox(&self, framing: Framing) -> std::sync::Arc<Outbox> {
        Outbox::new(framing, Bound { bytes: self.queue_bytes.max(1), frames: usize::MAX })
    }

    pub(crate) fn framing(&self) -> Framing {
        if self.flush_each { Framing::LinesOneByOne } else { Framing::Lines }
    }
}

impl Link {
    /// Records both directions. `received` is the way that incoming lines travel: a client receives
    /// [`Direction::AgentToClient`], an agent [`Direction::ClientToAgent`].
    #[must_use]
    pub fn tapped(mut self, tap: &Tap, received: Direction) -> Link {
        self.rx.record_with(Recorder::new(tap, received));
        self.tx.outbox().record_with(Recorder::new(tap, received.flip()));
        self
    }
}

/// Two links connected to each other inside this process. At most `capacity` frames (and 1 MiB) wait in each
/// direction before senders wait.
#[must_use]
pub fn memory(capacity: usize) -> (Link, Link) {
    let bound = Bound { bytes: 1024 * 1024, frames: capacity.max(1) };
    let (there, back) = (Outbox::new(Framing::Lines, bound), Outbox::new(Framing::Lines, bound));
    let half = |send: &std::sync::Arc<Outbox>, receive: &std::sync::Arc<Outbox>| Link {
        tx: Sender::new(send.clone()),
        rx: Receiver::new(Source::Memory(MemorySource::new(receive.clone()), Splitter::default())),
    };
    (half(&there, &back), half(&back, &there))
}
