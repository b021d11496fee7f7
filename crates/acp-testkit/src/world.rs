use std::collections::VecDeque;
use std::time::Duration;

use acp_rpc::transcript::TranscriptEntry;
use acp_rpc::{DEFAULT_LINE_LIMIT, Direction, Frame, Line, Splitter};
use bytes::Bytes;

use crate::{Chunking, Clock, Rng};

/// One side of a conversation: it reacts to lines and to time, and writes into a [`Mail`].
pub trait WorldSide {
    /// Called once, before anything else: the side that speaks first does it here.
    fn start(&mut self, _now: Duration, _mail: &mut Mail) {}
    /// A line came.
    fn receive(&mut self, now: Duration, line: Line, mail: &mut Mail);
    /// The other side will send nothing more.
    fn ended(&mut self, _now: Duration, _mail: &mut Mail) {}
    /// The time that [`WorldSide::next_deadline`] named has come.
    fn tick(&mut self, _now: Duration, _mail: &mut Mail) {}
    /// When to wake this side, if it waits for anything.
    fn next_deadline(&mut self) -> Option<Duration> {
        None
    }
}

/// A closure is a side that only answers.
impl<F: FnMut(Duration, Line, &mut Mail)> WorldSide for F {
    fn receive(&mut self, now: Duration, line: Line, mail: &mut Mail) {
        self(now, line, mail);
    }
}

/// What a side sends.
#[derive(Debug, Default)]
pub struct Mail {
    bytes: Vec<u8>,
    closed: bool,
}

impl Mail {
    /// Sends a frame as a line.
    pub fn send(&mut self, frame: &Frame) {
        self.raw(frame.raw());
        self.raw(b"\n");
    }

    /// Sends bytes as they are, line ending or not.
    pub fn raw(&mut self, bytes: &[u8]) {
        if !self.closed {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Sends nothing more after this.
    pub fn close(&mut self) {
        self.closed = true;
    }
}

/// Two sides, the bytes between them, and a clock that jumps to the next deadline when nothing else happens.
///
/// ```
/// use acp_rpc::{Frame, Id, Line};
/// use acp_testkit::{Chunking, Mail, World};
/// use std::time::Duration;
///
/// let client = |_: Duration, _: Line, mail: &mut Mail| mail.close();
/// let agent = |_: Duration, line: Line, mail: &mut Mail| {
///     let frame = Frame::from(line);
///     mail.send(&Frame::response(frame.id().unwrap(), &"pong"));
/// };
/// let mut world = World::new(client, agent).chunked(Chunking::seeded(7));
/// world.client_mail().send(&Frame::request(&Id::Int(1), "ping", &()));
/// let played = world.play();
/// assert_eq!(played.transcript.len(), 2);
/// ```
#[derive(Debug)]
pub struct World<C, A> {
    client: C,
    agent: A,
    to_agent: Lane,
    to_client: Lane,
    clock: Clock,
    chunking: Chunking,
    turns: Rng,
    most_steps: usize,
    started: bool,
    transcript: Vec<TranscriptEntry>,
}

/// How a [`World`] came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorldEnd {
    /// Nothing travels, and nobody waits for a time.
    Quiet,
    /// It went on for too many steps: the sides probably keep each other busy for ever.
    TooLong,
}

/// What happened in a [`World`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldOutcome {
    /// Every line in the order of its arrival.
    pub transcript: Vec<TranscriptEntry>,
    /// How it came to rest.
    pub ended: WorldEnd,
    /// The time at the end.
    pub now: Duration,
}

/// The bytes on their way to one side.
#[derive(Debug)]
struct Lane {
    mail: Mail,
    flying: VecDeque<u8>,
    splitter: Splitter,
    ended: bool,
}

impl<C: WorldSide, A: WorldSide> World<C, A> {
    /// A world where bytes arrive as they were sent.
    pub fn new(client: C, agent: A) -> Self {
        Self {
            client,
            agent,
            to_agent: Lane::new(),
            to_client: Lane::new(),
            clock: Clock::default(),
            chunking: Chunking::Whole,
            turns: Rng::new(0),
            most_steps: 1_000_000,
            started: false,
            transcript: Vec::new(),
        }
    }

