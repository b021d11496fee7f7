//! One connection of one test: the link, its writer, and the judge that reads along.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use acp_comply::{EvidenceRef, FindingRef};
use acp_dialect::{Dialect, Options, Overhear, Side};
use acp_link::child::Child;
use acp_link::{Receiver, Sender};
use acp_rpc::{Direction, Frame, Line, Splitter};
use acp_rules::{Ending, Grade, Judge, JudgeConfig, registry};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::target::{Connection, Ended};

/// What to write: a line, or bytes as they are.
enum Out {
    Line(Bytes),
    Raw(Bytes),
    End,
}

/// A live connection.
pub(crate) struct Wire {
    out: mpsc::UnboundedSender<Out>,
    pub rx: Receiver,
    pub child: Option<Child>,
    tx: Sender,
    judge: Judge,
    /// Says what passes in the judge's own form of the protocol, where the test is written in another.
    overhear: Option<Overhear>,
    /// Our own bytes, put together to lines again for the judge.
    sent: Splitter,
    began: Instant,
}

/// What the judge of one connection has to say.
#[derive(Default)]
pub(crate) struct Judged {
    pub findings: Vec<FindingRef>,
    pub exercised: BTreeSet<String>,
}

impl Wire {
    /// `dialect` is the form that the test is written in, when it is not the canonical one.
    pub fn new(connection: Connection, began: Instant, dialect: Option<Dialect>) -> Wire {
        let Connection { link, child } = connection;
        let (out, queue) = mpsc::unbounded_channel();
        tokio::spawn(write(link.tx.clone(), queue));
        Wire {
            out,
            rx: link.rx,
            child,
            tx: link.tx,
            judge: Judge::new(JudgeConfig::default()),
            overhear: dialect.map(|dialect| Overhear::new(dialect, overheard())),
            sent: Splitter::new(acp_rpc::DEFAULT_LINE_LIMIT),
            began,
        }
    }

    /// Queues a line. An agent that does not read never stops the test.
    pub fn write_line(&mut self, line: Bytes) {
        self.sent.push(&line);
        self.sent.push(b"\n");
        self.show_sent();
        let _ = self.out.send(Out::Line(line));
    }

    /// Queues bytes as they are.
    pub fn write_raw(&mut self, bytes: Bytes) {
        self.sent.push(&bytes);
        self.show_sent();
        let _ = self.out.send(Out::Raw(bytes));
    }

    /// Ends the agent's input after what is queued.
    pub fn close_input(&mut self) {
        let _ = self.out.send(Out::End);
    }

    /// Takes note of a line from the agent and gives it back as a frame.
    pub fn heard(&mut self, at: Instant, line: Line) -> Frame {
        let frame = Frame::from(line);
        self.observe(at.saturating_duration_since(self.began), Side::Agent, &frame);
        frame
    }

    /// Shows a frame to the judge: the frame itself, or what it says in the judge's own form.
    fn observe(&mut self, at: Duration, from: Side, frame: &Frame) {
        let dir = match from {
            Side::Client => Direction::ClientToAgent,
            Side::Agent => Direction::AgentToClient,
        };
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
            self.observe(at, Side::Client, &Frame::from(line));
        }
    }

    /// Ends the connection and the process behind it, and collects the judge's findings.
    pub async fn end(mut self, agent_went: bool, grace: Duration) -> (Judged, Option<Ended>) {
        self.judge.set_ending(if agent_went { Ending::AgentExited } else { Ending::ClientClosed });
        self.judge.close(self.began.elapsed());
        let mut judged = judged(&self.judge);
        if self.overhear.is_some() {
            // A translated copy shows what an agent does wrong; what it shows of the protocol was said in other words.
            judged.findings.retain(|finding| finding.blame == acp_rules::Side::Agent);
            judged.exercised.clear();
        }
        let Wire { rx, child, tx, .. } = self;
        let Some(mut child) = child else { return (judged, None) };
        tx.close();
        let drain = tokio::spawn(drain(rx));
        let exit = child.shutdown(grace).await;
        drain.abort();
        (judged, Some(Ended { stderr: child.stderr_tail(), exit }))
    }
}

/// What a form cannot say is taken to be so: nobody can break a rule about it.
fn overheard() -> Options {
    Options { client_files: true, load_session: true, ..Options::default() }
}

/// An agent that still has output can end only while somebody reads it.
async fn drain(mut rx: Receiver) {
    while rx.recv().await.is_some() {}
}

async fn write(tx: Sender, mut queue: mpsc::UnboundedReceiver<Out>) {
    while let Some(out) = queue.recv().await {
        let sent = match out {
            Out::Line(line) => tx.send(line).await,
            Out::Raw(bytes) => tx.send_raw(bytes).await,
            Out::End => {
                tx.close();
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// What a finding means: what breaking its requirement means, and never more than the rule is sure of.
fn grade(finding: &acp_rules::Finding) -> Grade {
    let row = registry().get(finding.requirement).map_or(Grade::Fail, |row| row.grade(None));
    match finding.severity {
        acp_rules::Severity::Error => row,
        acp_rules::Severity::Warning => row.min(Grade::Warn),
    }
}

fn judged(judge: &Judge) -> Judged {
    let findings = judge
        .findings()
        .iter()
        .map(|finding| FindingRef {
            rule: finding.rule.to_owned(),
            requirement: finding.requirement.to_owned(),
            clause: None,
            grade: grade(finding),
            blame: finding.blame,
            message: finding.message.clone(),
            hint: (!finding.hint.is_empty()).then(|| finding.hint.to_owned()),
            evidence: finding
                .evidence
                .iter()
                .map(|evidence| EvidenceRef {
                    index: usize::try_from(evidence.index).unwrap_or(usize::MAX),
                    at_ms: evidence.at.as_secs_f64() * 1000.0,
                    dir: evidence.dir.into(),
                    excerpt: evidence.excerpt.clone(),
                    pointer: (!evidence.pointer.is_empty()).then(|| evidence.pointer.clone()),
                })
                .collect(),
            test: None,
        })
        .collect();
    let exercised = judge
        .coverage()
        .rows
        .iter()
        .filter(|row| row.exercised())
        .map(|row| row.requirement.to_owned())
        .collect();
    Judged { findings, exercised }
}
