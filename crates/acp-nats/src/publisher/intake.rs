//! What happened becomes numbered lines, on disk first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;

use super::super::claim::Ended;
use super::super::clock;
use super::super::spool::Line;
use super::{MAX_MEMORY_BYTES, Publisher, PublisherInput, PublisherItem, RETRY_PAUSE, State};
use acp_proxy::event::{Body, Event, Part, TurnEnd, raw};
use acp_proxy::turn::Tally;
use tracing::Level;

/// Events that were numbered together.
pub(super) struct Batch {
    /// Their lines.
    text: Bytes,
    /// Where each of them ends, and the trace that it belongs to.
    ends: Vec<End>,
    /// The number of the last.
    last: u64,
}

type End = (usize, Option<Arc<str>>);

impl Publisher {
    pub(super) fn take(&mut self, batch: Vec<PublisherItem>) {
        let mut out = Vec::with_capacity(batch.len());
        self.at = batch.last().map_or(self.at, |item| clock::wall(item.at, self.at));
        for item in batch {
            match item.what {
                PublisherInput::Body(body) => {
                    self.closed = matches!(body, Body::Closed(_));
                    let now = item.at.saturating_duration_since(self.shared.began);
                    self.aggregator.push(now, body, &mut out);
                }
                PublisherInput::Task { id, trace, ended } => {
                    self.aggregator.flush(&mut out);
                    self.number(std::mem::take(&mut out));
                    self.task = Some((id, trace));
                    // Of a session that somebody else has, no end is ever stored.
                    self.waiter = (self.state != State::Fenced).then_some(ended);
                    self.begun = false;
                    self.closed = false;
                }
                PublisherInput::Taken => {
                    self.aggregator.flush(&mut out);
                    self.number(std::mem::take(&mut out));
                    (self.task, self.waiter) = (None, None);
                }
                PublisherInput::GiveUp(why) => {
                    // The turn may have ended in this very batch.
                    self.aggregator.flush(&mut out);
                    self.number(std::mem::take(&mut out));
                    if !self.begun {
                        self.never_began();
                    } else if self.waiter.is_some() {
                        let error = raw(&serde_json::json!({ "message": why }));
                        let end = Tally::default().end(TurnEnd::INTERRUPTED.to_owned(), None, Some(error));
                        self.aggregator.push(self.shared.began.elapsed(), Body::TurnEnd(end), &mut out);
                    }
                    self.closed = true;
                }
            }
            if let Some(gate) = item.gate {
                gate.leave(1);
            }
        }
        self.number(out);
    }

    /// The turn that is waited for never began, and its task can be done in another session.
    fn never_began(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.task = None;
            let _ = waiter.send(Ended::NeverBegan);
        }
    }

    pub(super) fn tick(&mut self) {
        let mut out = Vec::new();
        self.aggregator.tick(self.shared.began.elapsed(), &mut out);
        self.at = clock::wall(Instant::now(), self.at);
        self.number(out);
    }

    /// Gives numbers, and writes to the spool.
    fn number(&mut self, bodies: Vec<Body>) {
        if bodies.is_empty() {
            return;
        }
        let mut text = Vec::with_capacity(256 * bodies.len());
        let mut ends = Vec::with_capacity(bodies.len());
        for body in bodies {
            self.write(body, &mut text, &mut ends);
        }
        if self.state == State::Fenced {
            self.keep_aside(&text);
            return;
        }
        self.count(ends.len() as u64);
        let batch = Batch { text: text.into(), ends, last: self.seq };
        self.unwritten.push_back(batch);
        self.write_again();
    }

    /// What is said in a session that somebody else has is kept beside, as long as there is room for it.
    fn keep_aside(&mut self, text: &[u8]) {
        let why = if self.spool.bytes() >= self.shared.spool_limit {
            "it is full".to_owned()
        } else {
            match self.spool.append(text, self.seq, true) {
                Ok(()) => return,
                Err(error) => error.to_string(),
            }
        };
        if !std::mem::replace(&mut self.said_full, true) {
            let words = format!(
                "no more of session {:?} is kept in its spool beside the other's: {why}",
                self.session
            );
            self.shared.say(Level::ERROR, &words);
        }
    }

    /// Writes to the spool what is not there yet, unless that has failed a moment ago.
    pub(super) fn write_again(&mut self) {
        if self.disk.is_some() {
            return;
        }
        while let Some(batch) = self.unwritten.pop_front() {
            let full = self.pending.len() >= 2 * self.shared.window || self.held >= MAX_MEMORY_BYTES;
            let keep = !full && !self.spool.has_more();
            match self.spool.append(&batch.text, batch.last, keep) {
                Ok(()) => {
                    self.said_full = false;
                    if keep {
                        self.hold(&batch);
                    }
                }
                Err(error) => {
                    self.complain(&error);
                    if keep {
                        self.hold(&batch);
                        continue;
                    }
                    self.unwritten.push_front(batch);
                    self.disk = Some(Instant::now() + RETRY_PAUSE);
                    return;
                }
            }
        }
    }

    fn complain(&mut self, error: &std::io::Error) {
        let folder = self.shared.spool.display();
        let words = format!(
            "cannot write to the spool in {folder}: {error}; make room there: events are held in memory, and the agent waits when there is no more room"
        );
        self.shared.spool_failed(&words);
        if !std::mem::replace(&mut self.said_full, true) {
            self.shared.say(Level::ERROR, &words);
        }
    }

    fn hold(&mut self, batch: &Batch) {
        let first = batch.last + 1 - batch.ends.len() as u64;
        let mut from = 0;
        for (seq, (end, trace)) in (first..).zip(&batch.ends) {
            let payload = batch.text.slice(from..*end);
            self.held += payload.len();
            self.pending.push_back(Line { seq, payload, trace: trace.clone() });
            from = end + 1;
        }
    }

    pub(super) fn count(&mut self, more: u64) {
        self.unstored += more;
        self.shared.counts.waiting.fetch_add(more, Ordering::Relaxed);
    }

    fn write(&mut self, body: Body, text: &mut Vec<u8>, ends: &mut Vec<End>) {
        self.seq += 1;
        self.begun |= matches!(body, Body::TurnStart(_));
        let turn_end = match &body {
            Body::TurnEnd(end) => Some(end.clone()),
            _ => None,
        };
        let (task, trace) = self.task.clone().unzip();
        let trace = trace.flatten();
        let at = self.at;
        let mut event =
            Event { session: self.session.to_string(), epoch: self.epoch, seq: self.seq, at, task, body };
        let begin = text.len();
        event.write(text);
        let most = self.shared.largest();
        if text.len() - begin > most {
            // Too large for one message: the same in pieces.
            text.truncate(begin);
            let (of, data) = (event.body.kind().to_owned(), event.body.to_json());
            let pieces = pieces(&data, (most / 2).saturating_sub(512).max(256));
            let count = pieces.len() as u64;
            for (index, piece) in (0..).zip(pieces) {
                if index > 0 {
                    self.seq += 1;
                }
                event.seq = self.seq;
                event.body = Body::Part(Part { of: of.clone(), index, count, text: piece.to_owned() });
                event.write(text);
                ends.push((text.len(), trace.clone()));
                text.push(b'\n');
            }
        } else {
            ends.push((text.len(), trace));
            text.push(b'\n');
        }
        if let Some(end) = turn_end {
            if let Some(waiter) = self.waiter.take() {
                self.ends.push_back((self.seq, waiter, end));
            }
            self.task = None;
        }
    }
}

/// Text in pieces of at most so many bytes, none of them cut inside a character.
fn pieces(text: &str, most: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > most {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(most));
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}
