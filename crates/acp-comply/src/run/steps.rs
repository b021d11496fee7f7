//! Beginning steps, and the ones that only wait or look.

use super::claims::{Unmet, sighting};
use super::client::LaunchFilter;
use super::inbox::millis;
use super::{AgentAct, ERROR_WAIT, Purpose, Run, RunAction, Sent, State, TestEnding, Wire};
use crate::json::Json;
use crate::program::{Handshake, MessageKind, RawBytes, StepKind};
use crate::results::{StepRecord, StepState};
use crate::table::find;
use crate::verdict::{BreakKind, Sighting};
use acp_match::{Fill, Pattern, Template};
use acp_rpc::{Frame, View};
use bytes::Bytes;
use serde_json::Value;
use std::time::Duration;

/// How long a restart may take, before the factor.
const RESTART: Duration = Duration::from_secs(30);

impl Run {
    /// Begins the next step; `false` when nothing more can happen now.
    pub(super) fn begin_step(&mut self) -> bool {
        if std::mem::take(&mut self.login_due) {
            self.ask(Purpose::LoginFirst);
            return true;
        }
        let Some(turn) = self.order.get(self.at).copied() else { return self.all_steps_done() };
        if let Some(session) = self.due_setup() {
            self.wire.setting_up.current = Some(session);
            self.set_up(0);
            return true;
        }
        if self.entered != Some(self.at) {
            self.entered = Some(self.at);
            self.step_began = self.now;
            if turn.round > 0 {
                self.vars.set("iteration", turn.round);
            }
        }
        let kind = self.arena[turn.step].kind.clone();
        match kind {
            StepKind::NewSession { .. } => self.new_session(),
            StepKind::Send { frame, expect_error } => self.send(&frame, expect_error),
            StepKind::Expect(expect) => self.begin_expect(&expect),
            StepKind::Forbid { timeout, .. } => {
                self.tally.asserts = true;
                self.state = State::Forbidding(self.step_began + self.scaled(timeout));
            }
            StepKind::Delay(time) => self.state = State::Delaying(self.step_began + time),
            StepKind::Raw(bytes) => self.raw(&bytes),
            StepKind::Close if self.client.is_some() => {
                if !self.refuse_unlaunched("the agent could end its output") {
                    self.act(AgentAct::CloseOutput);
                    self.step_done(None);
                }
            }
            StepKind::Close => {
                self.wire.input_closed = true;
                self.actions.push_back(RunAction::CloseInput);
                self.step_done(None);
            }
            StepKind::Restart => self.start_again(RunAction::Restart),
            StepKind::Reconnect => self.start_again(RunAction::Reconnect),
            StepKind::PauseRead(time) => {
                match self.client {
                    Some(_) => self.act(AgentAct::PauseRead(time)),
                    None => self.actions.push_back(RunAction::PauseRead(time)),
                }
                self.state = State::Delaying(self.step_began + time);
            }
            StepKind::ExpectExit { timeout, .. } => {
                self.tally.asserts = true;
                self.wire.exit_wanted = true;
                self.state = State::Exiting(self.step_began + self.scaled(timeout));
            }
            StepKind::ExpectFile { timeout, .. } | StepKind::ExpectMcp { timeout, .. } => {
                self.begin_look(timeout);
            }
            StepKind::Unknown(name) => self.skip(&name),
            StepKind::Client(step) => self.begin_client_step(&step),
            // Repetitions were written out.
            StepKind::Repeat { .. } => self.step_done(None),
        }
        !matches!(self.state, State::Over)
    }

    fn all_steps_done(&mut self) -> bool {
        if self.wire.must_fail.is_empty() {
            self.end(TestEnding::Completed);
        } else {
            self.state = State::Draining(self.now + self.scaled(ERROR_WAIT));
        }
        true
    }

    /// Records the step and goes on to the next.
    pub(super) fn step_done(&mut self, detail: Option<String>) {
        self.record_step(StepState::Done, detail);
        self.at += 1;
        self.state = State::Ready;
    }

    pub(super) fn record_step(&mut self, state: StepState, detail: Option<String>) {
        let Some(turn) = self.order.get(self.at) else { return };
        let step = &self.arena[turn.step];
        self.records.push(StepRecord {
            line: step.line,
            kind: step.kind.name().to_owned(),
            at_ms: millis(self.step_began),
            took_ms: millis(self.now.saturating_sub(self.step_began)),
            state,
            detail,
        });
    }

