//! The wire between the product's client and its agent, where faults and quirks do their work.
//!
//! What the client says passes its quirks and then the faults; what the agent says passes the faults and then the quirks.
//! A side that is not read is not listened to either, so nothing grows here.

mod outbound;
mod requests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use acp_link::Link;
use acp_rpc::Frame;
use acp_script::faults::{Faults, Passage};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::quirk::{Around, WireQuirk};
use outbound::{Outbound, Piece};
use requests::Requests;

/// The quirks of a client: they outlive its connections.
pub(crate) type SharedQuirks = Arc<Mutex<Vec<Box<dyn WireQuirk>>>>;

/// How the wire ended something by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireEnd {
    /// The client's process ends with this code.
    Crash(i32),
    /// The client gives up the connection.
    Hangup,
}

/// One connection's wire.
pub(crate) struct Wire {
    pub(crate) faults: Faults,
    pub(crate) quirks: SharedQuirks,
    pub(crate) workspace: PathBuf,
    /// Which launch this is the wire of, and who is told when it ends something.
    pub(crate) launch: usize,
    pub(crate) over: mpsc::UnboundedSender<(usize, WireEnd)>,
}

/// The wire while it runs.
struct Running {
    wire: Wire,
    began: Instant,
    requests: Requests,
    to_client: Outbound,
    to_agent: Outbound,
    ended: Option<WireEnd>,
}

/// What happened next.
enum Next {
    Said(Option<Frame>),
    Heard(Option<Frame>),
    Time,
    Room,
}

impl Wire {
    /// Passes lines until both sides have ended, or the wire itself ends the connection. `client` is our end of the link to
    /// the product's client, `agent` the link to the agent.
    pub(crate) async fn run(self, mut client: Link, mut agent: Link) {
        let mut running = Running {
            wire: self,
            began: Instant::now(),
            requests: Requests::default(),
            to_client: Outbound::default(),
            to_agent: Outbound::default(),
            ended: None,
        };
        running.quirks(|quirk, _| quirk.launched());
        running.wire.faults.start(Duration::ZERO);
        running.settle();
        let (mut client_speaks, mut agent_speaks) = (true, true);
        loop {
            let stuck_to_client = running.to_client.advance(&client.tx);
            let stuck_to_agent = running.to_agent.advance(&agent.tx);
            if !client_speaks && running.to_agent.is_empty() {
                agent.tx.close();
            }
            if let Some(end) = running.ended.filter(|_| running.to_agent.is_empty()) {
                let _ = agent.tx.flush().await;
                let _ = running.wire.over.send((running.wire.launch, end));
                return;
            }
            if !client_speaks && !agent_speaks {
                return;
            }
            let deadline = running.deadline();
            let next = tokio::select! {
                arrival = client.rx.recv(), if client_speaks && running.to_agent.is_empty() => {
                    Next::Said(arrival.map(|arrival| Frame::from(arrival.line)))
                }
                arrival = agent.rx.recv(), if agent_speaks && (running.to_client.is_empty() || !client_speaks) => {
                    Next::Heard(arrival.map(|arrival| Frame::from(arrival.line)))
                }
                () = tokio::time::sleep_until(deadline.unwrap_or(running.began)), if deadline.is_some() => Next::Time,
                () = running.to_client.writable(&client.tx), if stuck_to_client => Next::Room,
                () = running.to_agent.writable(&agent.tx), if stuck_to_agent => Next::Room,
            };
            match next {
                Next::Said(Some(frame)) => running.said(frame),
                Next::Said(None) => (client_speaks, _) = (false, running.to_client.clear()),
                Next::Heard(Some(_)) if !client_speaks => {}
                Next::Heard(Some(frame)) => running.heard(frame),
                Next::Heard(None) => {
                    agent_speaks = false;
                    running.wire.faults.end(running.now());
                    running.settle();
                    if running.notices_the_end() {
                        running.to_client.advance(&client.tx);
                        client.tx.close();
                    }
                }
                Next::Time => {
                    running.wire.faults.tick(running.now());
                    running.settle();
                }
                Next::Room => {}
            }
        }
    }
}

impl Running {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn deadline(&self) -> Option<Instant> {
        self.wire.faults.next_deadline().map(|at| self.began + at)
    }

    /// The client says something.
    fn said(&mut self, frame: Frame) {
        let asked = self.requests.said(&frame);
        let mut passed = Some(frame);
        self.quirks(|quirk, around| {
            around.request = asked.clone();
            passed = passed.take().and_then(|frame| quirk.says(frame, around));
        });
        if let Some(frame) = passed.filter(|frame| !Around::is_own(frame)) {
            self.wire.faults.outgoing(self.now(), frame);
        }
        self.settle();
    }

    /// The agent says something.
    fn heard(&mut self, frame: Frame) {
        self.wire.faults.incoming(self.now(), frame);
        self.settle();
    }

    /// What came through the faults reaches the client, unless a quirk takes it.
    fn deliver(&mut self, frame: Frame) {
        let asked = self.requests.heard(&frame);
        let mut passed = Some(frame);
        self.quirks(|quirk, around| {
            around.request = asked.clone();
            passed = passed.take().and_then(|frame| quirk.hears(frame, around));
        });
        if let Some(frame) = passed {
            self.to_client.push(Piece::Line(frame.raw().clone()));
        }
    }

    /// Lets each quirk do something, and then what the quirks want.
    fn quirks(&mut self, mut act: impl FnMut(&mut dyn WireQuirk, &mut Around<'_>)) {
        let mut around = Around::new(&self.wire.workspace);
        {
            let mut quirks = self.wire.quirks.lock().unwrap_or_else(PoisonError::into_inner);
            quirks.iter_mut().for_each(|quirk| act(quirk.as_mut(), &mut around));
        }
        let Around { to_client, to_agent, ended, .. } = around;
        self.ended = self.ended.or(ended);
        for frame in to_agent {
            self.wire.faults.outgoing(self.now(), frame);
        }
        for frame in to_client {
            self.requests.heard(&frame);
            self.to_client.push(Piece::Line(frame.raw().clone()));
        }
    }

    fn notices_the_end(&self) -> bool {
        let quirks = self.wire.quirks.lock().unwrap_or_else(PoisonError::into_inner);
        quirks.iter().all(|quirk| quirk.notices_end())
    }

    /// Carries out what the faults came to.
    fn settle(&mut self) {
        while let Some(passage) = self.wire.faults.poll() {
            match passage {
                Passage::Deliver(frame) => self.deliver(frame),
                Passage::Send(frame) => self.to_agent.push(Piece::Line(frame.raw().clone())),
                Passage::Raw(bytes) => self.to_agent.push(Piece::Raw(bytes)),
                Passage::Exit(code) => self.ended = self.ended.or(Some(WireEnd::Crash(code))),
                Passage::Hangup => self.ended = self.ended.or(Some(WireEnd::Hangup)),
                // The files of clients have none of these: they are refused when they are read.
                Passage::Stderr(_) | Passage::Child | Passage::Grandchild(_) => {}
            }
        }
    }
}
