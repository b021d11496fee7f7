//! What the steps of a test show about its claims.

use super::inbox::millis;
use super::{Run, State, TestEnding};
use crate::program::{Marks, Program, Step, StepKind};
use crate::results::StepState;
use crate::table::find;
use crate::verdict::{BreakKind, BrokenClaim, Sighting, StepEvidence};
use acp_proto::Direction;
use acp_rpc::Id;
use acp_rules::{ClaimId, Grade};
use serde_json::Value;
use std::collections::BTreeSet;

/// How much of a frame is kept as evidence, in characters.
const EXCERPT: usize = 400;

/// An expectation of the present step that was not met.
pub(super) struct Unmet {
    /// What was not met, in the words of a test without claims.
    pub reason: String,
    /// What the agent did, for a test with claims; the reason when there is nothing better.
    pub did: Option<String>,
    pub kind: BreakKind,
    pub frames: Vec<Sighting>,
    /// What is broken by it; by default what the step shows.
    pub shows: Option<Vec<ClaimId>>,
}

impl Unmet {
    pub fn new(kind: BreakKind, reason: impl Into<String>) -> Unmet {
        Unmet { reason: reason.into(), did: None, kind, frames: Vec::new(), shows: None }
    }

    pub fn did(mut self, words: impl Into<String>) -> Unmet {
        self.did = Some(words.into());
        self
    }

    pub fn frames(mut self, frames: impl IntoIterator<Item = Sighting>) -> Unmet {
        self.frames.extend(frames);
        self
    }
}

/// What a file says about its claims before it runs.
pub(super) fn evidence_of(program: &Program, arena: &[Step]) -> StepEvidence {
    let mut evidence = StepEvidence::default();
    for step in arena {
        let mut add = |marks: &Marks| {
            evidence.shown_by_steps.extend(marks.shows.iter().cloned());
            evidence.has_witness.extend(marks.witness.iter().cloned());
        };
        add(&step.marks);
        let StepKind::Expect(expect) = &step.kind else { continue };
        expect.messages.iter().for_each(|message| add(&message.marks));
        for envelope in expect.messages.iter().flat_map(|message| &message.alternatives) {
            evidence.has_witness.extend(envelope.witness.iter().cloned());
            evidence.shown_by_steps.extend(envelope.breaks.iter().cloned());
        }
    }
    evidence.shown_by_steps.retain(|claim| program.claims.contains(claim));
    evidence
}

impl Run {
    /// The step that runs now.
    fn marked_step(&self) -> Option<&Step> {
        self.order.get(self.at).map(|turn| &self.arena[turn.step])
    }

    /// What the present step asked for has come.
    pub(super) fn step_met(&mut self) {
        if let Some(step) = self.marked_step() {
            let marks = step.marks.clone();
            self.met(&marks, &BTreeSet::new());
        }
    }

    /// Takes note of what follows from an expectation that was met, without the claims that were broken by it.
    pub(super) fn met(&mut self, marks: &Marks, broken: &BTreeSet<ClaimId>) {
        self.evidence.held.extend(marks.shows.iter().filter(|claim| !broken.contains(claim)).cloned());
        self.saw(&marks.witness, &marks.provides);
    }

    pub(super) fn saw(&mut self, witness: &[ClaimId], provides: &[String]) {
        // What calibration did not see has been seen now.
        if !witness.is_empty() {
            self.tally.out_of_reach = None;
        }
        self.evidence.witnessed.extend(witness.iter().cloned());
        for name in provides {
            if !self.provided.contains(name) {
                self.provided.push(name.clone());
            }
        }
    }

    /// The present step watched for something that did not come.
    pub(super) fn watched(&mut self, did_something: bool) {
        let Some(step) = self.marked_step() else { return };
        for claim in step.marks.shows.clone() {
            *self.evidence.watched.entry(claim).or_default() |= did_something;
        }
        let provides = step_provides(self.marked_step());
        self.saw(&[], &provides);
    }

    /// What the present step asked for did not come, or came wrong. Without claims that ends the test. With claims the
    /// step breaks what it shows, and a step that shows nothing ends the test as not reached.
    pub(super) fn unmet(&mut self, unmet: Unmet) {
        if let (Some(reason), BreakKind::Absent) = (&self.tally.out_of_reach, unmet.kind) {
            return self.end(self.not_reached(reason.clone()));
        }
        if !self.program.is_claimed() {
            let prepares =
                self.marked_step().and_then(|step| step.unless.clone()).filter(|_| self.client.is_some());
            let ending = prepares.map_or(TestEnding::Unmet(unmet.reason), TestEnding::NotReached);
            return self.end(ending);
        }
        if self.meets_login() {
            return;
        }
        let step = self.marked_step();
        let shows = unmet.shows.or_else(|| step.map(|step| step.marks.shows.clone())).unwrap_or_default();
        let did = unmet.did.unwrap_or(unmet.reason);
        if shows.is_empty() {
            let reason = step.and_then(|step| step.unless.clone()).unwrap_or(did);
            return self.end(TestEnding::NotReached(reason));
        }
        let worst = self.break_claims(&shows, unmet.kind, &did, &unmet.frames);
        self.after_break(worst, did);
    }

    /// The ending of a test that came to nothing for this reason.
    pub(super) fn not_reached(&self, reason: String) -> TestEnding {
        if self.program.is_claimed() {
            TestEnding::NotReached(reason)
        } else {
            TestEnding::NotApplicable { reason, blocked: false }
        }
    }

