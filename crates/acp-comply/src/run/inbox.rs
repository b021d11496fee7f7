//! Everything the agent said, kept within bounds.

use super::RunLimits;
use crate::program::MessageKind;
use crate::results::TranscriptLine;
use acp_rpc::{Direction, Frame, Id, View};
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;

/// One message of the agent.
#[derive(Debug)]
pub(super) struct Message {
    pub at: Duration,
    pub kind: MessageKind,
    pub value: Value,
    pub id: Option<Id>,
    pub method: Option<String>,
    /// The launch of the agent that it came to, in a test of a client.
    pub launch: u32,
    /// An expectation took it.
    pub consumed: bool,
    /// The same with the whole text in place of its piece, when it is the latest piece of a text.
    pub joined: Option<Box<Value>>,
}

#[derive(Debug)]
pub(super) struct Inbox {
    limits: RunLimits,
    messages: Vec<Message>,
    bytes: usize,
    head: Vec<TranscriptLine>,
    tail: VecDeque<TranscriptLine>,
    elided: usize,
    /// Lines that are no messages: how many, and the first of them.
    pub noise: usize,
    pub first_noise: Option<String>,
}

impl Inbox {
    pub fn new(limits: RunLimits) -> Inbox {
        Inbox {
            limits,
            messages: Vec::new(),
            bytes: 0,
            head: Vec::new(),
            tail: VecDeque::new(),
            elided: 0,
            noise: 0,
            first_noise: None,
        }
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub fn consume(&mut self, index: usize) {
        if let Some(message) = self.messages.get_mut(index) {
            message.consumed = true;
        }
    }

    /// The message no longer has the latest piece of its text.
    pub fn part(&mut self, index: usize) {
        if let Some(message) = self.messages.get_mut(index) {
            message.joined = None;
        }
    }

    /// Keeps a message; `false` when the agent has said more than is kept.
    pub fn push(&mut self, message: Message, size: usize) -> bool {
        if self.messages.len() >= self.limits.messages || self.bytes + size > self.limits.bytes {
            return false;
        }
        self.bytes += size;
        self.messages.push(message);
        true
    }

    /// Records a line of the conversation.
    pub fn record(&mut self, at: Duration, dir: Direction, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let shown: String = text.chars().take(self.limits.line).collect();
        let cut = text.len() - shown.len();
        let text = if cut > 0 { format!("{shown}… ({cut} bytes more)") } else { shown };
        let line = TranscriptLine { at_ms: millis(at), dir, text };
        if self.head.len() < self.limits.transcript {
            self.head.push(line);
            return;
        }
        self.tail.push_back(line);
        if self.tail.len() > self.limits.transcript {
            self.tail.pop_front();
            self.elided += 1;
        }
    }

    /// The kept lines and how many are missing between them.
    pub fn transcript(&mut self) -> (Vec<TranscriptLine>, usize) {
        let mut lines = std::mem::take(&mut self.head);
        lines.extend(std::mem::take(&mut self.tail));
        (lines, self.elided)
    }
}

/// A duration in milliseconds, to the microsecond.
pub(super) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// What kind of message a frame is, read liberally: the judge reports what is wrong with it.
pub(super) fn kind_of(frame: &Frame) -> Option<MessageKind> {
    match frame.view() {
        View::Request { .. } => Some(MessageKind::ClientRequest),
        View::Notification { .. } => Some(MessageKind::Notification),
        View::Response { .. } => Some(MessageKind::Response),
        View::Batch(_) => None,
        View::Malformed(_) => {
            if frame.method().is_some() {
                Some(if frame.id().is_some() {
                    MessageKind::ClientRequest
                } else {
                    MessageKind::Notification
                })
            } else if frame.result().is_some() || frame.error().is_some() {
                Some(MessageKind::Response)
            } else {
                None
            }
        }
    }
}
