//! Whether a changed test is found out.

use std::sync::Arc;

use acp_comply::Program;
use acp_script::defects::Defect;
use acp_script::variants::Variant;

use super::alarms::conditions_for;
use super::complaint::{Complaints, Weight};
use super::hunt::claims;
use super::mutants::{Change, Mutant};
use crate::{Actor, Conditions, Probed, play, probe};

/// An agent that tests are held against.
#[derive(Clone, Debug)]
pub struct Jury {
    /// Its name: of a variant or a defect.
    pub name: String,
    /// The warnings that are right about it.
    allowed: Vec<String>,
    /// The requirements that it breaks.
    breaks: Vec<String>,
    actor: Actor,
    conditions: Conditions,
    probed: Probed,
}

/// The legal agents (the conforming one first), and the defective ones.
pub fn jury(
    variants: &[Variant],
    defects: &[Defect],
    conditions: &Conditions,
) -> Result<(Vec<Jury>, Vec<Jury>), String> {
    let seat =
        |name: &str, actor: Actor, conditions: Conditions, allowed: &[String], breaks: &[String]| Jury {
            name: name.to_owned(),
            allowed: allowed.to_vec(),
            breaks: breaks.to_vec(),
            probed: probe(&actor, &conditions),
            actor,
            conditions,
        };
    let mut legal = vec![seat("the conforming agent", Actor::default(), conditions.clone(), &[], &[])];
    for variant in variants {
        let actor = Actor::with([variant])?;
        legal.push(seat(&variant.id, actor, conditions_for(&[variant], conditions), &variant.warns, &[]));
    }
    let broken = defects.iter().map(|defect| {
        let actor = Actor::default().broken(defect);
        seat(&defect.id, actor, conditions.clone(), &[], &defect.requirements)
    });
    Ok((legal, broken.collect()))
}

/// What came of a changed test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// This agent shows the difference.
    Killed(String),
    /// No agent does.
    Survived,
}

/// Holds changes of one test against the agents that should show the difference: legal ones for a stricter test, for a
/// laxer one the defects that the test itself catches.
pub fn try_mutants(
    original: &Arc<Program>,
    changes: &[Mutant],
    legal: &[Jury],
    broken: &[Jury],
) -> Vec<Tried> {
    let breaks = |agent: &&Jury| agent.breaks.iter().any(|claim| claims(original, claim));
    let is_needed = changes.iter().any(|mutant| mutant.change == Change::Laxer);
    let catching: Vec<&Jury> = broken
        .iter()
        .filter(|_| is_needed)
        .filter(breaks)
        .filter(|agent| agent.is_caught(original))
        .collect();
    let attempt = |mutant: &Mutant| {
        let changed = Arc::new(mutant.program.clone());
        let shows = match mutant.change {
            Change::Stricter => legal.iter().find(|agent| agent.is_wronged(&changed)),
            Change::Laxer => catching.iter().copied().find(|agent| !agent.is_caught(&changed)),
        };
        shows.map_or(Tried::Survived, |agent| Tried::Killed(agent.name.clone()))
    };
    changes.iter().map(attempt).collect()
}

impl Jury {
    fn complaints(&self, program: &Arc<Program>) -> Complaints {
        Complaints::of_claims(&play(program, &self.actor, &self.conditions, Some(&self.probed)).outcome)
    }

    /// Whether a test complains about this legal agent.
    fn is_wronged(&self, program: &Arc<Program>) -> bool {
        let complaints = self.complaints(program);
        complaints.iter().any(|(claim, weight, _)| {
            weight == Weight::Fail || !self.allowed.iter().any(|allowed| allowed == claim)
        })
    }

    /// Whether a test complains about what this agent breaks.
    fn is_caught(&self, program: &Arc<Program>) -> bool {
        let complaints = self.complaints(program);
        self.breaks.iter().any(|claim| complaints.about(claim.split('/').next().unwrap_or(claim)).is_some())
    }
}
