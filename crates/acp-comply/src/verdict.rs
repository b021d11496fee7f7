//! From evidence to verdict, in one place.
//!
//! A test with claims is judged by its requirements: each claim is held, broken, not reached or inconclusive, and the
//! worst broken one decides ([`verdict`]). A test without claims is judged by its severity, as the plain format says
//! (the `foreign` module). [`roll_up`] takes the claims and the judge's findings of a whole run together, requirement by
//! requirement, and [`Conformance`] says what an agent comes to.

mod conformance;
mod foreign;
mod roll_up;

use crate::program::UnmetSeverity;
use crate::results::{FindingRef, Verdict};
use acp_proto::Direction;
use acp_rules::{ClaimId, Grade, Side, registry};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub use conformance::{Conformance, ConformancePolicy, RunStanding};
pub use roll_up::{RequirementEvidence, RequirementResult, RequirementState, roll_up};

/// Everything that one conversation showed, before the judge speaks.
#[derive(Debug, Clone, PartialEq)]
pub struct TestEvidence {
    /// What the test claims; nothing for a test without requirements.
    pub claims: Vec<ClaimId>,
    /// What an unmet expectation means in a test without claims.
    pub severity: UnmetSeverity,
    /// What its steps showed.
    pub steps: StepEvidence,
    /// How it ended.
    pub ending: TestEnding,
    /// What the runner's agent breaks on purpose, in a test of a client.
    pub provokes: Vec<String>,
}

/// What the steps of a test showed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepEvidence {
    /// Claims that some step of the file shows; the others are the judge's alone.
    pub shown_by_steps: BTreeSet<ClaimId>,
    /// Claims that some step of the file is a witness for.
    pub has_witness: BTreeSet<ClaimId>,
    /// Claims shown by an expectation that was met.
    pub held: BTreeSet<ClaimId>,
    /// Claims of steps that watched for something that did not come, and whether the watched turn came to its end and
    /// did something.
    pub watched: BTreeMap<ClaimId, bool>,
    /// Claims whose situation arose.
    pub witnessed: BTreeSet<ClaimId>,
    /// What was broken, in the order it happened.
    pub broken: Vec<BrokenClaim>,
    /// Expectations that were met.
    pub met: usize,
    /// The test asserts something by its own steps, not only through the judge.
    pub asserts: bool,
    /// Nothing that the test watches happened.
    pub is_vacuous: bool,
}

/// One broken claim.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokenClaim {
    /// What is broken.
    pub claim: ClaimId,
    /// How.
    pub kind: BreakKind,
    /// What the agent did, in a sentence without its subject: "answered request 2 with an error".
    pub words: String,
    /// The frames that show it.
    pub frames: Vec<Sighting>,
}

/// How a claim was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BreakKind {
    /// Something came, and it was wrong.
    Wrong,
    /// Something came that must not.
    Forbidden,
    /// Something did not come. This counts only after a second run of the test by itself.
    Absent,
}

/// A frame as evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sighting {
    /// Milliseconds since the test began.
    pub at_ms: f64,
    /// Which way it went.
    pub dir: Direction,
    /// The beginning of the frame.
    pub excerpt: String,
}

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestEnding {
    /// Every step was done.
    Completed,
    /// An expectation was not met, or a step broke a claim that fails.
    Unmet(String),
    /// The agent ended, or closed its output, unasked.
    Gone(String),
    /// Something came that a test without claims forbids.
    Forbidden(String),
    /// What the test is about never came up.
    NotReached(String),
    /// It came up, but what happened says nothing either way.
    Inconclusive(String),
    /// The test does not apply to this agent, or something was in the way.
    NotApplicable {
        /// Why.
        reason: String,
        /// The environment was in the way.
        blocked: bool,
    },
    /// The runner or the machine failed.
    Fault(String),
}

/// What a test came to.
#[derive(Debug, Clone, PartialEq)]
pub struct TestVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is not a plain pass, in a sentence.
    pub reason: Option<String>,
    /// A pass without claims in which nothing happened that the test watches.
    pub vacuous: bool,
    /// The environment was in the way.
    pub blocked: bool,
    /// What became of each claim.
    pub claims: Vec<ClaimResult>,
    /// Something failed or warned only because it did not come: run the test again by itself before it counts.
    pub needs_second_run: bool,
    /// Broken claims of grade note, in words.
    pub notes: Vec<String>,
}

