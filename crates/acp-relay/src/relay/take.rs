//! What comes from a side: shown to the observers, read, translated, and queued for the other side.

use std::sync::PoisonError;
use std::time::Instant;

use acp_dialect::{Detection, NoteKind, Side, detect};
use acp_link::{Arrival, Burst};
use acp_proto::error_code;
use acp_rpc::{Frame, Id, Line, RpcError, View};
use bytes::{Buf, Bytes};
use memchr::memchr;

use super::{Relay, RelayEnd};

/// The mark that some programs put before their first line.
const BOM: &[u8] = b"\xEF\xBB\xBF";

impl Relay {
    /// Takes a burst and what came with it.
    pub(super) fn take_all(&mut self, from: Side, first: Burst) {
        let mut next = Some(first);
        while let Some(burst) = next {
            self.take(from, burst);
            let link = if from == Side::Client { &mut self.client } else { &mut self.agent };
            // What comes one by one waits in the link already. The other side must take what there is before more
            // is taken; a line at a time that is soon.
            next = if self.ending.is_none() { link.rx.try_recv_burst() } else { None };
        }
    }

    pub(super) fn take(&mut self, from: Side, burst: Burst) {
        match burst {
            Burst::Lines { at, bytes } => self.take_lines(from, at, &bytes),
            Burst::One(Arrival { at, line }) => self.take_one(from, at, line),
        }
    }

    /// Takes whole lines from one side.
    fn take_lines(&mut self, from: Side, at: Instant, lines: &Bytes) {
        self.moved += lines.len() as u64;
        if !self.shown(from, at, lines) {
            return;
        }
        let mut plain = lines.clone();
        if !std::mem::replace(&mut self.begun[usize::from(from == Side::Agent)], true)
            && lines.starts_with(BOM)
        {
            plain.advance(BOM.len());
        }
        if from == Side::Client && self.winding.is_some() {
            return self.take_winding(at, &plain);
        }
        if self.identity {
            self.queue(from.other()).lines(lines);
            if !self.observers.interest().frames {
                return self.requests.passed(from, &plain);
            }
        }
        // Streamed text has a short way, but nobody sees the canonical frame on it.
        let short = !self.identity && !self.observers.interest().frames;
        let text = if short { std::str::from_utf8(&plain).ok() } else { None };
        let mut start = 0;
        while let Some(length) = memchr(b'\n', &plain[start..]) {
            let end = start + length;
            let out = match from {
                Side::Client => self.to_agent.open(),
                Side::Agent => self.to_client.open(),
            };
            if let Some(line) = text.and_then(|text| text.get(start..end))
                && self.bridge.stream(from, line, out)
            {
                start = end + 1;
                continue;
            }
            let line = plain.slice(start..end - usize::from(plain[start..end].ends_with(b"\r")));
            start = end + 1;
            self.take_frame(from, at, &Frame::parse(line));
            if self.ending.is_some() {
                return;
            }
        }
    }

    /// Takes one line from one side.
    fn take_one(&mut self, from: Side, at: Instant, line: Line) {
        self.begun[usize::from(from == Side::Agent)] = true;
        self.moved += line.bytes().len() as u64;
        if let Line::Oversized { len, .. } = &line {
            let reason = format!("a line of {len} bytes is too long to be passed on");
            return self.refuse(from, reason, None);
        }
        if !self.shown(from, at, line.bytes()) {
            return;
        }
        if from == Side::Client && self.winding.is_some() {
            return self.take_winding(at, line.bytes());
        }
        if self.identity {
            self.queue(from.other()).line(line.bytes());
            if !self.observers.interest().frames {
                return self.requests.passed(from, line.bytes());
            }
        }
        self.take_frame(from, at, &Frame::from(line));
    }

    /// Shows lines to the observers; whether they may be passed on.
    fn shown(&mut self, from: Side, at: Instant, lines: &Bytes) -> bool {
        let Err(error) = self.observers.lines(from, at, lines) else { return true };
        let reason = error.to_string();
        self.answer_open(&reason);
        self.ending = Some(RelayEnd::Stopped(reason));
        false
    }

    /// Reads a frame of one side and, where the forms differ, passes its translation on.
    pub(super) fn take_frame(&mut self, from: Side, at: Instant, frame: &Frame) {
        if self.reads_requests && (self.identity || from == Side::Client) {
            self.requests.read(from, frame);
        }
        if self.identity {
            // It has been passed on. Two peers of a foreign form say nothing canonical.
            if self.bridge.at(from).dialect().is_canonical() {
                self.observers.frame(from, at, frame);
            }
            return;
        }
        if let Some(reason) = self.stranger(from, frame) {
            return self.refuse(from, reason, None);
        }
        if frame.id().is_some() {
            let now = format!("{:.3}", jiff::Timestamp::now());
            self.bridge.at(Side::Client).set_wall_clock(now.clone());
            self.bridge.at(Side::Agent).set_wall_clock(now);
        }
        let (observers, requests, reads_requests) =
            (&self.observers, &mut self.requests, self.reads_requests);
        let routed = self.bridge.receive_seen(from, frame, &mut |side, frame| {
            if !reads_requests {
                requests.turn(side, frame);
            }
            observers.frame(side, at, frame);
        });
        for (side, note) in &routed.notes {
            self.observers.note(*side, note);
        }
        let strange =
            routed.notes.iter().find(|(side, note)| *side == from && note.kind == NoteKind::OtherDialect);
        if let Some((_, note)) = strange {
            return self.refuse(from, note.message.clone().into_owned(), Some(frame));
        }
        for (to, frame) in routed.frames {
            if self.reads_requests && to == Side::Client {
                self.requests.read(Side::Agent, &frame);
            }
            self.queue(to).line(frame.raw());
        }
        if let (Some(sessions), View::Response { .. }) = (&self.sessions, frame.view()) {
            let mut known = sessions.lock().unwrap_or_else(PoisonError::into_inner);
            *known = self.bridge.at(Side::Agent).session_ids();
        }
    }

    /// An agent shows its form in its first answer: what is wrong with it, if it is not the expected one.
    fn stranger(&mut self, from: Side, frame: &Frame) -> Option<String> {
        if from == Side::Client || self.agent_introduced || !matches!(frame.view(), View::Response { .. }) {
            return None;
        }
        self.agent_introduced = true;
        let expected = self.bridge.at(Side::Agent).dialect();
        match detect([frame]) {
            Detection::Sure(found) if !expected.may_begin_like(found) => Some(format!(
                "the agent answers in the form {found}, not in {expected}; name its form with --dialect {found}"
            )),
            _ => None,
        }
    }

    /// Ends the conversation because of what `side` said.
    fn refuse(&mut self, side: Side, reason: String, frame: Option<&Frame>) {
        let asked = frame.and_then(|frame| match frame.view() {
            View::Request { id, .. } => Some(id.clone()),
            _ => None,
        });
        let error = RpcError::new(error_code::INVALID_REQUEST, reason.clone());
        // What is open includes what was asked just now.
        let rest = side == Side::Agent || asked.is_none();
        match (side, asked) {
            (Side::Client, id) => {
                let answer = Frame::failure(&id.unwrap_or(Id::Null), &error);
                self.observers.spoke(Side::Client, &answer, &reason);
                self.queue(Side::Client).line(answer.raw());
            }
            (Side::Agent, Some(id)) => self.queue(Side::Agent).line(Frame::failure(&id, &error).raw()),
            (Side::Agent, None) => {}
        }
        if rest {
            self.answer_open(&reason);
        }
        self.ending = Some(RelayEnd::Refused { side, reason });
    }
}
