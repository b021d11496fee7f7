//! Taking in what the agent and the providers say.

use super::claims::{Unmet, sighting};
use super::inbox::{Message, kind_of, millis};
use super::{Run, RunAction};
use crate::program::MessageKind;
use crate::table::find;
use crate::verdict::BreakKind;
use acp_rpc::{Direction, Frame, View};
use acp_rules::Grade;
use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeSet;

/// How much of a noise line a note quotes.
const QUOTED: usize = 120;

impl Run {
    pub(super) fn heard(&mut self, frame: &Frame) {
        let direction = self.heard_direction();
        self.inbox.record(self.now, direction, frame.raw());
        self.wire.last_activity = self.now;
        match frame.view() {
            View::Batch(frames) => frames.iter().for_each(|frame| self.heard_one(frame)),
            _ => self.heard_one(frame),
        }
    }

    fn heard_one(&mut self, frame: &Frame) {
        let value = frame.text().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let (Some(kind), Some(value)) = (kind_of(frame), value) else { return self.noise(frame) };
        let id = frame.id().cloned();
        let method = frame.method().map(str::to_owned);
        if kind == MessageKind::Response {
            let is_own = id.is_some() && self.own.as_ref().map(|own| &own.id) == id.as_ref();
            if is_own {
                return self.own_answered(&value);
            }
            if let Some(id) = id.as_ref().filter(|id| self.is_past_own(id)) {
                return self.own_is_answered(id);
            }
            self.answered(&value, id.as_ref());
        }
        let size = frame.raw().len();
        let table = self.setup.table.clone();
        let index = self.inbox.messages().len();
        let joined = table
            .pieces
            .as_ref()
            .and_then(|pieces| self.joining.add(pieces, method.as_deref(), &value, index));
        if let Some(before) = joined.as_ref().and_then(|joined| joined.before) {
            self.inbox.part(before);
        }
        let joined = joined.map(|joined| Box::new(joined.value));
        let launch = self.client.as_ref().map_or(0, |client| client.from());
        self.meet_client(method.as_deref(), &value);
        let message = Message { at: self.now, kind, value, id, method, launch, consumed: false, joined };
        let kept = self.inbox.push(message, size);
        if !kept {
            let count = self.inbox.messages().len();
            let reason = format!(
                "{} sent more than this test keeps ({count} messages); it was stopped there",
                self.peer()
            );
            return self.unmet(Unmet::new(BreakKind::Wrong, reason));
        }
        match kind {
            MessageKind::ClientRequest => self.asked(frame),
            MessageKind::Notification => self.told(frame),
            MessageKind::Response => {}
        }
    }

    /// A client that is tested introduces itself.
    fn meet_client(&mut self, method: Option<&str>, value: &Value) {
        let introduces = method == Some(self.setup.table.introduction.method.as_str());
        if self.client.is_some() && introduces && self.introduction.is_none() {
            self.introduction = Some(value.get("params").cloned().unwrap_or(Value::Null));
        }
    }

    fn noise(&mut self, frame: &Frame) {
        self.inbox.noise += 1;
        if self.inbox.first_noise.is_none() {
            let text = String::from_utf8_lossy(frame.raw());
            self.inbox.first_noise = Some(text.chars().take(QUOTED).collect());
        }
    }

    /// A notification is answered by the test, or by the real provider where the protocol asks with notifications.
    fn told(&mut self, frame: &Frame) {
        let index = self.inbox.messages().len() - 1;
        if let Some(answer) = self.canned_reply(index) {
            return self.write(answer);
        }
        if self.client.is_some() {
            return self.client_tells(index);
        }
        let asks = frame.method().is_some_and(|method| self.setup.table.asks.iter().any(|ask| ask == method));
        if asks && !self.stays_silent(index) {
            self.actions.push_back(RunAction::AskProvider(frame.clone()));
        }
    }

