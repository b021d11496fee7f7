//! From an ending to an outcome.

use super::inbox::millis;
use super::{Action, Ending, Run, State};
use crate::program::{MessageKind, Program, Severity, StepKind};
use crate::results::{Outcome, StepRecord, StepState, Verdict};
use acp_match::Pattern;
use serde_json::Value;

/// How many steps that were not reached are listed.
const LISTED: usize = 50;

impl Run {
    /// Ends the test. Later endings are ignored.
    pub(super) fn end(&mut self, ending: Ending) {
        if matches!(self.state, State::Over) {
            return;
        }
        let ending = self.settle(ending);
        let is_whole = matches!(ending, Ending::Completed);
        let mut outcome = blank(&self.program);
        self.fill(&mut outcome);
        self.judge(&mut outcome, ending);
        if !is_whole {
            self.record_rest(&outcome);
        }
        outcome.steps = std::mem::take(&mut self.records);
        self.state = State::Over;
        self.actions.push_back(Action::Done(Box::new(outcome)));
    }

    /// An ending may be something else on a second look.
    fn settle(&self, ending: Ending) -> Ending {
        match ending {
            Ending::Completed => {
                let is_unasked =
                    self.wire.closed.is_some() && !self.wire.exit_wanted && !self.wire.input_closed;
                if is_unasked {
                    let reason = format!("{} before the test was over", self.gone_words());
                    return Ending::Gone { reason, difference: None };
                }
                Ending::Completed
            }
            Ending::Unmet { reason, difference } => match self.login_wanted() {
                Some(message) => Ending::NotApplicable {
                    reason: format!("authentication required: {message}"),
                    blocked: true,
                },
                None => Ending::Unmet { reason, difference },
            },
            other => other,
        }
    }

    /// The message of an answer that asks for a login and that the test did not expect.
    fn login_wanted(&self) -> Option<&str> {
        let code = self.setup.table.auth_required;
        if self.is_about_logins() {
            return None;
        }
        self.inbox
            .messages()
            .iter()
            .filter(|message| !message.consumed && message.kind == MessageKind::Response)
            .find_map(|message| {
                let error = message.value.get("error")?;
                let is_it = error.get("code").and_then(Value::as_i64) == Some(code);
                is_it.then(|| error.get("message").and_then(Value::as_str).unwrap_or("no message"))
            })
    }

    /// The test logs in by itself, or its expectations speak of the code that asks for it: then that answer is a matter
    /// of the test, not something in its way.
    fn is_about_logins(&self) -> bool {
        let table = &self.setup.table;
        let code = table.auth_required.to_string();
        self.arena.iter().any(|step| match &step.kind {
            StepKind::Send { frame, .. } => frame
                .get("method")
                .is_some_and(|method| method.to_value() == table.authentication.method.as_str()),
            StepKind::Expect(expect) => expect
                .messages
                .iter()
                .flat_map(|message| &message.alternatives)
                .any(|envelope| envelope.pattern.to_string().contains(&code)),
            _ => false,
        })
    }

    fn fill(&mut self, outcome: &mut Outcome) {
        outcome.notes = std::mem::take(&mut self.notes);
        if self.inbox.noise > 0 {
            let count = self.inbox.noise;
            let first = self.inbox.first_noise.as_deref().unwrap_or("");
            let lines = if count == 1 { "line is no message" } else { "lines are no messages" };
            outcome.notes.push(format!("{count} {lines}: {first:?}"));
        }
        outcome.unanswered = self.wire.outstanding.iter().map(ToString::to_string).collect();
        outcome.exit.clone_from(&self.wire.exit);
        outcome.duration_ms = millis(self.now);
        outcome.met = self.tally.met;
        outcome.asserts = self.tally.asserts || self.only_opens();
        let (transcript, elided) = self.inbox.transcript();
        outcome.transcript = transcript;
        outcome.elided = elided;
    }

    fn judge(&self, outcome: &mut Outcome, ending: Ending) {
        let severity = self.program.severity;
        let failed = if severity == Severity::Advice { Verdict::Warn } else { Verdict::Fail };
        let (verdict, reason) = match ending {
            Ending::Completed => {
                outcome.vacuous = self.is_vacuous();
                let words = "it held, but the behaviour that it watches never happened".to_owned();
                (Verdict::Pass, outcome.vacuous.then_some(words))
            }
            Ending::Unmet { reason, difference } => {
                outcome.difference = difference;
                let is_part = severity == Severity::Optional && self.tally.met > 0;
                (if is_part { Verdict::Partial } else { failed }, Some(reason))
            }
            Ending::Gone { reason, difference } => {
                outcome.difference = difference;
                (failed, Some(reason))
            }
            Ending::Forbidden(reason) => (failed, Some(reason)),
            Ending::NotApplicable { reason, blocked } => {
                outcome.blocked = blocked;
                (Verdict::Na, Some(reason))
            }
            Ending::Fault(reason) => (Verdict::Error, Some(reason)),
        };
        outcome.verdict = verdict;
        outcome.reason = reason;
    }

    fn is_vacuous(&self) -> bool {
        let showed_nothing = self.tally.met == 0 && !self.tally.watched && !self.only_opens();
        showed_nothing || !self.was_exercised()
    }

    /// A test that opens sessions and does nothing else shows that sessions can be opened.
    fn only_opens(&self) -> bool {
        let quiet = |kind: &StepKind| matches!(kind, StepKind::NewSession { .. } | StepKind::Delay(_));
        self.tally.opened && self.order.iter().all(|turn| quiet(&self.arena[turn.step].kind))
    }

    fn was_exercised(&self) -> bool {
        let wanted = &self.program.exercised;
        wanted.is_empty()
            || wanted.iter().any(|envelope| {
                let Ok(pattern) = Pattern::compile_with(&envelope.pattern, &self.vars) else { return false };
                let mut messages = self.inbox.messages().iter();
                messages.any(|message| message.kind == envelope.kind && pattern.matches(&message.value))
            })
    }

    /// The step that ended it, and those that were not reached.
    fn record_rest(&mut self, outcome: &Outcome) {
        let is_unmet = matches!(outcome.verdict, Verdict::Fail | Verdict::Warn | Verdict::Partial);
        let state = if is_unmet { StepState::Unmet } else { StepState::Skipped };
        self.record_step(state, outcome.reason.clone());
        let now = millis(self.now);
        for turn in self.order.iter().skip(self.at + 1).take(LISTED) {
            let step = &self.arena[turn.step];
            let kind = step.kind.name().to_owned();
            let skipped = StepState::Skipped;
            self.records.push(StepRecord {
                line: step.line,
                kind,
                at_ms: now,
                took_ms: 0.0,
                state: skipped,
                detail: None,
            });
        }
    }
}

/// An outcome with the test's own words and nothing else.
pub(crate) fn blank(program: &Program) -> Outcome {
    Outcome {
        id: program.id.clone(),
        file: program.file.clone(),
        title: program.title.clone(),
        description: program.description.clone(),
        severity: program.severity,
        area: program.area.clone(),
        docs: program.docs.clone(),
        requirements: program.requirements.clone(),
        aliases: program.aliases.clone(),
        verdict: Verdict::Error,
        vacuous: false,
        blocked: false,
        reason: None,
        notes: Vec::new(),
        steps: Vec::new(),
        difference: None,
        unanswered: Vec::new(),
        exit: None,
        findings: Vec::new(),
        transcript: Vec::new(),
        elided: 0,
        duration_ms: 0.0,
        attempts: Vec::new(),
        expected: None,
        model: Vec::new(),
        met: 0,
        asserts: false,
    }
}
