//! One connection of one test: the link, its writer, and the judge that reads along.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use acp_comply::FindingRef;
use acp_dialect::{Dialect, PassiveTranslator, Side, TranslationOptions};
use acp_link::child::{Child, StopStage};
use acp_link::{Link, Receiver, Sender};
use acp_rpc::{Direction, Frame, Line, Splitter, View};
use acp_rules::{ConversationEnd, Judge, JudgeConfig};
use bytes::Bytes;

use crate::target::Ended;

/// How long a connection is read after its input has ended when the agent is known not to end by itself.
const LISTEN: Duration = Duration::from_millis(150);

/// What an agent does when its input ends. Learnt once, by the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEof {
    /// It exits; this is how long that took.
    Exits(Duration),
    /// It has to be told, or killed.
    Stays,
}

/// How long the end of a connection is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parting {
    /// How long the agent's output is read after its input has ended.
    pub listen: Duration,
    /// How long its process may take to end, before it is told to, and again before it is killed.
    pub grace: Duration,
}

impl Parting {
    /// With what is known of the agent. `grace` is the longest wait.
    pub fn new(grace: Duration, known: Option<AtEof>) -> Parting {
        match known {
            None => Parting { listen: grace, grace },
            Some(AtEof::Exits(took)) => Parting { listen: (took * 4).clamp(LISTEN, grace), grace },
            Some(AtEof::Stays) => Parting { listen: LISTEN.min(grace), grace: LISTEN.min(grace) },
        }
    }
}

/// What belongs to a live connection besides its link.
pub(crate) struct Wire {
    pub child: Option<Child>,
    tx: Sender,
    judge: Judge,
    /// Says what passes in the judge's own form of the protocol, where the test is written in another.
    overhear: Option<PassiveTranslator>,
    /// Our own bytes, put together to lines again for the judge.
    sent: Splitter,
    began: Instant,
    /// We ended the agent's input: what it leaves open then is our doing.
    input_closed: bool,
    /// Every frame whole, in the form that `acp lint` reads; only where transcripts are kept.
    record: Option<Vec<u8>>,
    /// The record says where the input ended.
    told_end: bool,
    recorded: Duration,
}

/// What the judge of one connection has to say.
#[derive(Default)]
pub(crate) struct Judged {
    pub findings: Vec<FindingRef>,
    pub exercised: BTreeSet<String>,
    /// The conversation as a transcript, where it is kept.
    pub record: Option<Vec<u8>>,
    /// What the next connection of the test is held against.
    pub history: acp_rules::SessionHistory,
    /// A response came only after the agent's input had ended.
    pub answered_at_end: bool,
}

impl Wire {
    /// `dialect` is the form that the test is written in, when it is not the canonical one.
    /// `history` is what earlier connections of the test left.
    pub fn new(
        tx: Sender,
        child: Option<Child>,
        began: Instant,
        dialect: Option<Dialect>,
        history: acp_rules::SessionHistory,
    ) -> Wire {
        Wire {
            child,
            tx,
            judge: Judge::after(JudgeConfig::default(), history),
            overhear: dialect.map(|dialect| PassiveTranslator::new(dialect, overheard())),
            sent: Splitter::new(acp_rpc::DEFAULT_LINE_LIMIT),
            began,
            input_closed: false,
            record: None,
            told_end: false,
            recorded: Duration::ZERO,
        }
    }

    /// Keeps every frame from now on, whole.
    pub fn keep_record(&mut self) {
        self.record.get_or_insert_default();
    }

    /// Takes note of a line that is written.
    pub fn writes_line(&mut self, line: &Bytes) {
        self.sent.push(line);
        self.sent.push(b"\n");
        self.show_sent();
    }

    /// Takes note of bytes that are written as they are.
    pub fn writes_raw(&mut self, bytes: &Bytes) {
        self.sent.push(bytes);
        self.show_sent();
    }

    /// Takes note that the agent's input ends after what was written.
    pub fn closes_input(&mut self) {
        self.input_closed = true;
        self.input_ended();
    }

    /// Ends the agent's input after what was handed to the link.
    pub fn end_input(&self) {
        self.tx.close();
    }

    /// Tells the judge, and the readers of the record, that the client has nothing more to say.
    fn input_ended(&mut self) {
        self.judge.input_ended(self.began.elapsed());
        if let Some(record) = self.record.as_mut().filter(|_| !std::mem::replace(&mut self.told_end, true)) {
            beside_last(record, "\"inputEnded\":true");
        }
    }