    /// The same world with its bytes cut in another way, and its turns shuffled when the way is seeded.
    #[must_use]
    pub fn chunked(mut self, chunking: Chunking) -> Self {
        if let Chunking::Seeded(rng) = &chunking {
            self.turns = Rng::new(rng.clone().next_u64());
        }
        self.chunking = chunking;
        self
    }

    /// The same world with another bound on its steps (one million).
    #[must_use]
    pub fn at_most(mut self, steps: usize) -> Self {
        self.most_steps = steps;
        self
    }

    /// What the client sends before the first step.
    pub fn client_mail(&mut self) -> &mut Mail {
        &mut self.to_agent.mail
    }

    /// What the agent sends before the first step.
    pub fn agent_mail(&mut self) -> &mut Mail {
        &mut self.to_client.mail
    }

    /// The two sides as they are now.
    pub fn sides(&mut self) -> (&mut C, &mut A) {
        (&mut self.client, &mut self.agent)
    }

    /// Plays until nothing moves any more. May be called again after more mail.
    pub fn play(&mut self) -> WorldOutcome {
        if !std::mem::replace(&mut self.started, true) {
            self.client.start(self.clock.now(), &mut self.to_agent.mail);
            self.agent.start(self.clock.now(), &mut self.to_client.mail);
        }
        for _ in 0..self.most_steps {
            if !self.step() {
                return self.played(WorldEnd::Quiet);
            }
        }
        self.played(WorldEnd::TooLong)
    }

    fn played(&self, ended: WorldEnd) -> WorldOutcome {
        WorldOutcome { transcript: self.transcript.clone(), ended, now: self.clock.now() }
    }

    /// One delivery or one jump of the clock; false when there is neither.
    fn step(&mut self) -> bool {
        let agent_first = self.turns.one_in(2);
        for to_agent in [agent_first, !agent_first] {
            if self.deliver(to_agent) {
                return true;
            }
        }
        self.wake()
    }

    fn deliver(&mut self, to_agent: bool) -> bool {
        let now = self.clock.now();
        let (lane, dir) = if to_agent {
            (&mut self.to_agent, Direction::ClientToAgent)
        } else {
            (&mut self.to_client, Direction::AgentToClient)
        };
        let arrivals = lane.advance(&mut self.chunking);
        let Some((lines, ended)) = arrivals else { return false };
        for line in lines {
            let recorded = Bytes::copy_from_slice(line.bytes());
            self.transcript.push(TranscriptEntry { t: now, dir, line: recorded });
            if to_agent {
                self.agent.receive(now, line, &mut self.to_client.mail);
            } else {
                self.client.receive(now, line, &mut self.to_agent.mail);
            }
        }
        if ended && to_agent {
            self.agent.ended(now, &mut self.to_client.mail);
        } else if ended {
            self.client.ended(now, &mut self.to_agent.mail);
        }
        true
    }

    fn wake(&mut self) -> bool {
        let (client, agent) = (self.client.next_deadline(), self.agent.next_deadline());
        let Some(next) = client.into_iter().chain(agent).min() else { return false };
        let now = self.clock.reach(next);
        if client.is_some_and(|at| at <= now) {
            self.client.tick(now, &mut self.to_agent.mail);
        }
        if agent.is_some_and(|at| at <= now) {
            self.agent.tick(now, &mut self.to_client.mail);
        }
        true
    }
}

impl Lane {
    fn new() -> Self {
        Self {
            mail: Mail::default(),
            flying: VecDeque::new(),
            splitter: Splitter::new(DEFAULT_LINE_LIMIT),
            ended: false,
        }
    }

    /// Moves one chunk; the lines it completed, and whether the stream ended with it.
    fn advance(&mut self, chunking: &mut Chunking) -> Option<(Vec<Line>, bool)> {
        self.flying.extend(self.mail.bytes.drain(..));
        if self.flying.is_empty() {
            if !self.mail.closed || self.ended {
                return None;
            }
            self.ended = true;
            return Some((self.splitter.finish().into_iter().collect(), true));
        }
        let size = chunking.next(self.flying.len());
        let chunk: Vec<u8> = self.flying.drain(..size).collect();
        self.splitter.push(&chunk);
        Some((std::iter::from_fn(|| self.splitter.next_line()).collect(), false))
    }
}