    fn skip(&mut self, name: &str) {
        self.notes.push(format!("the step kind {name:?} is unknown; the step was skipped"));
        self.record_step(StepState::Skipped, None);
        self.at += 1;
    }

    fn new_session(&mut self) {
        if self.refuse_when_gone(|| "a session could be opened".to_owned()) {
            return;
        }
        if !self.wire.introduced && self.program.handshake != Handshake::Never {
            self.introduce();
        } else {
            self.ask(Purpose::OpenSession);
        }
    }

    fn refuse_when_gone(&mut self, before: impl FnOnce() -> String) -> bool {
        if self.client.is_some() {
            return self.refuse_unlaunched(&before());
        }
        let is_gone = self.wire.closed.is_some();
        if is_gone {
            let reason = format!("{} before {}", self.gone_words(), before());
            self.end(TestEnding::Gone(reason));
        }
        is_gone
    }

    fn send(&mut self, frame: &Json, expect_error: bool) {
        if self.refuse_when_gone(|| format!("{} could be sent", crate::outline::frame_words(frame))) {
            return;
        }
        let text = match frame.render(&self.vars) {
            Ok(text) => text,
            Err(error) => {
                let reason = self.missing_words(&error);
                return self.end(TestEnding::NotApplicable { reason, blocked: true });
            }
        };
        let line = Bytes::from(text);
        let parsed = Frame::parse(line.clone());
        self.open_window();
        if expect_error {
            self.tally.asserts = true;
            let step = self.order[self.at].step;
            self.wire.must_fail.extend(parsed.id().cloned().map(|id| (id, step)));
        }
        self.write(line);
        self.register(&parsed);
        self.step_done(parsed.method().map(str::to_owned));
    }

    fn raw(&mut self, bytes: &RawBytes) {
        if self.refuse_when_gone(|| "the bytes could be sent".to_owned()) {
            return;
        }
        let bytes = match bytes {
            RawBytes::Bytes(bytes) => bytes.clone(),
            RawBytes::Text(text) => {
                match Template::parse(text).and_then(|text| text.render(&self.vars, Fill::Raw)) {
                    Ok(text) => text.into_bytes(),
                    Err(error) => {
                        let reason = self.missing_words(&error);
                        return self.end(TestEnding::NotApplicable { reason, blocked: true });
                    }
                }
            }
        };
        self.open_window();
        let direction = self.said_direction();
        self.inbox.record(self.now, direction, &bytes);
        self.wire.last_activity = self.now;
        // What was there before has no line ending, so only the new bytes are searched.
        let mut searched = self.wire.partial.len();
        self.wire.partial.extend_from_slice(&bytes);
        while let Some(offset) = self.wire.partial[searched..].iter().position(|byte| *byte == b'\n') {
            let end = searched + offset;
            let line: Vec<u8> = self.wire.partial.drain(..=end).collect();
            self.register(&Frame::parse(line[..end].to_vec()));
            searched = 0;
        }
        match self.client {
            Some(_) => self.act(AgentAct::Raw(Bytes::from(bytes))),
            None => self.actions.push_back(RunAction::WriteRaw(Bytes::from(bytes))),
        }
        if self.wire.partial.is_empty() {
            self.write_waiting_lines();
        }
        self.step_done(None);
    }

    pub(super) fn open_window(&mut self) {
        self.joining.forget();
        self.wire.window = self.inbox.messages().len();
        self.tally.told = None;
        self.tally.taken = None;
    }

