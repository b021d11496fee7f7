//! An agent that answers as recorded. Pure: frames and time in, frames out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use acp_proto::{StopReason, error_code, method};
use acp_rpc::{Frame, Id, Pending, RpcError, View};
use serde_json::{Value, json};

use super::script::{Script, Step};

/// Plays the agent's part of a recording to one client.
///
/// A request is matched with the first recorded one of its method, and session, that was not matched yet; one with the
/// same params is preferred. The agent's own requests wait for their answers, whatever those are.
#[derive(Debug)]
pub struct Player {
    script: Script,
    used: Vec<bool>,
    lanes: Vec<Lane>,
    out: VecDeque<Frame>,
    /// Recorded session ids, by the client's.
    sessions: BTreeMap<String, String>,
    /// The agent's requests that wait for their answers.
    open: Pending<()>,
    /// How much faster than recorded; `None`: at once.
    speed: Option<f64>,
    notes: Vec<String>,
}

/// A request being answered.
#[derive(Debug)]
struct Lane {
    asked: usize,
    id: Id,
    session: Option<String>,
    next: usize,
    /// When the next step is due.
    due: Duration,
}

impl Player {
    /// A player at the beginning. `speed` is how much faster than recorded it speaks; without it, it never waits.
    #[must_use]
    pub fn new(script: Script, speed: Option<f64>) -> Player {
        let preamble = script.preamble.iter().filter_map(|step| match step {
            Step::Say(_, frame) => Some(frame.clone()),
            Step::Await(_) | Step::Answer(..) => None,
        });
        Player {
            out: preamble.collect(),
            used: vec![false; script.asked.len()],
            lanes: Vec::new(),
            sessions: BTreeMap::new(),
            open: Pending::default(),
            speed,
            notes: Vec::new(),
            script,
        }
    }

    /// Takes a frame of the client.
    pub fn receive(&mut self, now: Duration, frame: &Frame) {
        match frame.view() {
            View::Request { id, method, params } => {
                let params = params.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
                self.asked(now, id, method, &params);
            }
            View::Response { id, .. } => {
                self.open.remove(id);
                self.go_on(now);
            }
            View::Notification { method: method::SESSION_CANCEL, params } => {
                let params: Value =
                    params.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
                if let Some(session) = params["sessionId"].as_str() {
                    self.cancel(session);
                }
            }
            View::Batch(frames) => frames.to_vec().iter().for_each(|frame| self.receive(now, frame)),
            View::Notification { .. } | View::Malformed(_) => {}
        }
    }

    /// Lets the time pass.
    pub fn tick(&mut self, now: Duration) {
        self.go_on(now);
    }

