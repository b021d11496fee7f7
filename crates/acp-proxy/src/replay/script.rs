//! What an agent said in a recording, sorted by the request that it said it for.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_proto::method;
use acp_rpc::{Direction, Exchange, Frame, Id, View};
use serde_json::Value;

use super::RecordedFrame;

/// The agent's part of a recording.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// What it said before anything was asked.
    pub(super) preamble: Vec<Step>,
    pub(super) asked: Vec<Asked>,
}

/// A request of the client, and what the agent did about it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) params: Value,
    pub(super) session: Option<String>,
    pub(super) steps: Vec<Step>,
}

/// One thing that the agent did.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// It said something, so long after what it did before.
    Say(Duration, Frame),
    /// It waited for the answer to its own request.
    Await(Id),
    /// It answered.
    Answer(Duration, Frame),
}

impl Script {
    /// Sorts a recording. What the proxy decided is left out: the client never saw it.
    #[must_use]
    pub fn of(said: &[RecordedFrame]) -> Script {
        let mut sorting = Sorting::default();
        for said in said.iter().filter(|said| said.by_proxy.is_none()) {
            match said.dir {
                Direction::ClientToAgent => sorting.client(said),
                Direction::AgentToClient => sorting.agent(said),
            }
        }
        sorting.script
    }

    /// How many requests it has answers for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.asked.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }
}

#[derive(Default)]
struct Sorting {
    script: Script,
    /// Open requests: the client's by their number, the agent's by the number of the request that they were for.
    open: Exchange<usize>,
    /// The request that a session is busy with, or was last.
    busy: BTreeMap<String, usize>,
    /// When the last thing was done for a request.
    times: Vec<Duration>,
}

impl Sorting {
    fn client(&mut self, said: &RecordedFrame) {
        match said.frame.view() {
            View::Request { id, method, params } => {
                let params: Value =
                    params.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
                let session = params["sessionId"].as_str().map(str::to_owned);
                let index = self.script.asked.len();
                if let Some(session) = &session
                    && matches!(
                        method,
                        method::SESSION_PROMPT
                            | method::SESSION_LOAD
                            | method::SESSION_RESUME
                            | method::SESSION_FORK
                    )
                {
                    self.busy.insert(session.clone(), index);
                }
                let _ = self.open.asked(said.dir, id, index);
                self.times.push(said.t);
                let method = method.to_owned();
                self.script.asked.push(Asked { method, params, session, steps: Vec::new() });
            }
            View::Response { id, .. } => {
                if let Some(index) = self.open.answered(said.dir, id) {
                    self.script.asked[index].steps.push(Step::Await(id.clone()));
                    self.times[index] = said.t;
                }
            }
            _ => {}
        }
    }

    fn agent(&mut self, said: &RecordedFrame) {
        let frame = said.frame.clone();
        if let View::Response { id, .. } = frame.view() {
            let Some(index) = self.open.answered(said.dir, id) else { return };
            if let Some(session) = session_in(frame.result()) {
                self.busy.insert(session, index);
            }
            let rest = self.rest(index, said.t);
            self.script.asked[index].steps.push(Step::Answer(rest, frame));
            return;
        }
        let busy = session_in(frame.params()).and_then(|session| self.busy.get(&session).copied());
        let Some(index) = busy.or_else(|| self.script.asked.len().checked_sub(1)) else {
            return self.script.preamble.push(Step::Say(said.t, frame));
        };
        if let View::Request { id, .. } = frame.view() {
            let _ = self.open.asked(said.dir, id, index);
        }
        let rest = self.rest(index, said.t);
        self.script.asked[index].steps.push(Step::Say(rest, frame));
    }

    fn rest(&mut self, index: usize, t: Duration) -> Duration {
        let rest = t.saturating_sub(self.times[index]);
        self.times[index] = t;
        rest
    }
}

fn session_in(json: Option<&str>) -> Option<String> {
    let value: Value = serde_json::from_str(json?).ok()?;
    value["sessionId"].as_str().map(str::to_owned)
}