    /// Remembers what a frame of the test asks for.
    fn register(&mut self, frame: &Frame) {
        if let View::Batch(frames) = frame.view() {
            return frames.iter().for_each(|frame| self.register(frame));
        }
        self.wire.unruly |= matches!(frame.view(), View::Malformed(_));
        let is_answer = frame.result().is_some() || frame.error().is_some();
        if let (Some(id), false) = (frame.id(), is_answer) {
            let text = frame.text().unwrap_or_default();
            let sent = Sent {
                method: frame.method().map(str::to_owned),
                frame: sighting(millis(self.now), self.said_direction(), text),
                launch: self.client.as_ref().map_or(0, |client| client.current()),
            };
            if self.is_current_closed() {
                self.wire.lost.insert(id.clone());
            }
            self.wire.sent.insert(id.clone(), sent);
            self.wire.outstanding.push(id.clone());
            self.wire.last_request = Some(id.clone());
            self.wire.asked = true;
        }
        let Some(method) = frame.method().filter(|_| self.client.is_none()) else { return };
        let table = self.setup.table.clone();
        let value =
            || frame.text().and_then(|text| serde_json::from_str::<Value>(text).ok()).unwrap_or(Value::Null);
        if method == table.introduction.method {
            self.wire.introduced = true;
            self.own_introduction = frame.id().cloned();
            if let Some(offered) = find(&value(), &table.offered) {
                self.actions.push_back(RunAction::Offer(offered.clone()));
            }
        }
        if let (Some(opens), Some(id), false) = (
            table.opens.iter().find(|opens| opens.method == method),
            frame.id(),
            self.setup.after_session.is_empty(),
        ) {
            let named = opens.request.as_ref().and_then(|path| find(&value(), path).cloned());
            self.wire.setting_up.asked.insert(id.clone(), (named, opens.answer.clone()));
        }
        if let Some(cancel) = table.cancels.iter().find(|cancel| cancel.method == method) {
            let session = find(&value(), &cancel.session).and_then(Value::as_str).map(str::to_owned);
            self.actions.push_back(RunAction::CancelPending { session });
        }
    }

    /// The session of the test's own that must be set up before the next step. Steps that only wait or look do not need
    /// it, and may watch for what setting it up would bring.
    fn due_setup(&mut self) -> Option<Value> {
        let sends = matches!(
            self.kind(),
            Some(StepKind::Send { .. } | StepKind::Raw(_) | StepKind::NewSession { .. })
        );
        let may = sends && self.wire.outstanding.is_empty() && self.wire.closed.is_none();
        may.then(|| self.wire.setting_up.due.pop_front()).flatten()
    }

    fn start_again(&mut self, action: RunAction) {
        let lost = std::mem::take(&mut self.wire.outstanding);
        if !lost.is_empty() {
            let ids: Vec<String> = lost.iter().map(ToString::to_string).collect();
            self.notes
                .push(format!("requests without an answer when the agent was stopped: {}", ids.join(", ")));
        }
        let last_activity = self.now;
        self.tried_login = false;
        self.wire = Wire { last_activity, window: self.inbox.messages().len(), ..Wire::default() };
        self.actions.push_back(action);
        self.state = State::Starting(self.now + self.scaled(RESTART));
    }

    pub(super) fn check_start(&mut self, until: Duration) -> bool {
        let is_late = self.now >= until;
        if is_late {
            self.end(TestEnding::Fault("the agent could not be started again in time".to_owned()));
        }
        is_late
    }

    pub(super) fn check_delay(&mut self, until: Duration) -> bool {
        let is_over = self.now >= until;
        if is_over {
            self.step_done(None);
        }
        is_over
    }

    pub(super) fn check_forbid(&mut self, until: Duration) -> bool {
        let StepKind::Forbid { methods, messages, .. } = &self.arena[self.order[self.at].step].kind else {
            return false;
        };
        let patterns: Vec<(MessageKind, LaunchFilter, Pattern)> = messages
            .iter()
            .filter_map(|envelope| {
                let pattern = Pattern::compile_with(&envelope.pattern, &self.vars).ok()?;
                Some((envelope.kind, self.launch_filter(envelope.launch), pattern))
            })
            .collect();
        let window = &self.inbox.messages()[self.wire.window..];
        let hit = window.iter().position(|message| {
            let by_method = message
                .method
                .as_ref()
                .is_some_and(|method| methods.iter().any(|glob| glob_matches(glob, method)));
            let by_pattern = |(kind, launch, pattern): &(MessageKind, LaunchFilter, Pattern)| {
                launch.takes(message.launch) && message.is(*kind, pattern)
            };
            by_method || patterns.iter().any(by_pattern)
        });
        if let Some(hit) = hit {
            let (index, hit) = (self.wire.window + hit, &window[hit]);
            let what = hit.method.as_deref().unwrap_or("a response");
            let peer = self.peer();
            let reason = format!("{peer} sent {what}, which this test forbids, at {} ms", millis(hit.at));
            let did = format!("{peer} sent {what}, which must not come here");
            if self.program.is_claimed() {
                let frame = self.heard_at(index);
                self.unmet(Unmet::new(BreakKind::Forbidden, reason).did(did).frames(frame));
            } else {
                self.end(TestEnding::Forbidden(reason));
            }
            return true;
        }
        let is_quiet = self.quiet_from().is_some_and(|quiet| self.now >= quiet);
        if !(is_quiet || self.now >= until || self.is_gone()) {
            return false;
        }
        // Silence of a client shows something only when it was seen to do the thing otherwise.
        let did_something = match self.client {
            Some(_) => !self.program.needs.is_empty(),
            None => self.turn_did_something(),
        };
        self.tally.watched |= did_something;
        self.watched(did_something);
        self.step_done(None);
        true
    }

