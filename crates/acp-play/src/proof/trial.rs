//! Whether a changed test is found out.
//!
//! A change is found out when an agent of the catalogue gets something else from the changed test than from the test as
//! it is. What counts as something else, and which agents are asked, depends on what the change takes away ([`Aim`]).
//!
//! The test as it is is played once against an agent; of agents that have the same conversation with it, one stands for
//! the others. Agents that showed many changes before are asked first, and nobody is asked once every change is found out.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_comply::verdict::ClaimState;
use acp_comply::{Outcome, Program, StepState, Verdict};
use acp_rules::{ClaimId, Grade};
use acp_script::defects::Defect;
use acp_script::variants::Variant;

use super::alarms::conditions_for;
use super::hunt::claims;
use super::mutants::{Aim, Mutant};
use crate::{Actor, Conditions, Probed, play, probe};

/// The agents that tests are held against.
#[derive(Debug)]
pub struct Jury {
    members: Vec<Member>,
}

/// One agent that tests are held against.
#[derive(Debug)]
pub struct Member {
    /// Its name: of a variant or a defect.
    name: String,
    is_legal: bool,
    /// The requirements that it breaks.
    breaks: Vec<String>,
    actor: Actor,
    conditions: Conditions,
    probed: Probed,
    /// How many changes it showed so far.
    shown: AtomicUsize,
}

/// Who can be a member.
#[derive(Clone, Copy, Debug)]
pub enum Candidate<'a> {
    /// The conforming agent.
    Conforming,
    /// One that is this variant.
    Legal(&'a Variant),
    /// One with this defect.
    Broken(&'a Defect),
}

impl Member {
    /// The agent, with what its calibration finds.
    pub fn new(candidate: Candidate<'_>, conditions: &Conditions) -> Result<Self, String> {
        let (name, actor, conditions, breaks) = match candidate {
            Candidate::Conforming => ("the conforming agent", Actor::default(), conditions.clone(), None),
            Candidate::Legal(variant) => {
                let conditions = conditions_for(&[variant], conditions);
                (variant.id.as_str(), Actor::with([variant])?, conditions, None)
            }
            Candidate::Broken(defect) => {
                let actor = Actor::default().broken(defect);
                (defect.id.as_str(), actor, conditions.clone(), Some(&defect.requirements))
            }
        };
        Ok(Self {
            name: name.to_owned(),
            is_legal: breaks.is_none(),
            breaks: breaks.cloned().unwrap_or_default(),
            probed: probe(&actor, &conditions),
            actor,
            conditions,
            shown: AtomicUsize::new(0),
        })
    }

    /// The same agent, after a calibration in which it did what the conforming agent does.
    fn after_more(&self, conforming: &Member) -> Self {
        let Probed { found, missing, .. } = conforming.probed.clone();
        Self {
            name: format!("{}, which did more before", self.name),
            is_legal: self.is_legal,
            breaks: self.breaks.clone(),
            actor: self.actor.clone(),
            conditions: self.conditions.clone(),
            probed: Probed { found, missing, ..self.probed.clone() },
            shown: AtomicUsize::new(0),
        }
    }
}

impl Jury {
    /// All of these. A legal agent that does less than the conforming one, which comes first, is asked a second time as
    /// one that did more in calibration than it does in the test: models are like that.
    pub fn new(mut members: Vec<Member>) -> Self {
        if let Some(conforming) = members.first() {
            let does_less = |member: &&Member| {
                member.is_legal && member.probed.found.len() < conforming.probed.found.len()
            };
            let more: Vec<Member> =
                members.iter().filter(does_less).map(|member| member.after_more(conforming)).collect();
            members.extend(more);
        }
        Self { members }
    }

    /// How many legal agents there are, and how many others.
    pub fn count(&self) -> (usize, usize) {
        let legal = self.members.iter().filter(|member| member.is_legal).count();
        (legal, self.members.len() - legal)
    }

    /// The members, those first that can be expected to show a change of this test.
    fn ordered(&self, program: &Program) -> Vec<&Member> {
        let mut members: Vec<&Member> = self.members.iter().collect();
        members.sort_by_key(|member| {
            let is_near = member.breaks.iter().any(|claim| claims(program, claim));
            (!is_near, std::cmp::Reverse(member.shown.load(Ordering::Relaxed)))
        });
        members
    }

    /// Holds changes of one test against the agents that can show the difference.
    pub fn try_mutants(&self, original: &Arc<Program>, changes: &[Mutant]) -> Vec<Tried> {
        let programs: Vec<Arc<Program>> =
            changes.iter().map(|mutant| Arc::new(mutant.program.clone())).collect();
        let mut tried = vec![Tried::Survived; changes.len()];
        let mut known = BTreeSet::new();
        for member in self.ordered(original) {
            let is_open = |at: &usize| tried[*at] == Tried::Survived && member.is_asked(changes[*at].aim);
            let open: Vec<usize> = (0..changes.len()).filter(is_open).collect();
            if open.is_empty() {
                continue;
            }
            let outcome = member.plays(original);
            let is_silent = outcome.transcript.is_empty();
            if !known.insert(member.digest(&outcome, is_silent)) {
                continue;
            }
            let before = Sight::of(&outcome);
            for at in open.into_iter().filter(|at| is_silent == (changes[*at].aim == Aim::Applies)) {
                let after = Sight::of(&member.plays(&programs[at]));
                if before.shows(changes[at].aim, &after) {
                    member.shown.fetch_add(1, Ordering::Relaxed);
                    tried[at] = Tried::Killed(member.name.clone());
                }
            }
        }
        tried
    }
}

/// What came of a changed test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// This agent shows the difference.
    Killed(String),
    /// No agent does.
    Survived,
}

