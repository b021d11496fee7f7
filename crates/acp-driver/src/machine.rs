//! What a machine must offer to be driven.

use std::time::Instant;

use acp_link::{Arrival, LinkClosed, Receiver};
use acp_rpc::Frame;
use bytes::Bytes;

/// One side of a conversation, without input and output of its own.
pub trait Machine: Send {
    /// Something that happens beside the connection: a tool has answered, a command has come.
    type Event: Send;
    /// How the conversation ended.
    type Ending: Send;

    /// A line came in from `from`.
    fn receive(&mut self, arrival: Arrival, from: &Receiver);

    /// The other side ended its output; [`Receiver::end`] says how. With an ending, what can be said at once is still
    /// written, and [`drive`](crate::drive) returns it; without one, the machine goes on with no input.
    fn input_ended(&mut self, from: &Receiver) -> Option<Self::Ending>;

    /// The next output. Asked again as soon as the last one was handed over, until there is none.
    fn poll(&mut self) -> Output<Self::Ending>;

    /// When to call [`tick`](Machine::tick). `is_free` is false while output waits to be written.
    fn next_deadline(&mut self, is_free: bool) -> Option<Instant> {
        let _ = is_free;
        None
    }

    /// The deadline has passed.
    fn tick(&mut self) {}

    /// Waits for the next event. `is_free` is false while output waits to be written: whatever makes more output can wait
    /// then. Must be cancel safe.
    fn event(&mut self, is_free: bool) -> impl Future<Output = Self::Event> + Send;

    /// An event has happened.
    fn happened(&mut self, event: Self::Event);

    /// Whether more may be read from the other side now.
    fn reads(&self) -> bool {
        true
    }

    /// The other side no longer takes what is written; `has_waited` says whether this output had been waiting for it. With
    /// an ending, the conversation is over; without one, the output is dropped and the machine goes on.
    fn unwritable(&mut self, closed: LinkClosed, has_waited: bool) -> Option<Self::Ending>;

    /// Whether the conversation is over at once, whatever still waits to be written.
    fn ended(&mut self) -> Option<Self::Ending> {
        None
    }

    /// Whether the other side takes one read for one message: then each line waits until the last one was read.
    fn is_one_by_one(&self) -> bool {
        false
    }
}

/// What a machine wants done.
#[derive(Debug)]
pub enum Output<E> {
    /// Write this frame as a line.
    Frame(Frame),
    /// Write this line; it has no line ending yet.
    Line(Bytes),
    /// Write these bytes as they are, in a write of their own.
    Raw(Bytes),
    /// Something was done that needs no writing. Ask again.
    Done,
    /// Nothing, until something happens.
    Idle,
    /// Nothing, until an event happens that the next output waits for. Until then, no time passes for the machine.
    Blocked,
    /// The conversation is over. All output before this has been handed to the link.
    End(E),
}