    /// The turn since the last `send` came to its end, and the agent did something in it. A turn whose wish was out of
    /// reach shows nothing.
    pub(super) fn turn_did_something(&self) -> bool {
        if self.tally.out_of_reach.is_some() {
            return false;
        }
        let window = &self.inbox.messages()[self.wire.window..];
        let did_something = window.iter().any(|message| message.kind != MessageKind::Response);
        let last = self.wire.last_request.as_ref();
        let succeeded = self.inbox.messages().iter().rev().any(|message| {
            message.kind == MessageKind::Response
                && message.id.as_ref() == last
                && message.value.get("result").is_some()
        });
        did_something && succeeded && self.wire.outstanding.is_empty()
    }

    pub(super) fn check_exit(&mut self, until: Duration) -> bool {
        let StepKind::ExpectExit { code, .. } = self.arena[self.order[self.at].step].kind else {
            return false;
        };
        let unmet = match (&self.wire.exit, code) {
            (Some(exit), Some(code)) if exit.code != Some(code) => {
                Unmet::new(BreakKind::Wrong, format!("the agent {exit}, expected code {code}"))
            }
            (Some(exit), _) => {
                let words = exit.to_string();
                self.tally.met += 1;
                self.step_met();
                self.step_done(Some(words));
                return true;
            }
            (None, _) if self.now >= until => {
                let waited = self.now.saturating_sub(self.step_began).as_millis();
                Unmet::new(BreakKind::Absent, format!("the agent did not exit within {waited} ms"))
            }
            (None, _) => return false,
        };
        self.unmet(unmet);
        true
    }

    pub(super) fn check_drain(&mut self, until: Duration) -> bool {
        let Some((id, step)) = self.wire.must_fail.first_key_value().map(|(id, step)| (id.clone(), *step))
        else {
            self.end(TestEnding::Completed);
            return true;
        };
        if self.is_gone() && self.program.is_claimed() {
            let reason = format!("{} before it refused request {id}", self.gone_words());
            self.end(TestEnding::Gone(reason));
            return true;
        }
        if self.is_gone() || self.now >= until {
            let reason = if self.is_gone() {
                format!("{} before it refused request {id}", self.gone_words())
            } else {
                format!("request {id} should have been refused, but it was not answered")
            };
            let frames: Vec<Sighting> = self.sent_as(&id).into_iter().collect();
            self.unanswered(&reason, &frames);
            let mut unmet = Unmet::new(BreakKind::Absent, reason).frames(frames);
            unmet.shows = Some(self.arena[step].marks.shows.clone());
            self.unmet(unmet);
            return true;
        }
        false
    }
}

/// `terminal/*` matches every method that begins so.
fn glob_matches(glob: &str, method: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = method.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = parts.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(found) = rest.find(piece) else { return false };
        rest = &rest[found + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::glob_matches;

    #[test]
    fn a_star_stands_for_any_text() {
        assert!(glob_matches("terminal/*", "terminal/create"));
        assert!(glob_matches("*/read*file", "fs/read_text_file"));
        assert!(glob_matches("*", "anything"));
        assert!(!glob_matches("terminal/*", "xterminal/create"));
        assert!(!glob_matches("fs/read", "fs/read_text_file"));
        assert!(!glob_matches("a*ab", "ab"));
    }
}