    /// Ends the test when something failed; otherwise the next step begins.
    pub(super) fn after_break(&mut self, worst: Grade, did: String) {
        if worst == Grade::Fail || self.order.get(self.at).is_none() {
            return self.end(TestEnding::Unmet(did));
        }
        self.record_step(StepState::Unmet, Some(did));
        self.at += 1;
        self.state = State::Ready;
    }

    /// Takes note of broken claims; the worst grade among them.
    pub(super) fn break_claims(
        &mut self,
        claims: &[ClaimId],
        kind: BreakKind,
        words: &str,
        frames: &[Sighting],
    ) -> Grade {
        for claim in claims {
            let (claim, words, frames) = (claim.clone(), words.to_owned(), frames.to_vec());
            self.evidence.broken.push(BrokenClaim { claim, kind, words, frames });
        }
        claims.iter().map(ClaimId::grade).max().unwrap_or(Grade::Note)
    }

    /// What the present step waits for in order to show it, or else the next step that does: an agent that is gone, or
    /// never answers, breaks that too. What is broken already is left out.
    pub(super) fn shown_next(&self) -> Vec<ClaimId> {
        let mut steps = self.order.iter().skip(self.at).map(|turn| &self.arena[turn.step]);
        let shown = steps.find_map(|step| {
            let shows = self.awaited(step);
            (!shows.is_empty()).then_some(shows)
        });
        let is_new = |claim: &ClaimId| !self.evidence.broken.iter().any(|broken| broken.claim == *claim);
        shown.unwrap_or_default().into_iter().filter(is_new).collect()
    }

    /// The claims that a step shows by something that comes, without those that a message of it has shown.
    fn awaited(&self, step: &Step) -> Vec<ClaimId> {
        if matches!(step.kind, StepKind::Forbid { .. }) {
            return Vec::new();
        }
        let mut shows = step.marks.shows.clone();
        if let StepKind::Expect(expect) = &step.kind {
            let messages = expect.messages.iter().filter(|message| !message.optional);
            let of_messages = messages.flat_map(|message| &message.marks.shows);
            shows.extend(of_messages.filter(|claim| !self.evidence.held.contains(claim)).cloned());
        }
        shows
    }

    /// A request of ours was never answered, although the agent waits for nothing from us.
    pub(super) fn unanswered(&mut self, words: &str, frames: &[Sighting]) -> Option<Grade> {
        let claim = self.setup.table.broken_by.unanswered.clone().filter(|_| self.client.is_none())?;
        if self.wire.left_waiting || !self.wire.pending.is_empty() || !self.program.is_claimed() {
            return None;
        }
        let mut claims = vec![claim];
        claims.extend(self.shown_next());
        Some(self.break_claims(&claims, BreakKind::Absent, words, frames))
    }

    /// Ends a test with claims that an unexpected request to log in got in the way of; `true` when it did.
    pub(super) fn meets_login(&mut self) -> bool {
        if self.client.is_some() {
            return false;
        }
        let Some((message, frame)) = self.login_wanted().map(|(text, frame)| (text.to_owned(), frame)) else {
            return false;
        };
        self.stopped_by_login(&message, frame);
        true
    }

    /// A login is wanted: by an agent that offers one, it is in the way; by one that offers none, it is wrong.
    pub(super) fn stopped_by_login(&mut self, message: &str, frame: Option<Sighting>) {
        let claim = self.setup.table.broken_by.login_without_methods.clone();
        if let (Some(claim), true, true) = (claim, self.program.is_claimed(), self.offers_no_login()) {
            let did = format!("the agent asked for a login ({message}), but offers no way to log in");
            let frames: Vec<Sighting> = frame.into_iter().collect();
            self.break_claims(&[claim], BreakKind::Wrong, &did, &frames);
            return self.end(TestEnding::Unmet(did));
        }
        let reason = format!("authentication required: {message}");
        self.end(TestEnding::NotApplicable { reason, blocked: true });
    }

    /// The agent introduced itself without a single way to log in.
    fn offers_no_login(&self) -> bool {
        let known = self.introduction.as_ref().or(self.setup.introduction.as_ref());
        known.is_some_and(|introduction| {
            let methods = find(introduction, &self.setup.table.auth_methods);
            methods.and_then(Value::as_array).is_none_or(Vec::is_empty)
        })
    }

    /// A message of the agent as evidence.
    pub(super) fn heard_at(&self, index: usize) -> Option<Sighting> {
        let message = self.inbox.messages().get(index)?;
        Some(sighting(millis(message.at), self.heard_direction(), &message.value.to_string()))
    }

    /// A request of the test as evidence.
    pub(super) fn sent_as(&self, id: &Id) -> Option<Sighting> {
        self.wire.sent.get(id).map(|request| request.frame.clone())
    }

    /// A request of the test in words: its method, or its id.
    pub(super) fn request_words(&self, id: &Id) -> String {
        match self.wire.sent.get(id).and_then(|request| request.method.as_deref()) {
            Some(method) => format!("{method} (request {id})"),
            None => format!("request {id}"),
        }
    }
}

fn step_provides(step: Option<&Step>) -> Vec<String> {
    step.map(|step| step.marks.provides.clone()).unwrap_or_default()
}

/// A frame as evidence, shortened.
pub(super) fn sighting(at_ms: f64, dir: Direction, text: &str) -> Sighting {
    let mut excerpt: String = text.chars().take(EXCERPT).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    Sighting { at_ms, dir, excerpt }
}
