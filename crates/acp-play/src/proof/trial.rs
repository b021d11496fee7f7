//! Whether a changed test is found out.
//!
//! A change is found out when an agent of the catalogue gets something else from the changed test than from the test as
//! it is. What counts as something else, and which agents are asked, depends on what the change takes away ([`MutationAim`]).
//!
//! The test as it is is played once against an agent; of agents that have the same conversation with it, one stands for
//! the others. Agents that showed many changes before are asked first, and nobody is asked once every change is found out.
//!
//! Changes that none of them shows are shown to agents that are wrong and unusual: a defect under a variant, for instance one
//! that a test applies to although it does not apply to the conforming agent.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_comply::verdict::ClaimState;
use acp_comply::{Program, StepState, TestOutcome, Verdict};
use acp_rules::{ClaimId, Grade};
use acp_script::defects::Defect;
use acp_script::variants::{HabitsError, Variant};

use super::alarms::conditions_for;
use super::hunt::claims;
use super::mutants::{Mutant, MutationAim};
use crate::{Actor, PlayConditions, PlayedProbe, play, probe};

/// The agents that tests are held against.
#[derive(Debug)]
pub struct Jury {
    members: Vec<JuryMember>,
}

/// One agent that tests are held against.
#[derive(Debug)]
pub struct JuryMember {
    /// Its name: of a variant or a defect.
    name: String,
    is_legal: bool,
    /// The requirements that it breaks.
    breaks: Vec<String>,
    actor: Actor,
    conditions: PlayConditions,
    probed: PlayedProbe,
    /// How many changes it showed so far.
    shown: AtomicUsize,
    /// What makes it differ from the conforming agent.
    variant: Option<Variant>,
    defect: Option<Defect>,
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

impl JuryMember {
    /// The agent, with what its calibration finds.
    pub fn new(candidate: Candidate<'_>, conditions: &PlayConditions) -> Result<Self, HabitsError> {
        let (variant, defect) = match candidate {
            Candidate::Conforming => (None, None),
            Candidate::Legal(variant) => (Some(variant), None),
            Candidate::Broken(defect) => (None, Some(defect)),
        };
        let legal = Actor::with(variant)?;
        let actor = match defect {
            Some(defect) => legal.broken(defect),
            None => legal,
        };
        let conditions = conditions_for(variant.as_slice(), conditions);
        Ok(Self {
            name: name(variant, defect),
            is_legal: defect.is_none(),
            breaks: defect.map(|defect| defect.requirements.clone()).unwrap_or_default(),
            probed: probe(&actor, &conditions),
            actor,
            conditions,
            shown: AtomicUsize::new(0),
            variant: variant.cloned(),
            defect: defect.cloned(),
        })
    }

    /// The same agent with a defect that calibration did not see.
    fn with_defect(&self, defect: &Defect) -> Self {
        Self {
            name: name(self.variant.as_ref(), Some(defect)),
            is_legal: false,
            breaks: defect.requirements.clone(),
            actor: self.actor.clone().broken(defect),
            conditions: self.conditions.clone(),
            probed: self.probed.clone(),
            shown: AtomicUsize::new(0),
            variant: self.variant.clone(),
            defect: Some(defect.clone()),
        }
    }

    /// The same agent, after a calibration in which it did what the conforming agent does.
    fn after_more(&self, conforming: &JuryMember) -> Self {
        let PlayedProbe { found, missing, .. } = conforming.probed.clone();
        Self {
            name: format!("{}, which did more before", self.name),
            is_legal: self.is_legal,
            breaks: self.breaks.clone(),
            actor: self.actor.clone(),
            conditions: self.conditions.clone(),
            probed: PlayedProbe { found, missing, ..self.probed.clone() },
            shown: AtomicUsize::new(0),
            variant: self.variant.clone(),
            defect: self.defect.clone(),
        }
    }
}

/// What an agent is called: after its defect, its variant or both.
fn name(variant: Option<&Variant>, defect: Option<&Defect>) -> String {
    match (variant, defect) {
        (None, None) => "the conforming agent".to_owned(),
        (Some(variant), None) => variant.id.clone(),
        (None, Some(defect)) => defect.id.clone(),
        (Some(variant), Some(defect)) => format!("{} under {}", defect.id, variant.id),
    }
}

impl Jury {
    /// All of these. An agent that does less than the conforming one, which comes first, is asked a second time as one that
    /// did more in calibration than it does in the test: models are like that.
    pub fn new(mut members: Vec<JuryMember>) -> Self {
        if let Some(conforming) = members.first() {
            let does_less = |member: &&JuryMember| member.probed.found.len() < conforming.probed.found.len();
            let more: Vec<JuryMember> =
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
    fn ordered(&self, program: &Program) -> Vec<&JuryMember> {
        let mut members: Vec<&JuryMember> = self.members.iter().collect();
        members.sort_by_key(|member| {
            let is_near = member.breaks.iter().any(|claim| claims(program, claim));
            (!is_near, std::cmp::Reverse(member.shown.load(Ordering::Relaxed)))
        });
        members
    }

    /// Holds changes of one test against the agents that can show the difference.
    pub fn try_mutants(&self, original: &Arc<Program>, changes: &[Mutant]) -> Vec<Tried> {
        let mut trial = Trial::new(original, changes);
        for member in self.ordered(original) {
            trial.ask(member);
        }
        if trial.is_open() {
            for member in self.broken_under_variants(original) {
                trial.ask(&member);
            }
        }
        trial.tried
    }

    /// The defects that break what a test claims, each under the variants that make a difference to the test.
    fn broken_under_variants<'a>(
        &'a self,
        original: &'a Arc<Program>,
    ) -> impl Iterator<Item = JuryMember> + 'a {
        let mut known = BTreeSet::new();
        let mut fitting: Vec<&JuryMember> = self.members.iter().filter(|member| member.is_legal).collect();
        fitting.retain(|member| {
            let outcome = member.plays(original);
            let differs = outcome.verdict != Verdict::Na && known.insert(member.digest(&outcome, false));
            differs && member.variant.is_some()
        });
        let is_near = move |member: &&JuryMember| member.breaks.iter().any(|claim| claims(original, claim));
        let defects = self.members.iter().filter(is_near).filter_map(|member| member.defect.as_ref());
        defects.flat_map(move |defect| {
            let under: Vec<JuryMember> = fitting.iter().map(|legal| legal.with_defect(defect)).collect();
            under
        })
    }
}

/// Changes of one test, and what came of them so far.
struct Trial<'a> {
    original: &'a Arc<Program>,
    changes: &'a [Mutant],
    programs: Vec<Arc<Program>>,
    tried: Vec<Tried>,
    /// The conversations that agents had with the test as it is.
    known: BTreeSet<u64>,
}

