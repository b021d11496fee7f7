//! An agent with its faults.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use acp_rpc::Frame;

use crate::agent::{Agent, AgentConfig, AgentEffect, SessionRecord, Token};
use crate::faults::{Fault, Faults, Passage};
use crate::misbehaviour::{self, Around, Misbehaviour, MockQuirks};
use crate::switch::Switch;

/// The agent of one connection, seen through its faults. Drive it as you would drive an [`Agent`].
pub struct MockAgent {
    agent: Agent,
    switches: BTreeSet<Switch>,
    misbehaviours: Vec<Box<dyn Misbehaviour>>,
    /// What the misbehaviours want done.
    effects: VecDeque<AgentEffect>,
    faults: Faults,
    now: Duration,
    /// How many lines ended with a carriage return and a newline, and whether the next frame is such a line.
    returns: u64,
    is_returned: bool,
}

impl MockAgent {
    /// A player that has heard nothing yet.
    pub fn new(config: AgentConfig, faults: &[Fault], seed: u64) -> Self {
        let mut faults = Faults::new(faults, seed);
        faults.start(Duration::ZERO);
        Self {
            agent: Agent::new(config),
            switches: BTreeSet::new(),
            misbehaviours: Vec::new(),
            effects: VecDeque::new(),
            faults,
            now: Duration::ZERO,
            returns: 0,
            is_returned: false,
        }
    }

    /// The same with an agent that is wrong in these ways too.
    #[must_use]
    pub fn wrong(mut self, switches: &[Switch]) -> Self {
        if !switches.is_empty() {
            self.switches.extend(switches);
            self.misbehaviours = self.switches.iter().copied().filter_map(misbehaviour::named).collect();
            self.agent.set_quirks(Box::new(MockQuirks::new(self.switches.iter().copied())));
        }
        self
    }

    /// The agent itself, for the answers of the world.
    pub fn agent(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// Takes how many of the client's lines ended with a carriage return and a newline, before the last of them is received.
    pub fn saw_returns(&mut self, lines: u64) {
        self.is_returned = lines > self.returns;
        self.returns = lines;
    }

    /// Takes one frame from the client.
    pub fn receive(&mut self, now: Duration, frame: &Frame) {
        self.now = self.now.max(now);
        if std::mem::take(&mut self.is_returned) && self.switches.contains(&Switch::IgnoresReturns) {
            return;
        }
        if self.faults.is_empty() {
            self.hear(frame);
        } else {
            self.faults.incoming(now, frame.clone());
        }
    }

    /// Passes a frame to the agent, through what is wrong with it.
    fn hear(&mut self, frame: &Frame) {
        if self.misbehaviours.is_empty() {
            return self.agent.receive(self.now, frame);
        }
        let mut passed = Some(frame.clone());
        self.each(|misbehaviour, around| {
            passed = passed.take().and_then(|frame| misbehaviour.incoming(frame, around));
        });
        if let Some(frame) = passed {
            self.agent.receive(self.now, &frame);
        }
    }

    /// The answer to [`AgentEffect::FetchSession`].
    pub fn session_fetched(&mut self, token: Token, id: &str, mut record: Option<SessionRecord>) {
        let mut passes = true;
        self.each(|misbehaviour, around| passes &= misbehaviour.fetched(token, record.as_mut(), around));
        if passes {
            self.agent.session_fetched(token, id, record);
        }
    }

    /// The answer to [`AgentEffect::ListSessions`].
    pub fn sessions_listed(&mut self, token: Token, records: Vec<SessionRecord>) {
        self.agent.sessions_listed(token, records);
        self.each(|misbehaviour, around| misbehaviour.listed(around));
    }

    fn each(&mut self, mut act: impl FnMut(&mut dyn Misbehaviour, &mut Around<'_>)) {
        let mut around = Around { agent: &mut self.agent, now: self.now, effects: &mut self.effects };
        for misbehaviour in &mut self.misbehaviours {
            act(misbehaviour.as_mut(), &mut around);
        }
    }

    /// The client has ended its output. Whether the agent shall go on nevertheless.
    pub fn end(&mut self, now: Duration) -> bool {
        self.now = self.now.max(now);
        self.faults.end(now);
        self.switches.contains(&Switch::SurvivesEnd)
            || (self.switches.contains(&Switch::SurvivesEndInTurn) && self.agent.busy())
    }

    /// Lets the time pass.
    pub fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
        self.faults.tick(now);
        self.agent.tick(now);
    }

    /// When [`MockAgent::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Duration> {
        [self.agent.next_deadline(), self.faults.next_deadline()].into_iter().flatten().min()
    }

    /// The next thing to do, if there is one.
    pub fn poll_effect(&mut self) -> Option<AgentEffect> {
        if self.faults.is_empty() {
            return self.next_effect();
        }
        loop {
            match self.faults.poll() {
                Some(Passage::Deliver(frame)) => self.hear(&frame),
                Some(Passage::Send(frame)) => return Some(AgentEffect::Send(frame)),
                Some(Passage::Raw(bytes)) => return Some(AgentEffect::SendRaw(bytes)),
                Some(Passage::Stderr(bytes)) => return Some(AgentEffect::Stderr(bytes)),
                Some(Passage::Exit(code)) => return Some(AgentEffect::Exit(code)),
                Some(Passage::Hangup) => return Some(AgentEffect::Hangup),
                Some(Passage::Child) => return Some(AgentEffect::LeaveChild),
                Some(Passage::Grandchild(text)) => return Some(AgentEffect::Grandchild(text)),
                None => match self.next_effect()? {
                    AgentEffect::Send(frame) => self.faults.outgoing(self.now, frame),
                    other => return Some(other),
                },
            }
        }
    }

    /// The agent's next effect, seen through what is wrong with it.
    fn next_effect(&mut self) -> Option<AgentEffect> {
        loop {
            if let Some(effect) = self.effects.pop_front() {
                return Some(effect);
            }
            let mut effect = Some(self.agent.poll_effect()?);
            if !self.misbehaviours.is_empty() {
                self.each(|misbehaviour, around| {
                    effect = effect.take().and_then(|effect| misbehaviour.outgoing(effect, around));
                });
            }
            if effect.is_some() {
                return effect;
            }
        }
    }
}
