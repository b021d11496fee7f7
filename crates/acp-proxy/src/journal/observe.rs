//! Writes one conversation into the journal.

use std::time::Instant;

use acp_dialect::Side;
use acp_relay::{Decision, Interest, Observer, RecordError};
use acp_rpc::{Frame, View};
use bytes::Bytes;
use memchr::memchr_iter;

use super::{ClosedRecord, Decided, Journal, JournalError, Lines, OpenedRecord, RecordedLines};

/// Whether decisions are made about a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decisions {
    /// Its lines are passed on as they are.
    Never,
    /// A gatekeeper decides, before the lines that it has passed on are in the journal. A decision is written at once,
    /// because the agent has it at once, and says how many lines belong before it: so lines are counted.
    Possible,
}

/// Writes one conversation into the journal, each line before it is passed on.
#[derive(Debug)]
pub struct JournalObserver {
    journal: Journal,
    conversation: u64,
    began: Instant,
    decisions: Decisions,
    /// How many lines of the agent are written.
    written: u64,
}

impl JournalObserver {
    /// Begins a conversation. Nothing may be passed on if that cannot be written.
    pub fn begin(
        journal: &Journal,
        opened: OpenedRecord,
        decisions: Decisions,
    ) -> Result<JournalObserver, JournalError> {
        let conversation = opened.conversation;
        journal.open(opened)?;
        let journal = journal.clone();
        Ok(JournalObserver { journal, conversation, began: Instant::now(), decisions, written: 0 })
    }

    fn write(&self, decided: Decided) -> Result<(), JournalError> {
        self.journal.decided(Decided { conversation: self.conversation, t: self.now(), ..decided })
    }

    /// Microseconds since the conversation began.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Observer for JournalObserver {
    fn interest(&self) -> Interest {
        Interest { lines: true, frames: false }
    }

    fn lines(&mut self, from: Side, at: Instant, lines: &Bytes) -> Result<(), RecordError> {
        let is_block = lines.ends_with(b"\n");
        let what = if is_block {
            RecordedLines::Block(lines.clone())
        } else {
            RecordedLines::Message(lines.clone())
        };
        let t = at.saturating_duration_since(self.began);
        let record = Lines { conversation: self.conversation, t, dir: from.sends(), what };
        self.journal.lines(record).map_err(RecordError::new)?;
        if from == Side::Agent && self.decisions == Decisions::Possible {
            self.written += if is_block { memchr_iter(b'\n', lines).count() as u64 } else { 1 };
        }
        Ok(())
    }

    fn spoke(&mut self, to: Side, frame: &Frame, why: &str) {
        let id = match frame.view() {
            View::Response { id, .. } => id.to_string(),
            _ => String::new(),
        };
        let verdict = match to {
            Side::Client => "answered",
            Side::Agent => "sent",
        };
        let decided = Decided {
            conversation: 0,
            t: 0,
            dir: to.sends(),
            method: frame.method().unwrap_or_default().to_owned(),
            id,
            verdict: verdict.to_owned(),
            reason: why.to_owned(),
            request: String::new(),
            answer: frame.text().unwrap_or_default().to_owned(),
            behind: 0,
        };
        // The journal itself reports that it cannot be written.
        let _ = self.write(decided);
    }

    fn decided(&mut self, decision: &Decision<'_>) -> Result<(), RecordError> {
        let Decision { from, request, answer, verdict, reason, passed, .. } = decision;
        let decided = Decided {
            conversation: 0,
            t: 0,
            dir: from.sends(),
            method: request.method().unwrap_or_default().to_owned(),
            id: request.id().map(ToString::to_string).unwrap_or_default(),
            verdict: (*verdict).to_owned(),
            reason: (*reason).to_owned(),
            request: request.text().unwrap_or_default().to_owned(),
            answer: answer.text().unwrap_or_default().to_owned(),
            behind: passed.saturating_sub(self.written),
        };
        self.write(decided).map_err(RecordError::new)
    }

    fn closed(&mut self, outcome: &str) {
        let closed =
            ClosedRecord { conversation: self.conversation, t: self.now(), outcome: outcome.to_owned() };
        // The journal itself reports that it cannot be written.
        let _ = self.journal.close(closed);
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::journal::{JournalSettings, conversations};
    use crate::metrics::Metrics;

    #[test]
    fn a_decision_is_kept_at_once_and_read_behind_what_it_is_about() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::create(
            JournalSettings::new(folder.path()),
            &Metrics::default(),
            crate::ProxyLog::current(),
        )
        .expect("a journal");
        let opened = OpenedRecord {
            conversation: 1,
            at: String::new(),
            agent: "agent".to_owned(),
            client_dialect: "v1".to_owned(),
            agent_dialect: "v1".to_owned(),
            again: false,
        };
        let observer = JournalObserver::begin(&journal, opened, Decisions::Possible).expect("it begins");
        let observer = std::cell::RefCell::new(observer);
        let say = |side, lines: &'static str| {
            let lines = Bytes::from_static(lines.as_bytes());
            observer.borrow_mut().lines(side, Instant::now(), &lines).expect("kept");
        };
        let frame = Frame::parse(
            r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{}}"#.as_bytes(),
        );
        let decided = |passed| {
            let decision = Decision {
                at: Instant::now(),
                from: Side::Agent,
                request: &frame,
                answer: &frame,
                verdict: "allow",
                reason: "a rule",
                passed,
            };
            observer.borrow_mut().decided(&decision).expect("kept");
        };
        let places = || -> Vec<usize> {
            let (found, _) = conversations(folder.path(), None).expect("readable");
            found[0].decided.iter().map(|(before, _)| *before).collect()
        };
        say(Side::Client, "{\"c\":1}\n");
        say(Side::Agent, "{\"a\":1}\n");
        // The gatekeeper has passed two more on, and the agent has its answer: kill -9 now, and it is there.
        decided(3);
        assert_eq!(places(), [2]);
        say(Side::Agent, "{\"a\":2}\n{\"a\":3}\n{\"a\":4}\n");
        assert_eq!(places(), [4]);
        decided(4);
        assert_eq!(places(), [4, 5]);
    }
}
