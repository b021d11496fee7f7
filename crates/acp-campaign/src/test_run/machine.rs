//! A test as a machine that [`drive`](acp_driver::drive) drives, and whose time passes while it waits.

use std::time::Instant;

use acp_comply::RunEvent;
use acp_driver::{Machine, Output};
use acp_link::child::{Child, Exit};
use acp_link::{Arrival, LinkClosed, Receiver};
use acp_rpc::Frame;

use super::{Ending, Outgoing, TestRun, millis};

/// What happens beside the connection.
pub(crate) enum Beside {
    /// A provider has answered, for a connection.
    Answer(u32, Frame),
    /// The agent's process has ended.
    Exit(Exit),
}

/// What was waited for.
#[derive(PartialEq, Eq)]
enum Waited {
    ForAgent,
    ForClock,
}

impl Machine for TestRun<'_> {
    type Event = Beside;
    type Ending = Ending;

    fn receive(&mut self, arrival: Arrival, from: &Receiver) {
        self.waited(&Waited::ForAgent, arrival.at);
        self.heard(arrival.at, arrival.line, from.saw_bom());
        self.go_on();
    }

    fn input_ended(&mut self, _: &Receiver) -> Option<Ending> {
        self.waited(&Waited::ForAgent, Instant::now());
        self.output_end();
        self.go_on();
        None
    }

    fn poll(&mut self) -> Output<Ending> {
        match self.outgoing.pop_front() {
            Some(Outgoing::Line(line)) => Output::Line(line),
            Some(Outgoing::Raw(bytes)) => Output::Raw(bytes),
            Some(Outgoing::End) => {
                if let Some(wire) = &self.wire {
                    wire.end_input();
                }
                Output::Done
            }
            None => {
                self.idle_since = Instant::now();
                Output::Idle
            }
        }
    }

    fn next_deadline(&mut self, _: bool) -> Option<Instant> {
        let wake = self.run.next_deadline().map(|at| self.began + at);
        let pause = Some(self.read_from).filter(|_| self.is_paused());
        wake.into_iter().chain(pause).min()
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.waited(&Waited::ForClock, now);
        let since = now.saturating_duration_since(self.began);
        if self.run.next_deadline().is_some_and(|at| at <= since) {
            self.run.handle(since, RunEvent::Tick);
        }
        self.go_on();
    }

    async fn event(&mut self, _: bool) -> Beside {
        let child = self.wire.as_mut().and_then(|wire| wire.child.as_mut());
        let child = child.filter(|_| self.exit.is_none());
        tokio::select! {
            biased;
            Some((connection, frame)) = self.answers.1.recv() => Beside::Answer(connection, frame),
            exit = ended(child) => Beside::Exit(exit),
        }
    }

    fn happened(&mut self, event: Beside) {
        self.waited(&Waited::ForAgent, Instant::now());
        match event {
            Beside::Answer(connection, frame) => {
                if connection == self.connection {
                    self.run.handle(self.began.elapsed(), RunEvent::ProviderAnswered(frame));
                }
            }
            Beside::Exit(exit) => {
                self.exit = Some(exit);
                self.tell_exit();
            }
        }
        self.go_on();
    }

    fn reads(&self) -> bool {
        !self.output_ended && !self.is_paused()
    }

    fn unwritable(&mut self, _: LinkClosed, _: bool) -> Option<Ending> {
        // An agent that does not read never stops the test.
        None
    }

    fn ended(&mut self) -> Option<Ending> {
        self.ended.take()
    }
}

impl TestRun<'_> {
    /// Waits until the interpreter wants something, while there is no connection.
    pub(super) async fn wait_unconnected(&mut self) -> Ending {
        loop {
            if let Some(ended) = self.ended.take() {
                return ended;
            }
            match self.next_deadline(true) {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
            self.tick();
        }
    }

    fn go_on(&mut self) {
        self.notice_trouble();
        self.act();
    }

    fn is_paused(&self) -> bool {
        self.read_from > Instant::now()
    }

    /// Something has happened: whose time that took. What a test waits for is counted from when it began to, which is when
    /// the last thing happened.
    fn waited(&mut self, waited: &Waited, until: Instant) {
        match waited {
            Waited::ForClock => {
                self.cost.waits_ms += millis(until.saturating_duration_since(self.last));
            }
            Waited::ForAgent => {
                let from = self.idle_since.max(self.last);
                self.cost.agent_ms += millis(until.saturating_duration_since(from));
            }
        }
        self.last = until;
    }
}

async fn ended(child: Option<&mut Child>) -> Exit {
    match child {
        Some(child) => child.wait().await,
        None => std::future::pending().await,
    }
}