/// What became of one claim in one test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimResult {
    /// The requirement, or one clause of it.
    pub id: ClaimId,
    /// What breaking it means.
    pub grade: Grade,
    /// What became of it.
    pub state: ClaimState,
    /// How it was broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<BreakKind>,
    /// What the agent did, or why the claim was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The frames that show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Sighting>,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimState {
    /// The situation arose, and the agent did right.
    Held,
    /// The agent did wrong.
    Broken,
    /// The situation never arose.
    NotReached,
    /// The situation arose, but what happened says nothing either way.
    Inconclusive,
}

/// What the judge says about one conversation.
#[derive(Debug, Clone, Copy)]
pub struct JudgeReport<'a> {
    /// Its findings, on any requirement.
    pub findings: &'a [FindingRef],
    /// The requirements whose situation arose.
    pub exercised: &'a BTreeSet<String>,
}

/// Judges one test, before or after the judge of its conversation has spoken.
pub fn verdict(evidence: &TestEvidence, judged: Option<JudgeReport<'_>>) -> TestVerdict {
    if evidence.claims.is_empty() {
        return foreign::verdict(evidence, judged.is_some());
    }
    let nothing = BTreeSet::new();
    let judged = judged.unwrap_or(JudgeReport { findings: &[], exercised: &nothing });
    let claims = claim_results(evidence, judged);
    let broken = claims.iter().rev().filter(|claim| claim.state == ClaimState::Broken);
    let worst = broken.max_by_key(|claim| claim.grade);
    let mut found = TestVerdict {
        verdict: Verdict::Na,
        reason: None,
        vacuous: false,
        blocked: false,
        needs_second_run: false,
        notes: notes(&claims),
        claims: Vec::new(),
    };
    match (&evidence.ending, worst.map(|worst| (worst.grade, worst))) {
        (TestEnding::Fault(reason), _) => {
            found.verdict = Verdict::Error;
            found.reason = Some(reason.clone());
        }
        (_, Some((grade @ (Grade::Fail | Grade::Warn), worst))) => {
            found.verdict = if grade == Grade::Fail { Verdict::Fail } else { Verdict::Warn };
            found.reason = Some(broken_words(worst));
            found.needs_second_run = rests_on_absence(&claims, grade);
        }
        // What is only worth a note was reached, too.
        _ if claims.iter().any(|claim| matches!(claim.state, ClaimState::Held | ClaimState::Broken)) => {
            found.verdict = Verdict::Pass;
        }
        (ending, _) => {
            let (reason, blocked) = nothing_held(ending, &claims);
            found.reason = Some(reason);
            found.blocked = blocked;
        }
    }
    found.claims = claims;
    found
}

/// Whether everything that was broken at this grade is an absence.
fn rests_on_absence(claims: &[ClaimResult], grade: Grade) -> bool {
    let mut broken = claims.iter().filter(|claim| claim.state == ClaimState::Broken && claim.grade == grade);
    broken.all(|claim| claim.kind == Some(BreakKind::Absent))
}

fn notes(claims: &[ClaimResult]) -> Vec<String> {
    let noted = claims.iter().filter(|claim| claim.state == ClaimState::Broken && claim.grade == Grade::Note);
    noted.map(broken_words).collect()
}

/// What the agent did, and what the protocol asks.
fn broken_words(claim: &ClaimResult) -> String {
    let did = claim.reason.as_deref().unwrap_or("it was broken");
    match asked(&claim.id) {
        Some(text) => format!("{did}; the protocol asks: {text} ({})", claim.id),
        None => format!("{}: {did}", claim.id),
    }
}

/// What a requirement, or a clause of it, asks for.
pub(crate) fn asked(claim: &ClaimId) -> Option<&'static str> {
    let row = registry().get(claim.row())?;
    let clause = claim.clause().and_then(|name| row.clauses.get(name));
    Some(clause.map_or(row.text.as_str(), |clause| clause.text.as_str()).trim_end_matches('.'))
}

fn nothing_held(ending: &TestEnding, claims: &[ClaimResult]) -> (String, bool) {
    match ending {
        TestEnding::NotApplicable { reason, blocked } => (reason.clone(), *blocked),
        TestEnding::Inconclusive(reason) => (format!("inconclusive: {reason}"), false),
        TestEnding::NotReached(reason) => (format!("not reached: {reason}"), false),
        _ => {
            let first = claims.iter().find_map(|claim| claim.reason.as_deref());
            (
                format!(
                    "not reached: {}",
                    first.unwrap_or("the behaviour that the test is about never happened")
                ),
                false,
            )
        }
    }
}

