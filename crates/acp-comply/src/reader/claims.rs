//! Reading what steps and messages show about requirements.

use super::Reader;
use super::nearest::nearest;
use crate::json::Json;
use crate::program::{Envelope, Marks, StepKind};
use acp_rules::{ClaimId, registry};
use std::collections::BTreeSet;
use std::ops::Range;

impl Reader<'_> {
    /// `shows`, `witness` and `provides` beside a step's kind.
    pub(super) fn step_marks(&mut self, item: &Json, kind: &StepKind) -> Marks {
        let marks = self.marks(item);
        let can_be_unmet = match kind {
            StepKind::NewSession { .. }
            | StepKind::Expect(_)
            | StepKind::Forbid { .. }
            | StepKind::ExpectExit { .. }
            | StepKind::ExpectFile { .. }
            | StepKind::ExpectMcp { .. } => true,
            StepKind::Send { expect_error, .. } => *expect_error,
            StepKind::Client(step) => step.can_be_unmet(),
            _ => false,
        };
        if !can_be_unmet && let Some((key, place)) = first_mark(item) {
            self.error(place, format!("this step expects nothing, so {key} says nothing"))
                .hint("put it on an expect, forbid, expectExit, expectFile or expectMcp step, or on a send with expectError");
        }
        if let (StepKind::Forbid { .. }, Some(witness)) = (kind, item.get("witness")) {
            self.error(witness.span.clone(), "a forbid step sees nothing come, so it is no witness")
                .hint("put witness on an expect step that shows that the situation arose");
        }
        if let (StepKind::Expect(expect), Some(shows)) = (kind, item.get("shows")) {
            self.check_shows_something(expect.messages.iter().all(|message| message.optional), shows);
        }
        marks
    }

    /// `shows`, `witness` and `provides` of an object.
    pub(super) fn marks(&mut self, item: &Json) -> Marks {
        let marks = Marks {
            shows: self.claims(item, "shows"),
            witness: self.claims(item, "witness"),
            provides: self.texts(item, "provides"),
        };
        self.shown.extend(marks.shows.iter().cloned());
        marks
    }

    /// A claim that is shown by something that need not come is never shown.
    pub(super) fn check_shows_something(&mut self, is_optional: bool, shows: &Json) {
        if is_optional {
            self.error(shows.span.clone(), "an optional message shows nothing: it is met without it")
                .hint("use \"witness\" to say that its coming matters, or drop \"optional\"");
        }
    }

    /// The further alternatives of an expected message that meet it but break something lighter.
    pub(super) fn accepts(&mut self, item: &Json) -> Vec<Envelope> {
        let mut found = Vec::new();
        for accepted in self.list_at(item, "accepts") {
            let Some(mut envelope) = self.alternative(accepted) else { continue };
            envelope.breaks = self.claims(accepted, "breaks");
            envelope.inconclusive = self.words_at(accepted, "inconclusive");
            if envelope.breaks.is_empty() && envelope.inconclusive.is_none() {
                self.error(accepted.span.clone(), "an accepted alternative says what it breaks").hint(
                    "add \"breaks\": [ids] or \"inconclusive\": \"why\"; use anyOf for what is just as good",
                );
            }
            self.shown.extend(envelope.breaks.iter().cloned());
            found.push(envelope);
        }
        found
    }

    /// A list of claims, each known to the registry.
    pub(super) fn claims(&mut self, json: &Json, key: &str) -> Vec<ClaimId> {
        let mut found = Vec::new();
        for item in self.list_at(json, key) {
            let Some(text) = item.as_text() else {
                self.wrong_type(key, "a list of strings", item);
                continue;
            };
            match text.parse::<ClaimId>() {
                Ok(claim) => found.push(claim),
                Err(error) => {
                    let hint = claim_hint(text);
                    self.error(item.span.clone(), error.to_string()).hint(hint);
                }
            }
        }
        found
    }

    /// What the file claims: the known requirements it lists, and everything that its steps show.
    pub(super) fn file_claims(&mut self, json: &Json) -> Vec<ClaimId> {
        let mut claims: BTreeSet<ClaimId> = BTreeSet::new();
        for item in self.list_at(json, "requirements") {
            let Some(text) = item.as_text() else { continue };
            match text.parse::<ClaimId>() {
                Ok(claim) => {
                    claims.insert(claim);
                }
                Err(error) => {
                    let hint = claim_hint(text);
                    self.warning(item.span.clone(), format!("{error}; nothing is judged by it")).hint(hint);
                }
            }
        }
        let is_listed = |shown: &ClaimId| claims.iter().any(|claim| claim.row() == shown.row());
        let unlisted: Vec<ClaimId> = self.shown.iter().filter(|shown| !is_listed(shown)).cloned().collect();
        for claim in unlisted {
            let start = json.get("requirements").map_or(json.span.start, |list| list.span.start);
            self.warning(
                start..start + 1,
                format!("a step shows {claim}, which \"requirements\" does not list"),
            )
            .hint(format!("add {:?} to \"requirements\"", claim.row()));
        }
        claims.extend(self.shown.iter().cloned());
        claims.into_iter().collect()
    }
}

fn first_mark(item: &Json) -> Option<(&str, Range<usize>)> {
    let is_mark = |key: &str| matches!(key, "shows" | "witness" | "provides" | "unless");
    let found = item.members().iter().find(|member| is_mark(&member.key))?;
    Some((found.key.as_str(), found.key_span.clone()))
}

fn claim_hint(claim: &str) -> String {
    let row = claim.split('/').next().unwrap_or(claim);
    let known = registry().all().iter().map(|row| row.id.as_str());
    match nearest(row, known).filter(|near| *near != row) {
        Some(near) => format!("did you mean {near:?}?"),
        None => "`acp requirements` lists requirements and their clauses".to_owned(),
    }
}
