//! The end of a conversation that is told to end: no new work, then a cancel for what is running.

use std::collections::BTreeSet;
use std::time::Instant;

use acp_dialect::{Destination, Side};
use acp_proto::{SessionId, method};
use acp_rpc::{Frame, Id, View};
use bytes::Bytes;
use serde_json::json;

use super::{Relay, RelayEnd};

impl Relay {
    /// From now on, what would begin new work is answered with an error that says `why`. Everything else goes on.
    pub fn wind_down(&mut self, why: &str) {
        self.winding = Some(why.to_owned());
    }

    /// Whether a turn is running.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.requests.turns().next().is_some()
    }

    /// Cancels the turns that are running, as the client would. Says how many there were.
    pub fn cancel_turns(&mut self) -> usize {
        let sessions: BTreeSet<SessionId> = self.requests.turns().cloned().collect();
        sessions.iter().filter(|session| self.cancel(session)).count()
    }

    /// Cancels the running turn of a session, as the client would. Whether there was one.
    pub fn cancel(&mut self, session: &str) -> bool {
        let canonical = !self.identity || self.bridge.at(Side::Agent).dialect().is_canonical();
        if !canonical || !self.requests.turns().any(|running| running == session) {
            return false;
        }
        let cancel = Frame::notification(method::SESSION_CANCEL, &json!({ "sessionId": session }));
        self.observers.frame(Side::Client, Instant::now(), &cancel);
        let why = self.winding.clone();
        self.observers.spoke(Side::Agent, &cancel, why.as_deref().unwrap_or("the turn was to be cancelled"));
        let translated = self.bridge.at(Side::Agent).from_canonical(&cancel);
        for out in translated.frames.into_iter().filter(|out| out.to == Destination::Onward) {
            self.queue(Side::Agent).line(out.frame.raw());
        }
        true
    }

    /// Ends the conversation: the client's open requests are answered with errors that say `why`, and so is a client
    /// told that has none.
    pub fn close(&mut self, why: &str) {
        self.answer_open(why);
        let farewell = Frame::failure(&Id::Null, &self.unavailable(why));
        self.observers.spoke(Side::Client, &farewell, why);
        self.queue(Side::Client).line(farewell.raw());
        self.ending = Some(RelayEnd::Closed(why.to_owned()));
    }

    /// Takes lines from the client that might begin new work.
    pub(super) fn take_winding(&mut self, at: Instant, lines: &Bytes) {
        let why = self.winding.clone().unwrap_or_default();
        // A message of its own may have line endings inside.
        let whole = !lines.ends_with(b"\n");
        for line in lines.split(|byte| *byte == b'\n' && !whole).filter(|line| !line.is_empty()) {
            let line = lines.slice_ref(line.strip_suffix(b"\r").unwrap_or(line));
            let frame = Frame::parse(line);
            let refused = match frame.view() {
                View::Request { id, method, .. } if begins_work(method) => Some(id.clone()),
                _ => None,
            };
            if let Some(id) = refused {
                let refusal = Frame::failure(&id, &self.unavailable(&why));
                self.observers.spoke(Side::Client, &refusal, &why);
                self.queue(Side::Client).line(refusal.raw());
                continue;
            }
            if self.identity {
                self.queue(Side::Agent).line(frame.raw());
            }
            self.take_frame(Side::Client, at, &frame);
            if self.ending.is_some() {
                return;
            }
        }
    }
}

/// The requests of all forms that make an agent work.
fn begins_work(method: &str) -> bool {
    matches!(
        method,
        method::SESSION_PROMPT
            | method::SESSION_NEW
            | method::SESSION_LOAD
            | method::SESSION_RESUME
            | method::SESSION_FORK
            | "prompt"
            | "newSession"
            | "loadSession"
    )
}