/// Every claim of the test, and every further one that its steps or the judge found broken; the broken ones first.
fn claim_results(evidence: &TestEvidence, judged: JudgeReport<'_>) -> Vec<ClaimResult> {
    let mut results: Vec<ClaimResult> = Vec::new();
    let mut add = |result: ClaimResult| {
        if !results.iter().any(|known| known.id == result.id) {
            results.push(result);
        }
    };
    for broken in &evidence.steps.broken {
        add(ClaimResult {
            id: broken.claim.clone(),
            grade: broken.claim.grade(),
            state: ClaimState::Broken,
            kind: Some(broken.kind),
            reason: Some(broken.words.clone()),
            frames: broken.frames.clone(),
        });
    }
    for finding in judged.findings.iter().filter(|finding| is_claimed(finding, &evidence.claims)) {
        let Some(id) = finding.claim() else { continue };
        add(ClaimResult {
            id,
            grade: finding.grade,
            state: ClaimState::Broken,
            kind: Some(if finding.absent { BreakKind::Absent } else { BreakKind::Wrong }),
            reason: Some(finding.message.clone()),
            frames: finding.evidence.iter().map(Sighting::from).collect(),
        });
    }
    for claim in &evidence.claims {
        let (state, reason) = unbroken(claim, evidence, judged.exercised);
        let (id, grade) = (claim.clone(), claim.grade());
        add(ClaimResult { id, grade, state, kind: None, reason, frames: Vec::new() });
    }
    results
}

/// Whether a finding of the judge is about something that the test claims.
pub(crate) fn is_claimed(finding: &FindingRef, claims: &[ClaimId]) -> bool {
    let is_meant =
        |claim: &ClaimId| claim.row() == finding.requirement && finding.blame == bound_side(claim.row());
    claims.iter().any(is_meant)
}

/// The side that a requirement binds.
fn bound_side(row: &str) -> Side {
    registry().get(row).map_or(Side::Agent, |row| row.binds)
}

/// Why what a client broke does not count: the runner's own agent had broken the protocol before, and not on purpose.
pub(crate) fn own_fault(
    evidence: &TestEvidence,
    claims: &[ClaimResult],
    findings: &[FindingRef],
) -> Option<String> {
    if evidence.claims.first().is_none_or(|claim| bound_side(claim.row()) != Side::Client) {
        return None;
    }
    let broken = claims.iter().filter(|claim| claim.state == ClaimState::Broken);
    let last = broken.flat_map(|claim| &claim.frames).map(|frame| frame.at_ms).reduce(f64::max);
    let fault = findings.iter().find(|finding| {
        let at = finding.evidence.first().map_or(0.0, |evidence| evidence.at_ms);
        finding.blame == Side::Agent
            && finding.grade == Grade::Fail
            && !finding.absent
            && !evidence.provokes.contains(&finding.requirement)
            && last.is_none_or(|last| at <= last)
    })?;
    Some(format!("inconclusive: the exam itself broke {} before: {}", fault.requirement, fault.message))
}

/// A claim that nothing broke: held only if the situation arose.
fn unbroken(
    claim: &ClaimId,
    evidence: &TestEvidence,
    exercised: &BTreeSet<String>,
) -> (ClaimState, Option<String>) {
    let steps = &evidence.steps;
    if steps.held.contains(claim) {
        return (ClaimState::Held, None);
    }
    let arose = match steps.watched.get(claim) {
        Some(_) if steps.has_witness.contains(claim) => steps.witnessed.contains(claim),
        // A client's silence is shown by a witness, or by another test that saw it do the thing.
        Some(did_something) if bound_side(claim.row()) == Side::Client => *did_something,
        Some(did_something) => *did_something || exercised.contains(claim.as_str()),
        // What no step of the file shows is the judge's alone.
        None => !steps.shown_by_steps.contains(claim) && exercised.contains(claim.as_str()),
    };
    if arose {
        return (ClaimState::Held, None);
    }
    match &evidence.ending {
        TestEnding::Inconclusive(reason) => (ClaimState::Inconclusive, Some(reason.clone())),
        TestEnding::NotReached(reason)
        | TestEnding::NotApplicable { reason, .. }
        | TestEnding::Unmet(reason)
        | TestEnding::Gone(reason)
        | TestEnding::Forbidden(reason)
        | TestEnding::Fault(reason) => (ClaimState::NotReached, Some(reason.clone())),
        TestEnding::Completed => {
            let words = "the behaviour that the test is about never happened";
            (ClaimState::NotReached, Some(words.to_owned()))
        }
    }
}

impl From<&crate::results::EvidenceRef> for Sighting {
    fn from(evidence: &crate::results::EvidenceRef) -> Sighting {
        Sighting { at_ms: evidence.at_ms, dir: evidence.dir, excerpt: evidence.excerpt.clone() }
    }
}