impl Member {
    fn is_asked(&self, aim: Aim) -> bool {
        match aim {
            Aim::Applies | Aim::Excuse => self.is_legal,
            Aim::Check => !self.is_legal,
            Aim::Guard => true,
        }
    }

    fn plays(&self, program: &Arc<Program>) -> Outcome {
        play(program, &self.actor, &self.conditions, Some(&self.probed)).outcome
    }

    /// What tells this agent's conversation from others; where nothing was said, why.
    fn digest(&self, outcome: &Outcome, is_silent: bool) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.is_legal, is_silent).hash(&mut hasher);
        if is_silent {
            let found: Vec<&String> = self.probed.found.keys().collect();
            (format!("{:?}{:?}", self.probed.introduction, self.probed.session), found).hash(&mut hasher);
        }
        for line in &outcome.transcript {
            (line.dir, &line.text).hash(&mut hasher);
        }
        let states: Vec<ClaimState> = outcome.claims.iter().map(|claim| claim.state).collect();
        (outcome.verdict, states).hash(&mut hasher);
        hasher.finish()
    }
}

/// What a test makes of an agent.
#[derive(Debug)]
struct Sight {
    verdict: Verdict,
    claims: Vec<(ClaimId, ClaimState, Grade)>,
    /// The steps that were not met, by their lines.
    unmet: Vec<usize>,
    /// Why the test does not apply, if it does not.
    reason: Option<String>,
}

impl Sight {
    fn of(outcome: &Outcome) -> Self {
        let claims = outcome.claims.iter().map(|claim| (claim.id.clone(), claim.state, claim.grade));
        let unmet = outcome.steps.iter().filter(|step| step.state == StepState::Unmet);
        Self {
            verdict: outcome.verdict,
            claims: claims.collect(),
            unmet: unmet.map(|step| step.line).collect(),
            reason: outcome.reason.clone().filter(|_| outcome.verdict == Verdict::Na),
        }
    }

    /// Whether the other shows that something was taken away.
    fn shows(&self, aim: Aim, other: &Sight) -> bool {
        let differs = self.verdict != other.verdict || self.claims != other.claims;
        match aim {
            Aim::Applies => differs || self.reason != other.reason,
            Aim::Excuse | Aim::Guard => differs,
            Aim::Check => self.loses_a_break(other) || (self.is_broken() && self.unmet != other.unmet),
        }
    }

    fn is_broken(&self) -> bool {
        self.claims.iter().any(|(_, state, _)| *state == ClaimState::Broken)
    }

    /// Whether a claim was broken that is not, or not as heavily, in the other.
    fn loses_a_break(&self, other: &Sight) -> bool {
        self.claims.iter().any(|(claim, state, grade)| {
            let as_heavy = |(known, state, weight): &(ClaimId, ClaimState, Grade)| {
                known == claim && *state == ClaimState::Broken && weight >= grade
            };
            *state == ClaimState::Broken && !other.claims.iter().any(as_heavy)
        })
    }
}