impl<'a> Trial<'a> {
    fn new(original: &'a Arc<Program>, changes: &'a [Mutant]) -> Self {
        Self {
            original,
            changes,
            programs: changes.iter().map(|mutant| Arc::new(mutant.program.clone())).collect(),
            tried: vec![Tried::Survived; changes.len()],
            known: BTreeSet::new(),
        }
    }

    fn is_open(&self) -> bool {
        self.tried.contains(&Tried::Survived)
    }

    /// Lets an agent show the changes that nobody showed yet.
    fn ask(&mut self, member: &JuryMember) {
        let is_asked =
            |at: &usize| self.tried[*at] == Tried::Survived && member.is_asked(self.changes[*at].aim);
        let open: Vec<usize> = (0..self.changes.len()).filter(is_asked).collect();
        if open.is_empty() {
            return;
        }
        let outcome = member.plays(self.original);
        let is_silent = outcome.transcript.is_empty();
        if !self.known.insert(member.digest(&outcome, is_silent)) {
            return;
        }
        let before = Sight::of(&outcome);
        for at in open {
            let aim = self.changes[at].aim;
            if is_silent != (aim == MutationAim::Applies) {
                continue;
            }
            let after = Sight::of(&member.plays(&self.programs[at]));
            if before.shows(aim, &after) {
                member.shown.fetch_add(1, Ordering::Relaxed);
                self.tried[at] = Tried::Killed(member.name.clone());
            }
        }
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

impl JuryMember {
    fn is_asked(&self, aim: MutationAim) -> bool {
        match aim {
            MutationAim::Applies | MutationAim::Excuse => self.is_legal,
            MutationAim::Check => !self.is_legal,
            MutationAim::Guard => true,
        }
    }

    fn plays(&self, program: &Arc<Program>) -> TestOutcome {
        play(program, &self.actor, &self.conditions, Some(&self.probed)).outcome
    }

    /// What tells this agent's conversation from others; where nothing was said, why.
    fn digest(&self, outcome: &TestOutcome, is_silent: bool) -> u64 {
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
    /// What is said about the broken claims, by a step or by the judge.
    complaints: Vec<String>,
    /// Why the test does not apply, if it does not.
    reason: Option<String>,
}

impl Sight {
    fn of(outcome: &TestOutcome) -> Self {
        let claims = outcome.claims.iter().map(|claim| (claim.id.clone(), claim.state, claim.grade));
        let unmet = outcome.steps.iter().filter(|step| step.state == StepState::Unmet);
        let broken = outcome.claims.iter().filter(|claim| claim.state == ClaimState::Broken);
        Self {
            verdict: outcome.verdict,
            claims: claims.collect(),
            unmet: unmet.map(|step| step.line).collect(),
            complaints: broken.filter_map(|claim| claim.reason.clone()).collect(),
            reason: outcome.reason.clone().filter(|_| outcome.verdict == Verdict::Na),
        }
    }

    /// Whether the other shows that something was taken away.
    fn shows(&self, aim: MutationAim, other: &Sight) -> bool {
        let differs = self.verdict != other.verdict || self.claims != other.claims;
        match aim {
            MutationAim::Applies => differs || self.reason != other.reason,
            MutationAim::Excuse | MutationAim::Guard => differs,
            MutationAim::Check => {
                let complains_otherwise = self.unmet != other.unmet || self.complaints != other.complaints;
                self.loses_a_break(other) || (self.is_broken() && complains_otherwise)
            }
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
