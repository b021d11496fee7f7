//! One launch on the runner's side: its record, its frames, and the judge that reads along.

use std::time::{Duration, Instant};

use acp_comply::{FindingRef, Side};
use acp_rpc::{Direction, Frame, Splitter};
use acp_rules::{ConversationEnd, Judge, JudgeConfig, SessionHistory};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::launches::LaunchOrder;

/// The longest line that is taken whole, from either side.
const LINE_LIMIT: usize = 64 << 20;

/// A launch of the agent.
pub(crate) struct LaunchWire {
    /// What is known of it.
    pub record: Value,
    orders: mpsc::UnboundedSender<LaunchOrder>,
    began: Instant,
    heard: Splitter,
    said: Splitter,
    judge: Judge,
    /// The conversation whole, where transcripts are kept.
    transcript: Option<Vec<u8>>,
    /// We told it to exit.
    was_told_to_exit: bool,
    is_gone: bool,
}

impl LaunchWire {
    /// `history` is what earlier launches left.
    pub fn new(
        record: Value,
        orders: mpsc::UnboundedSender<LaunchOrder>,
        began: Instant,
        history: SessionHistory,
        keeps: bool,
    ) -> LaunchWire {
        LaunchWire {
            record,
            orders,
            began,
            heard: Splitter::new(LINE_LIMIT),
            said: Splitter::new(LINE_LIMIT),
            judge: Judge::after(JudgeConfig::default(), history),
            transcript: keeps.then(Vec::new),
            was_told_to_exit: false,
            is_gone: false,
        }
    }

    /// What the judge knows of the sessions so far, for the next launch.
    pub fn take_history(&mut self) -> SessionHistory {
        self.judge.take_history()
    }

    /// Takes in what the client wrote, and gives its lines back.
    pub fn hears(&mut self, bytes: &[u8]) -> Vec<Frame> {
        self.heard.push(bytes);
        let mut frames = Vec::new();
        while let Some(line) = self.heard.next_line() {
            frames.push(Frame::from(line));
        }
        if self.heard.saw_bom() {
            self.judge.saw_mark(self.began.elapsed(), Direction::ClientToAgent);
        }
        frames.iter().for_each(|frame| self.observe(Direction::ClientToAgent, frame));
        frames
    }

    /// The client writes no more; a last line without its end is given back.
    pub fn input_ended(&mut self) -> Option<Frame> {
        let last = self.heard.finish().map(Frame::from);
        if let Some(frame) = &last {
            self.observe(Direction::ClientToAgent, frame);
        }
        self.judge.input_ended(self.began.elapsed());
        self.record["eof"] = json!(true);
        self.ended_by("eof");
        last
    }

    /// A signal reached it.
    pub fn signalled(&mut self, name: &str) {
        if let Some(signals) = self.record["signals"].as_array_mut() {
            signals.push(json!(name));
        }
        self.ended_by("signal");
    }

    /// It is there no longer.
    pub fn vanished(&mut self) {
        self.is_gone = true;
        self.record["gone"] = json!(true);
        if !self.was_told_to_exit {
            self.ended_by("kill");
        }
    }

    /// Writes to the client.
    pub fn says(&mut self, bytes: Bytes) {
        if self.is_gone {
            return;
        }
        self.said.push(&bytes);
        while let Some(line) = self.said.next_line() {
            self.observe(Direction::AgentToClient, &Frame::from(line));
        }
        self.order(LaunchOrder::Output(bytes));
    }

    /// Does anything else.
    pub fn order(&mut self, order: LaunchOrder) {
        self.was_told_to_exit |= matches!(order, LaunchOrder::Exit(_));
        let _ = self.orders.send(order);
    }

    /// Everything that the judge has found so far, against either side.
    pub fn findings(&self) -> impl Iterator<Item = FindingRef> + '_ {
        self.judge.findings().iter().flat_map(FindingRef::of)
    }

    /// Closes the judge, and says which requirements the conversation put to the test.
    pub fn close(&mut self) -> Vec<String> {
        let ending =
            if self.was_told_to_exit { ConversationEnd::AgentExited } else { ConversationEnd::ClientLeft };
        self.judge.set_ending(ending);
        self.judge.close(self.began.elapsed());
        let coverage = self.judge.coverage();
        coverage.rows.iter().filter(|row| row.exercised()).map(|row| row.requirement.to_owned()).collect()
    }

    /// The conversation, where it was kept.
    pub fn take_transcript(&mut self) -> Option<Vec<u8>> {
        self.transcript.take()
    }

    fn ended_by(&mut self, what: &str) {
        if self.record.get("endedBy").is_none() {
            self.record["endedBy"] = json!(what);
        }
    }

    fn observe(&mut self, direction: Direction, frame: &Frame) {
        let at: Duration = self.began.elapsed();
        if let Some(transcript) = &mut self.transcript {
            acp_rpc::transcript::write_entry(at, direction, frame.raw(), transcript);
            transcript.push(b'\n');
        }
        self.judge.observe(at, direction, frame);
    }
}

/// Findings on one side.
pub(crate) fn against(side: Side) -> impl Fn(&FindingRef) -> bool {
    move |finding| finding.blame == side
}
