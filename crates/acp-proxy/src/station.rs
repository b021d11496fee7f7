//! The way between a client and its agent when a desk, or faults, stand on it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use acp_dialect::Side;
use acp_link::{Arrival, Link, Sender, TrySendError};
use acp_relay::Gate;
use acp_rpc::{Frame, Line};
use acp_script::faults::{Fault, FaultAction, Faults, Passage};
use bytes::Bytes;

use crate::desk::{Desk, Handling};
use crate::talk::{Level, Talk};

/// Lines that wait inside this process.
const BURST: usize = 256;

/// The agent's link, behind the desk. Both speak v1. Must be called inside a runtime.
pub(crate) fn behind(agent: Link, desk: Desk, talk: Talk, number: u64) -> Link {
    let (ours, client) = acp_link::memory(BURST);
    let duties = &desk.office.duties;
    let faults = (!duties.faults.is_empty()).then(|| Faults::new(&duties.faults, duties.seed));
    let station = Station {
        client,
        agent,
        desk,
        faults,
        began: Instant::now(),
        to_client: VecDeque::new(),
        to_agent: VecDeque::new(),
        piece: Vec::new(),
        over: None,
        talk,
        number,
    };
    tokio::spawn(station.run());
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

struct Station {
    client: Link,
    agent: Link,
    desk: Desk,
    faults: Option<Faults>,
    began: Instant,
    to_client: VecDeque<Bytes>,
    to_agent: VecDeque<Bytes>,
    /// The beginning of a line for the client that a fault has written in pieces.
    piece: Vec<u8>,
    /// The end, after what waits for the client.
    over: Option<String>,
    talk: Talk,
    number: u64,
}

impl Station {
    async fn run(mut self) {
        if let Some(faults) = &mut self.faults {
            faults.start(Duration::ZERO);
        }
        let (mut client_ended, mut agent_ended) = (false, false);
        let (mut heard, mut said) = (Vec::new(), Vec::new());
        let gate = self.desk.observers.gate().cloned();
        loop {
            self.settle();
            let gone = drain(&self.client.tx, &mut self.to_client).is_err();
            // An agent that does not listen may still talk.
            let deaf = drain(&self.agent.tx, &mut self.to_agent).is_err();
            if deaf {
                self.to_agent.clear();
            }
            if gone || (self.to_client.is_empty() && (agent_ended || self.over.is_some())) {
                break;
            }
            let deadline = self.faults.as_ref().and_then(Faults::next_deadline).map(|at| self.began + at);
            let (wait_client, wait_agent) = (!self.to_client.is_empty(), !self.to_agent.is_empty());
            let shut = gate.as_deref().filter(|gate| !gate.is_open());
            tokio::select! {
                biased;
                _ = self.client.tx.ready(), if wait_client => {}
                _ = self.agent.tx.ready(), if wait_agent => {}
                count = self.client.rx.recv_many(&mut heard, BURST), if !client_ended && !wait_agent => {
                    client_ended = count == 0;
                    heard.drain(..).for_each(|arrival| self.client_says(arrival));
                    if client_ended {
                        self.end_input();
                    }
                }
                count = self.agent.rx.recv_many(&mut said, BURST),
                    if !agent_ended && !wait_client && shut.is_none() =>
                {
                    agent_ended = count == 0;
                    said.drain(..).for_each(|arrival| self.agent_says(arrival));
                    if agent_ended && !self.piece.is_empty() {
                        let line = std::mem::take(&mut self.piece);
                        self.pass_line(line.into());
                    }
                }
                () = opened(shut), if shut.is_some() => {}
                () = sleep_until(deadline), if deadline.is_some() => {
                    let now = self.began.elapsed();
                    if let Some(faults) = &mut self.faults {
                        faults.tick(now);
                    }
                }
            }
        }
        if let Some(why) = &self.over {
            self.talk.tell(Level::Warn, self.number, why, &[]);
        }
        let Station { client, agent, desk, .. } = self;
        drop(desk);
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
        self.desk.observers.frame(Side::Client, Instant::now(), &frame);
        let frame = match self.desk.client_says(&frame) {
            Handling::Pass => frame,
            Handling::Instead(line) => Frame::parse(line),
            Handling::Back(answer) => return self.put(&answer, true),
            Handling::Stop(why) => return self.over = Some(why),
        };
        match &mut self.faults {
            Some(faults) => faults.incoming(self.began.elapsed(), frame),
            None => self.to_agent.push_back(frame.raw().clone()),
        }
    }

    fn agent_says(&mut self, arrival: Arrival) {
        let Some(line) = self.whole(arrival.line) else { return };
        match &mut self.faults {
            Some(faults) => faults.outgoing(self.began.elapsed(), Frame::parse(line)),
            None if self.desk.observers.interest().frames || self.desk.may_concern(&line) => {
                self.decide(&Frame::parse(line));
            }
            None => self.put(&line, true),
        }
    }

    /// A frame of the agent, as it came through the faults.
    fn decide(&mut self, frame: &Frame) {
        match self.desk.agent_says(frame) {
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
                Passage::ToAgent(frame) => self.to_agent.push_back(frame.raw().clone()),
                Passage::Stderr(line) => self.talk.about(self.number, &String::from_utf8_lossy(&line)),
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
        if self.desk.observers.interest().frames {
            return self.pass(&Frame::parse(line));
        }
        self.desk.passed += 1;
        self.to_client.push_back(line);
    }

    /// A frame for the client.
    fn pass(&mut self, frame: &Frame) {
        self.desk.observers.frame(Side::Agent, Instant::now(), frame);
        self.desk.passed += 1;
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

async fn sleep_until(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline.into()).await;
    }
}
