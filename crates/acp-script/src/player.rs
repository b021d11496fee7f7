//! An agent with its faults.

use std::time::Duration;

use acp_rpc::Frame;

use crate::agent::{Agent, AgentConfig, Effect};
use crate::faults::{Fault, Faults, Passage};
use crate::switch::Switch;

/// The agent of one connection, seen through its faults. Drive it as you would drive an [`Agent`].
pub struct Player {
    agent: Agent,
    faults: Faults,
    now: Duration,
    survives_end: bool,
    survives_in_turn: bool,
    ignores_returns: bool,
    /// How many lines ended with a carriage return and a newline, and whether the next frame is such a line.
    returns: u64,
    is_returned: bool,
}

impl Player {
    /// A player that has heard nothing yet.
    pub fn new(config: AgentConfig, faults: &[Fault], seed: u64) -> Self {
        let survives_end = config.switches.contains(&Switch::SurvivesEnd);
        let survives_in_turn = config.switches.contains(&Switch::SurvivesEndInTurn);
        let ignores_returns = config.switches.contains(&Switch::IgnoresReturns);
        let mut faults = Faults::new(faults, seed);
        faults.start(Duration::ZERO);
        Self {
            agent: Agent::new(config),
            faults,
            now: Duration::ZERO,
            survives_end,
            survives_in_turn,
            ignores_returns,
            returns: 0,
            is_returned: false,
        }
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
        if std::mem::take(&mut self.is_returned) && self.ignores_returns {
            return;
        }
        if self.faults.is_empty() {
            self.agent.receive(now, frame);
        } else {
            self.faults.incoming(now, frame.clone());
        }
    }

    /// The client has ended its output. Whether the agent shall go on nevertheless.
    pub fn end(&mut self, now: Duration) -> bool {
        self.now = self.now.max(now);
        self.faults.end(now);
        self.survives_end || (self.survives_in_turn && self.agent.busy())
    }

    /// Lets the time pass.
    pub fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
        self.faults.tick(now);
        self.agent.tick(now);
    }

    /// When [`Player::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Duration> {
        [self.agent.next_deadline(), self.faults.next_deadline()].into_iter().flatten().min()
    }

    /// The next thing to do, if there is one.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if self.faults.is_empty() {
            return self.agent.poll_effect();
        }
        loop {
            match self.faults.poll() {
                Some(Passage::ToAgent(frame)) => self.agent.receive(self.now, &frame),
                Some(Passage::Send(frame)) => return Some(Effect::Send(frame)),
                Some(Passage::Raw(bytes)) => return Some(Effect::SendRaw(bytes)),
                Some(Passage::Stderr(bytes)) => return Some(Effect::Stderr(bytes)),
                Some(Passage::Exit(code)) => return Some(Effect::Exit(code)),
                Some(Passage::Hangup) => return Some(Effect::Hangup),
                Some(Passage::Child) => return Some(Effect::LeaveChild),
                Some(Passage::Grandchild(text)) => return Some(Effect::Grandchild(text)),
                None => match self.agent.poll_effect()? {
                    Effect::Send(frame) => self.faults.outgoing(self.now, frame),
                    other => return Some(other),
                },
            }
        }
    }
}
