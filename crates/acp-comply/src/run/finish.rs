//! From an ending to an outcome.

use super::inbox::millis;
use super::{Run, RunAction, State};
use crate::program::{MessageKind, Program, StepKind};
use crate::results::{StepRecord, StepState, TestOutcome, Verdict};
use crate::verdict::{BreakKind, ClaimResult, ClaimState, Sighting, TestEnding, TestEvidence, verdict};
use acp_match::Pattern;
use acp_rpc::Id;
use acp_rules::ClaimId;
use serde_json::Value;

/// How many steps that were not reached are listed.
const LISTED: usize = 50;

impl Run {
    /// Ends the test. Later endings are ignored.
    pub(super) fn end(&mut self, ending: TestEnding) {
        if matches!(self.state, State::Over) {
            return;
        }
        self.close_turns();
        let ending = self.settle(ending);
        let is_whole = matches!(ending, TestEnding::Completed);
        if !matches!(ending, TestEnding::Unmet(_) | TestEnding::Gone(_)) {
            self.difference = None;
        }
        let mut outcome = blank(&self.program);
        self.fill(&mut outcome);
        let evidence = self.gathered(ending);
        outcome.decide(verdict(&evidence, None));
        outcome.evidence = Some(Box::new(evidence));
        if !is_whole {
            self.record_rest(&outcome);
        }
        outcome.steps = std::mem::take(&mut self.records);
        self.state = State::Over;
        self.actions.push_back(RunAction::Done(Box::new(outcome)));
    }

    /// An ending may be something else on a second look.
    fn settle(&mut self, ending: TestEnding) -> TestEnding {
        if self.client.is_some() {
            return match ending {
                TestEnding::Gone(reason) => self.not_reached(reason),
                other => other,
            };
        }
        let is_claimed = self.program.is_claimed();
        let is_unasked = !self.wire.exit_wanted && !self.wire.input_closed;
        let ending = match ending {
            // Nothing but answers came: what was wished did not happen.
            TestEnding::Completed if !self.tally.heard && self.tally.out_of_reach.is_some() => {
                self.not_reached(self.tally.out_of_reach.clone().unwrap_or_default())
            }
            TestEnding::Completed if self.wire.closed.is_some() && is_unasked => {
                TestEnding::Gone(format!("{} before the test was over", self.gone_words()))
            }
            TestEnding::Gone(reason) if is_claimed && !is_unasked => TestEnding::NotReached(reason),
            TestEnding::Unmet(reason) if !is_claimed => match self.login_wanted() {
                Some((message, _)) => TestEnding::NotApplicable {
                    reason: format!("authentication required: {message}"),
                    blocked: true,
                },
                None => TestEnding::Unmet(reason),
            },
            other => other,
        };
        if let (TestEnding::Gone(reason), true, Some(claim)) =
            (&ending, is_claimed, self.setup.table.broken_by.died.clone())
        {
            let mut claims = if self.program.may_end { Vec::new() } else { vec![claim] };
            claims.extend(self.shown_next());
            self.break_claims(&claims, BreakKind::Wrong, reason, &[]);
        }
        ending
    }

    /// Everything that the conversation showed.
    fn gathered(&mut self, ending: TestEnding) -> TestEvidence {
        let mut steps = std::mem::take(&mut self.evidence);
        steps.met = self.tally.met;
        steps.asserts = self.tally.asserts || self.only_opens();
        steps.is_vacuous = self.is_vacuous();
        let provokes = self.program.client.as_ref().map(|client| client.provokes.clone()).unwrap_or_default();
        TestEvidence {
            claims: self.program.claims.clone(),
            severity: self.program.severity,
            steps,
            ending,
            provokes,
        }
    }

    /// The message of an answer that asks for a login and that the test did not expect, and its frame. An answer to
    /// something that needs no login is just a wrong code to a test with claims.
    pub(super) fn login_wanted(&self) -> Option<(&str, Option<Sighting>)> {
        let code = self.setup.table.auth_required;
        if self.is_about_logins() {
            return None;
        }
        let messages = self.inbox.messages().iter().enumerate();
        messages
            .filter(|(_, message)| !message.consumed && message.kind == MessageKind::Response)
            .filter(|(_, message)| self.may_need_login(message.id.as_ref()))
            .find_map(|(index, message)| {
                let error = message.value.get("error")?;
                let is_it = error.get("code").and_then(Value::as_i64) == Some(code);
                let text = error.get("message").and_then(Value::as_str).unwrap_or("no message");
                is_it.then(|| (text, self.heard_at(index)))
            })
    }

    /// Whether an agent may want a login before it answers this request.
    fn may_need_login(&self, id: Option<&Id>) -> bool {
        let listed = &self.setup.table.needs_login;
        if listed.is_empty() || !self.program.is_claimed() {
            return true;
        }
        let method = id.and_then(|id| self.wire.sent.get(id)).and_then(|sent| sent.method.as_ref());
        method.is_some_and(|method| listed.contains(method))
    }

    /// The test logs in by itself, or its expectations speak of the code that asks for it: then that answer is a matter
    /// of the test, not something in its way.
    pub(super) fn is_about_logins(&self) -> bool {
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

    fn fill(&mut self, outcome: &mut TestOutcome) {
        outcome.notes = std::mem::take(&mut self.notes);
        if self.inbox.noise > 0 {
            let count = self.inbox.noise;
            let first = self.inbox.first_noise.as_deref().unwrap_or("");
            let (lines, are) =
                if count == 1 { ("line", "is not a message") } else { ("lines", "are not messages") };
            outcome.notes.push(format!("{count} {lines} from {} {are}: {first:?}", self.peer()));
        }
        outcome.unanswered = self.wire.outstanding.iter().map(ToString::to_string).collect();
        outcome.exit.clone_from(&self.wire.exit);
        outcome.duration_ms = millis(self.now);
        outcome.met = self.tally.met;
        outcome.asserts = self.tally.asserts || self.only_opens();
        outcome.difference = self.difference.take();
        outcome.provided = std::mem::take(&mut self.provided);
        outcome.not_understood = self.program.not_understood.is_some();
        let (transcript, elided) = self.inbox.transcript();
        outcome.transcript = transcript;
        outcome.elided = elided;
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
                messages.any(|message| message.is(envelope.kind, &pattern))
            })
    }

    /// The step that ended it, and those that were not reached.
    fn record_rest(&mut self, outcome: &TestOutcome) {
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
pub(crate) fn blank(program: &Program) -> TestOutcome {
    TestOutcome {
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
        claims: program.claims.iter().map(unreached).collect(),
        needs_second_run: false,
        not_understood: false,
        provided: Vec::new(),
        evidence: None,
    }
}

fn unreached(claim: &ClaimId) -> ClaimResult {
    ClaimResult {
        id: claim.clone(),
        grade: claim.grade(),
        state: ClaimState::NotReached,
        kind: None,
        reason: None,
        frames: Vec::new(),
    }
}