    /// Takes note of a line from the agent and gives it back as a frame. `has_mark`: its output began with a byte order mark.
    pub fn heard(&mut self, at: Instant, line: Line, has_mark: bool) -> Frame {
        let frame = Frame::from(line);
        if has_mark {
            self.judge.saw_mark(at.saturating_duration_since(self.began), Direction::AgentToClient);
        }
        self.observe(at.saturating_duration_since(self.began), Side::Agent, &frame);
        frame
    }

    /// Shows a frame to the judge: the frame itself, or what it says in the judge's own form.
    fn observe(&mut self, at: Duration, from: Side, frame: &Frame) {
        let dir = from.sends();
        if let Some(record) = &mut self.record {
            // What was read before something was sent may be looked at after it: the order is what the judge saw.
            self.recorded = self.recorded.max(at);
            acp_rpc::transcript::write_entry(self.recorded, dir, frame.raw(), record);
            record.push(b'\n');
        }
        match &mut self.overhear {
            None => self.judge.observe(at, dir, frame),
            Some(overhear) => {
                overhear.hear(from, frame).iter().for_each(|frame| self.judge.observe(at, dir, frame));
            }
        }
    }

    fn show_sent(&mut self) {
        let at = self.began.elapsed();
        while let Some(line) = self.sent.next_line() {
            if self.sent.saw_bom() {
                self.judge.saw_mark(at, Direction::ClientToAgent);
            }
            self.observe(at, Side::Client, &Frame::from(line));
        }
    }

    /// Ends the agent's input and reads what still comes, so that late frames are judged too; then ends the process and
    /// collects the judge's findings.
    pub async fn end(mut self, link: Link, agent_went: bool, parting: Parting) -> (Judged, Option<Ended>) {
        let from = Instant::now();
        let Link { tx, mut rx } = link;
        let mut answered_at_end = false;
        if !agent_went {
            self.input_ended();
            tx.close();
            answered_at_end = self.listen(&mut rx, parting.listen).await;
        }
        // A test stops when it has seen enough: it says itself for which answers it waited in vain.
        let (ending, word) = match agent_went && !self.input_closed {
            true => (ConversationEnd::AgentExited, "agent-exited"),
            false => (ConversationEnd::ClientLeft, "client-left"),
        };
        self.judge.set_ending(ending);
        self.judge.close(self.began.elapsed());
        let acp_play::JudgedConnection { findings, exercised } = acp_play::judged(&self.judge);
        let mut judged =
            Judged { findings, exercised, record: None, history: self.judge.take_history(), answered_at_end };
        if let Some(mut record) = self.record.take() {
            beside_last(&mut record, &format!("\"end\":\"{word}\""));
            judged.record = Some(record);
        }
        if self.overhear.is_some() {
            // What a translated copy shows of the protocol was said in other words.
            judged.exercised.clear();
        }
        let Some(mut child) = self.child else { return (judged, None) };
        tx.close();
        let drain = tokio::spawn(drain(rx));
        let exit = child.shutdown(parting.grace.saturating_sub(from.elapsed()).max(LISTEN)).await;
        drain.abort();
        let at_eof = match exit.stage {
            StopStage::Term | StopStage::Kill => AtEof::Stays,
            StopStage::Unasked | StopStage::Eof => AtEof::Exits(from.elapsed()),
        };
        (judged, Some(Ended { stderr: child.stderr_tail(), exit, at_eof }))
    }

    /// Shows the judge what the agent still says, until its output ends or the time is up. Returns whether a response was
    /// among it.
    async fn listen(&mut self, rx: &mut Receiver, limit: Duration) -> bool {
        let until = tokio::time::Instant::now() + limit;
        let mut answered = false;
        // An agent that never stops is always ready to be read: the clock is asked, too.
        while tokio::time::Instant::now() < until
            && let Ok(Some(arrival)) = tokio::time::timeout_at(until, rx.recv()).await
        {
            let frame = self.heard(arrival.at, arrival.line, rx.saw_bom());
            answered |= matches!(frame.view(), View::Response { .. });
        }
        answered
    }
}

/// Writes a member beside the last frame, where readers that do not know it pass over it: where the input ended, and how
/// the conversation did.
fn beside_last(record: &mut Vec<u8>, member: &str) {
    if record.ends_with(b"}\n") {
        record.truncate(record.len() - 2);
        record.extend_from_slice(format!(",{member}}}\n").as_bytes());
    }
}

/// What a form cannot say is taken to be so: nobody can break a rule about it.
fn overheard() -> TranslationOptions {
    TranslationOptions { client_files: true, load_session: true, ..TranslationOptions::default() }
}

/// An agent that still has output can end only while somebody reads it.
async fn drain(mut rx: Receiver) {
    while rx.recv().await.is_some() {}
}
