//! What stands between a relay and its agent where something decides about lines, or faults are injected.
//!
//! It is a hop of its own, there only when something is to be decided; otherwise the relay's path is untouched. Where
//! it stands, frames are observed there, parsed once, so that a decision has its place among the updates.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_dialect::Side;
use acp_driver::{Machine, Output, drive};
use acp_link::{Arrival, Link, LinkClosed, Receiver, Sender, TrySendError};
use acp_relay::Gate;
use acp_rpc::{Frame, Line};
use acp_script::faults::{Fault, FaultAction, Faults, Passage};
use bytes::Bytes;

use crate::gatekeeper::{Gatekeeper, Handling};
use crate::log::ConversationLog;
use tracing::Level;

/// Lines that wait inside this process.
const BURST: usize = 256;

/// The agent's link, behind the gatekeeper. Both speak v1. Must be called inside a runtime.
pub(crate) fn behind(agent: Link, gatekeeper: Gatekeeper, logs: ConversationLog, number: u64) -> Link {
    let (ours, client) = acp_link::memory(BURST);
    let duties = &gatekeeper.shared.duties;
    let faults = (!duties.faults.is_empty()).then(|| Faults::new(&duties.faults, duties.seed));
    let interceptor = Interceptor {
        gate: gatekeeper.observers.gate().cloned(),
        agent,
        gatekeeper,
        faults,
        began: Instant::now(),
        said: Vec::new(),
        to_client: VecDeque::new(),
        to_agent: VecDeque::new(),
        piece: Vec::new(),
        agent_ended: false,
        over: None,
        logs,
        number,
    };
    tokio::spawn(interceptor.run(client));
    ours
}

/// Why a fault cannot be done by a proxy.
#[must_use]
pub fn impossible(fault: &Fault) -> Option<&'static str> {
    fault.r#do.iter().find_map(|action| match action {
        FaultAction::Child | FaultAction::Grandchild(_) => Some("a proxy has no child of an agent to start"),
        _ => None,
    })
}

/// A machine whose link goes to the client's relay. It has the agent's link itself.
struct Interceptor {
    agent: Link,
    gatekeeper: Gatekeeper,
    faults: Option<Faults>,
    began: Instant,
    /// Lines of the agent that were just received.
    said: Vec<Arrival>,
    to_client: VecDeque<Bytes>,
    to_agent: VecDeque<Bytes>,
    /// The beginning of a line for the client that a fault has written in pieces.
    piece: Vec<u8>,
    agent_ended: bool,
    /// The end, after what waits for the client.
    over: Option<String>,
    /// While this is closed, the agent is not read.
    gate: Option<Arc<Gate>>,
    logs: ConversationLog,
    number: u64,
}

/// What happens beside the client's link.
enum Event {
    /// There may be room for what waits for the agent, or the agent may be read again.
    Ready,
    /// So many lines of the agent were received; none at the end of its output.
    Lines(usize),
}

impl Machine for Interceptor {
    type Event = Event;
    type Ending = ();

    fn receive(&mut self, arrival: Arrival, _: &Receiver) {
        self.client_says(arrival);
    }

    fn input_ended(&mut self, _: &Receiver) -> Option<()> {
        self.end_input();
        None
    }

    fn poll(&mut self) -> Output<()> {
        self.settle();
        if drain(&self.agent.tx, &mut self.to_agent).is_err() {
            // An agent that does not listen may still talk.
            self.to_agent.clear();
        }
        match self.to_client.pop_front() {
            Some(line) => Output::Line(line),
            None if self.agent_ended || self.over.is_some() => Output::End(()),
            None => Output::Idle,
        }
    }

    fn next_deadline(&mut self, _: bool) -> Option<Instant> {
        self.faults.as_ref().and_then(Faults::next_deadline).map(|at| self.began + at)
    }

    fn tick(&mut self) {
        let now = self.began.elapsed();
        if let Some(faults) = &mut self.faults {
            faults.tick(now);
        }
    }

    async fn event(&mut self, is_free: bool) -> Event {
        let shut = self.gate.as_deref().filter(|gate| !gate.is_open());
        let hears = is_free && self.to_client.is_empty() && !self.agent_ended;
        tokio::select! {
            biased;
            _ = self.agent.tx.ready(), if !self.to_agent.is_empty() => Event::Ready,
            count = self.agent.rx.recv_many(&mut self.said, BURST), if hears && shut.is_none() => {
                Event::Lines(count)
            }
            () = opened(shut), if shut.is_some() => Event::Ready,
            else => std::future::pending().await,
        }
    }

    fn happened(&mut self, event: Event) {
        let Event::Lines(count) = event else { return };
        let mut said = std::mem::take(&mut self.said);
        said.drain(..).for_each(|arrival| self.agent_says(arrival));
        self.said = said;
        self.agent_ended = count == 0;
        if self.agent_ended && !self.piece.is_empty() {
            let line = std::mem::take(&mut self.piece);
            self.pass_line(line.into());
        }
    }

    fn reads(&self) -> bool {
        self.to_agent.is_empty()
    }

    fn unwritable(&mut self, _: LinkClosed, _: bool) -> Option<()> {
        Some(())
    }
}

