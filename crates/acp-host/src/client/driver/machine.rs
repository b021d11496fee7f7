//! The client as a machine that [`drive`](acp_driver::drive) drives.

use std::time::Duration;

use acp_driver::{Machine, Output};
use acp_link::child::Exit;
use acp_link::{Arrival, LinkClosed, Receiver};
use acp_rpc::Frame;
use tokio::sync::{mpsc, oneshot};

use super::{Command, Driver, Note, Weight, reserve};
use crate::providers::ProviderAnswer;

/// Why the driver lets go of the link for a moment, or for good.
pub(crate) enum Ending {
    /// Every handle was dropped.
    Dropped,
    /// The agent's output ended.
    Lost,
    /// The agent no longer reads what waited for it.
    Unwritable(LinkClosed),
    /// We are told to close the connection.
    Close { grace: Duration, done: oneshot::Sender<Option<Exit>> },
}

/// What happens beside the link.
pub(crate) enum Happened {
    /// A command; none when every handle was dropped.
    Command(Option<Command>),
    /// A request of the agent has its answer.
    Answered(Option<(ProviderAnswer, Weight)>),
    /// There is room for the next note, unless its reader is gone.
    Room(Option<mpsc::OwnedPermit<Note>>),
}

impl Machine for Driver {
    type Event = Happened;
    type Ending = Ending;

    fn receive(&mut self, arrival: Arrival, _: &Receiver) {
        self.arrived(Frame::from(arrival.line));
    }

    fn input_ended(&mut self, _: &Receiver) -> Option<Ending> {
        self.ended = Some(Ending::Lost);
        None
    }

    fn poll(&mut self) -> Output<Ending> {
        self.unread_bytes -= std::mem::take(&mut self.handed_over);
        let Some((bytes, is_line)) = self.outgoing.pop_front() else {
            self.start_deferred();
            return Output::Idle;
        };
        self.handed_over = bytes.len();
        if is_line { Output::Line(bytes) } else { Output::Raw(bytes) }
    }

    fn next_deadline(&mut self, _: bool) -> Option<std::time::Instant> {
        self.peer.next_deadline().map(|at| (self.began + at).into_std())
    }

    fn tick(&mut self) {
        self.expire();
    }

    async fn event(&mut self, _: bool) -> Happened {
        let reader = self.backlog.front().map(|(reader, note)| (reader.clone(), note.is_large()));
        let has_note = reader.is_some();
        tokio::select! {
            command = self.commands.recv() => Happened::Command(command),
            Some(answer) = self.answers.join_next() => Happened::Answered(answer.ok()),
            permit = reserve(reader), if has_note => Happened::Room(permit),
        }
    }

    fn happened(&mut self, event: Happened) {
        match event {
            Happened::Command(Some(command)) => self.command(command),
            Happened::Command(None) => self.ended = Some(Ending::Dropped),
            Happened::Answered(None) => {}
            Happened::Answered(Some((answer, weight))) => {
                self.asked_bytes = self.asked_bytes.saturating_sub(weight.bytes);
                self.large -= usize::from(weight.is_large);
                self.answered(&answer);
                self.start_deferred();
            }
            Happened::Room(permit) => {
                if let Some((_, note)) = self.backlog.pop_front()
                    && let Some(permit) = permit
                {
                    permit.send(note);
                }
            }
        }
    }

    fn reads(&self) -> bool {
        self.gone.is_none() && self.backlog.is_empty() && self.has_room()
    }

    fn unwritable(&mut self, closed: LinkClosed, has_waited: bool) -> Option<Ending> {
        self.drop_output();
        // Otherwise the end of the input says more than a write that failed: it comes by itself.
        (has_waited && self.gone.is_none()).then_some(Ending::Unwritable(closed))
    }

    fn ended(&mut self) -> Option<Ending> {
        self.ended.take()
    }
}