    /// When [`Player::tick`] has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let waits = |lane: &&Lane| !self.is_blocked(lane);
        self.lanes.iter().filter(waits).map(|lane| lane.due).min()
    }

    /// The next frame for the client.
    pub fn poll(&mut self) -> Option<Frame> {
        self.out.pop_front()
    }

    /// What was not as recorded, in words, since the last time.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn asked(&mut self, now: Duration, id: &Id, method: &str, params: &Value) {
        let session = params["sessionId"].as_str().map(str::to_owned);
        let Some(found) = self.find(method, session.as_deref(), params) else {
            let had = self.script.asked.iter().filter(|asked| asked.method == method).count();
            let words = match had {
                0 => format!("the recording has no answer to {method}"),
                1 => format!("the recording has one answer to {method}, and it was given already"),
                had => format!("the recording has {had} answers to {method}, and none is left for this one"),
            };
            self.notes.push(words.clone());
            let code = if had == 0 { error_code::METHOD_NOT_FOUND } else { error_code::INTERNAL_ERROR };
            return self.out.push_back(Frame::failure(id, &RpcError::new(code, words)));
        };
        self.used[found] = true;
        let recorded = &self.script.asked[found];
        if method == method::SESSION_PROMPT && recorded.params["prompt"] != params["prompt"] {
            self.notes
                .push("the prompt differs from the recorded one; the recorded answer is given".to_owned());
        }
        if let (Some(session), Some(known)) = (&session, &recorded.session) {
            self.sessions.insert(session.clone(), known.clone());
        }
        let lane = Lane { asked: found, id: id.clone(), session, next: 0, due: Duration::ZERO };
        let due = now + self.rest(&lane);
        self.lanes.push(Lane { due, ..lane });
        self.go_on(now);
    }

    /// The recorded request that this one is.
    fn find(&self, method: &str, session: Option<&str>, params: &Value) -> Option<usize> {
        let recorded = session.map(|session| self.sessions.get(session).map_or(session, String::as_str));
        let free = || {
            let asked = self.script.asked.iter().zip(&self.used).enumerate();
            asked
                .filter(|(_, (asked, used))| !**used && asked.method == method)
                .map(|(at, (asked, _))| (at, asked))
        };
        let same = |asked: &Value| essence(asked) == essence(params);
        let of_session =
            || free().filter(|(_, asked)| recorded.is_none() || asked.session.as_deref() == recorded);
        of_session()
            .find(|(_, asked)| same(&asked.params))
            .or_else(|| of_session().next())
            // A session that the recording does not know is one that it knows under another name.
            .or_else(|| {
                free().find(|(_, asked)| recorded.is_some() && self.is_unclaimed(asked.session.as_deref()))
            })
            .map(|(at, _)| at)
    }

    fn is_unclaimed(&self, session: Option<&str>) -> bool {
        session.is_some_and(|session| self.sessions.values().all(|known| known != session))
    }

    /// Plays every lane as far as it goes.
    fn go_on(&mut self, now: Duration) {
        let mut at = 0;
        while at < self.lanes.len() {
            let lane = &self.lanes[at];
            let steps = &self.script.asked[lane.asked].steps;
            let Some(step) = steps.get(lane.next).cloned() else {
                self.lanes.remove(at);
                continue;
            };
            if lane.due > now || self.is_blocked(lane) {
                at += 1;
                continue;
            }
            let frame = match step {
                Step::Await(_) => None,
                Step::Say(_, frame) => Some(self.renamed(lane, &frame)),
                Step::Answer(_, frame) => Some(self.renamed(lane, &answered(&lane.id, &frame))),
            };
            if let Some(View::Request { id, .. }) = frame.as_ref().map(Frame::view) {
                let _ = self.open.replace(id, ());
            }
            self.out.extend(frame);
            let mut lane = self.lanes.remove(at);
            lane.next += 1;
            lane.due = now.max(lane.due) + self.rest(&lane);
            self.lanes.insert(at, lane);
        }
    }

    /// How long before the lane's next step.
    fn rest(&self, lane: &Lane) -> Duration {
        let Some(speed) = self.speed else { return Duration::ZERO };
        match self.script.asked[lane.asked].steps.get(lane.next) {
            Some(Step::Say(rest, _) | Step::Answer(rest, _)) => {
                Duration::try_from_secs_f64(rest.as_secs_f64() / speed).unwrap_or(*rest)
            }
            Some(Step::Await(_)) | None => Duration::ZERO,
        }
    }

    fn is_blocked(&self, lane: &Lane) -> bool {
        match self.script.asked[lane.asked].steps.get(lane.next) {
            Some(Step::Await(id)) => self.open.contains(id),
            _ => false,
        }
    }

    fn cancel(&mut self, session: &str) {
        let (gone, left): (Vec<Lane>, Vec<Lane>) =
            std::mem::take(&mut self.lanes).into_iter().partition(|lane| {
                lane.session.as_deref() == Some(session)
                    && self.script.asked[lane.asked].method == method::SESSION_PROMPT
            });
        self.lanes = left;
        for lane in gone {
            self.out.push_back(Frame::response(&lane.id, &json!({ "stopReason": StopReason::Cancelled })));
        }
    }

    /// The frame with the client's name of the session.
    fn renamed(&self, lane: &Lane, frame: &Frame) -> Frame {
        let Some(session) = &lane.session else { return frame.clone() };
        let known = self.sessions.get(session);
        if known.is_none_or(|known| known == session) {
            return frame.clone();
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(frame.raw()) else { return frame.clone() };
        for part in ["params", "result"] {
            if let Some(name) = value.get_mut(part).and_then(|part| part.get_mut("sessionId"))
                && name.as_str() == known.map(String::as_str)
            {
                *name = session.as_str().into();
            }
        }
        Frame::parse(value.to_string())
    }
}

/// What of a request's params says which one it is.
fn essence(params: &Value) -> Value {
    let mut params = params.clone();
    if let Some(members) = params.as_object_mut() {
        for name in ["sessionId", "_meta", "cwd", "mcpServers", "clientInfo"] {
            members.remove(name);
        }
    }
    params
}

/// A recorded answer under another id.
fn answered(id: &Id, recorded: &Frame) -> Frame {
    match (recorded.result(), recorded.error()) {
        (Some(result), _) => Frame::parse(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)),
        (None, error) => {
            let error = error.unwrap_or("null");
            Frame::parse(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
        }
    }
}