impl Interceptor {
    /// Passes lines on until one side is gone.
    async fn run(mut self, mut client: Link) {
        if let Some(faults) = &mut self.faults {
            faults.start(Duration::ZERO);
        }
        drive(&mut client, &mut self).await;
        if let Some(why) = &self.over {
            self.logs.tell(Level::WARN, self.number, why);
        }
        let Interceptor { agent, gatekeeper, .. } = self;
        drop(gatekeeper);
        let _ = client.tx.finish().await;
        drop((client.rx, agent));
    }

    fn end_input(&mut self) {
        let now = self.began.elapsed();
        if let Some(faults) = &mut self.faults {
            faults.end(now);
            self.settle();
        }
        let _ = drain(&self.agent.tx, &mut self.to_agent);
        self.agent.tx.close();
    }

    fn client_says(&mut self, arrival: Arrival) {
        let Some(line) = self.whole(arrival.line) else { return };
        let frame = Frame::parse(line);
        self.gatekeeper.observers.frame(Side::Client, Instant::now(), &frame);
        let changed = match self.gatekeeper.client_says(&frame) {
            Handling::Pass => None,
            Handling::Instead(line) => Some(line),
            Handling::Back(answer) => return self.put(&answer, true),
            Handling::Stop(why) => return self.over = Some(why),
        };
        match &mut self.faults {
            Some(faults) => faults.incoming(self.began.elapsed(), changed.map_or(frame, Frame::parse)),
            None => self.to_agent.push_back(changed.unwrap_or_else(|| frame.raw().clone())),
        }
    }

    fn agent_says(&mut self, arrival: Arrival) {
        let Some(line) = self.whole(arrival.line) else { return };
        match &mut self.faults {
            Some(faults) => faults.outgoing(self.began.elapsed(), Frame::parse(line)),
            None if self.gatekeeper.observers.interest().frames || self.gatekeeper.may_concern(&line) => {
                self.decide(&Frame::parse(line));
            }
            None => self.put(&line, true),
        }
    }

    /// A frame of the agent, as it came through the faults.
    fn decide(&mut self, frame: &Frame) {
        match self.gatekeeper.agent_says(frame) {
            Handling::Pass if self.piece.is_empty() => self.pass(frame),
            Handling::Pass => self.put(frame.raw(), true),
            Handling::Instead(line) => self.put(&line, true),
            Handling::Back(answer) => self.to_agent.push_back(answer),
            Handling::Stop(why) => self.over = Some(why),
        }
    }

    /// Carries out what the faults came to.
    fn settle(&mut self) {
        while let Some(passage) = self.faults.as_mut().and_then(Faults::poll) {
            match passage {
                Passage::Send(frame) => self.decide(&frame),
                Passage::Raw(bytes) => self.put(&bytes, false),
                Passage::Deliver(frame) => self.to_agent.push_back(frame.raw().clone()),
                Passage::Stderr(line) => self.logs.about(self.number, &String::from_utf8_lossy(&line)),
                Passage::Exit(code) => self.over = Some(format!("a fault ends the agent (exit {code})")),
                Passage::Hangup => self.over = Some("a fault ends the connection".to_owned()),
                // Refused before we began.
                Passage::Child | Passage::Grandchild(_) => {}
            }
        }
    }

    /// Something for the client: a line, or any piece of one.
    fn put(&mut self, bytes: &Bytes, whole: bool) {
        if whole && self.piece.is_empty() {
            return self.pass_line(bytes.clone());
        }
        self.piece.extend_from_slice(bytes);
        if whole {
            self.piece.push(b'\n');
        }
        while let Some(end) = memchr::memchr(b'\n', &self.piece) {
            let rest = self.piece.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.piece, rest);
            line.pop();
            self.pass_line(line.into());
        }
    }

    /// A line for the client, which nobody has parsed yet. Nobody does if nobody observes frames.
    fn pass_line(&mut self, line: Bytes) {
        if self.gatekeeper.observers.interest().frames {
            return self.pass(&Frame::parse(line));
        }
        self.gatekeeper.passed += 1;
        self.to_client.push_back(line);
    }

    /// A frame for the client.
    fn pass(&mut self, frame: &Frame) {
        self.gatekeeper.observers.frame(Side::Agent, Instant::now(), frame);
        self.gatekeeper.passed += 1;
        self.to_client.push_back(frame.raw().clone());
    }

    fn whole(&mut self, line: Line) -> Option<Bytes> {
        match line {
            Line::Oversized { len, .. } => {
                self.over = Some(format!("a line of {len} bytes is too long to be passed on (--max-line)"));
                None
            }
            line => Some(line.bytes().clone()),
        }
    }
}

fn drain(tx: &Sender, waiting: &mut VecDeque<Bytes>) -> Result<(), ()> {
    while let Some(line) = waiting.front() {
        match tx.try_send(line) {
            Ok(()) => {
                waiting.pop_front();
            }
            Err(TrySendError::Full) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(()),
        }
    }
    Ok(())
}

async fn opened(gate: Option<&Gate>) {
    match gate {
        Some(gate) => gate.open().await,
        None => std::future::pending().await,
    }
}