    /// The agent asks something of the client: a canned reply, or the real provider.
    fn asked(&mut self, frame: &Frame) {
        let Some(id) = frame.id() else { return };
        let index = self.inbox.messages().len() - 1;
        if self.client.is_some() {
            return self.client_asks(id, index);
        }
        if let Some(reply) = self.canned_reply(index) {
            self.write(reply);
            return;
        }
        if self.stays_silent(index) {
            self.wire.left_waiting = true;
            return;
        }
        *self.wire.pending.entry(id.clone()).or_default() += 1;
        self.actions.push_back(RunAction::AskProvider(frame.clone()));
    }

    pub(super) fn provider_answered(&mut self, frame: &Frame) {
        if let Some(id) = frame.id()
            && let Some(count) = self.wire.pending.get_mut(id)
        {
            *count -= 1;
            if *count == 0 {
                self.wire.pending.remove(id);
            }
        }
        self.write(frame.raw().clone());
    }

    /// A request of the test has its answer.
    fn answered(&mut self, value: &Value, id: Option<&acp_rpc::Id>) {
        let Some(id) = id else { return };
        self.wire.answered.insert(id.clone());
        if let Some(found) = self.wire.outstanding.iter().position(|open| open == id) {
            self.wire.outstanding.remove(found);
        }
        if let (Some((named, path)), Some(_)) = (self.wire.setting_up.asked.remove(id), value.get("result")) {
            let session = named.or_else(|| find(value, &path?).cloned());
            self.wire.setting_up.due.extend(session.filter(Value::is_string));
        }
        if self.client.is_none()
            && self.own_introduction.as_ref() == Some(id)
            && let Some(result) = value.get("result")
        {
            self.introduction = Some(result.clone());
            self.login_due = self.logs_in_first(result);
        }
        if let Some(step) = self.wire.must_fail.remove(id) {
            let marks = self.arena[step].marks.clone();
            if value.get("error").is_some() {
                self.tally.met += 1;
                self.met(&marks, &BTreeSet::new());
            } else {
                let reason = format!("the answer to request {id} should be an error, but it succeeded");
                let did = format!(
                    "{} answered {} with a result, not with an error",
                    self.peer(),
                    self.request_words(id)
                );
                let answer = sighting(millis(self.now), self.heard_direction(), &value.to_string());
                let frames = self.sent_as(id).into_iter().chain([answer]);
                let mut unmet = Unmet::new(BreakKind::Wrong, reason).did(did).frames(frames);
                unmet.shows = Some(marks.shows);
                self.unmet_answer(unmet);
            }
        }
    }

    /// An answer that must be an error is none. Other than an unmet step this does not end the step that runs now,
    /// unless it ends the test.
    fn unmet_answer(&mut self, unmet: Unmet) {
        let shows = unmet.shows.clone().unwrap_or_default();
        let is_light = !shows.is_empty() && shows.iter().all(|claim| claim.grade() < Grade::Fail);
        if self.program.is_claimed() && is_light {
            let did = unmet.did.unwrap_or(unmet.reason);
            self.break_claims(&shows, unmet.kind, &did, &unmet.frames);
        } else {
            self.unmet(unmet);
        }
    }

    /// Whether the runner logs in after an introduction that the test made itself.
    fn logs_in_first(&self, introduction: &Value) -> bool {
        let offered = find(introduction, &self.setup.table.auth_methods).and_then(Value::as_array);
        self.setup.auth_method.is_some()
            && (self.program.is_claimed() || self.program.calibrates())
            && !self.is_about_logins()
            && offered.is_some_and(|methods| !methods.is_empty())
    }

    /// Writes a line to what is tested.
    pub(super) fn write(&mut self, line: impl Into<Bytes>) {
        let line = line.into();
        if let Some(client) = &self.client {
            let launch = client.current();
            return self.write_to(launch, line);
        }
        self.inbox.record(self.now, Direction::ClientToAgent, &line);
        self.wire.last_activity = self.now;
        self.actions.push_back(RunAction::Write(line));
    }
}
