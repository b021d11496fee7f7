//! A defect against the tests that claim what it breaks.

use std::collections::BTreeMap;
use std::sync::Arc;

use acp_comply::Program;
use acp_script::defects::Defect;
use acp_script::variants::{HabitsError, Variant};

use super::alarms::conditions_for;
use super::complaint::Complaints;
use crate::{Actor, PlayConditions, play, probe};

/// How a defect fared.
#[derive(Clone, Debug)]
pub struct Hunted {
    /// The defect.
    pub id: String,
    /// What is wrong with it.
    pub title: String,
    /// The variants that the agent was besides.
    pub under: Vec<String>,
    /// For each requirement that it breaks, the test that caught it.
    pub caught: BTreeMap<String, Option<Catch>>,
    /// How many tests were played.
    pub played: usize,
}

/// Which test caught a defect, and by what.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The test.
    pub test: String,
    /// What it said.
    pub reason: String,
}

impl Hunted {
    /// Whether a test caught it for every requirement that it claims to break.
    pub fn is_killed(&self) -> bool {
        self.caught.values().all(Option::is_some)
    }

    /// Takes in what a test complains about.
    pub fn take(&mut self, test: &str, complaints: &Complaints) {
        for (claim, catch) in self.caught.iter_mut().filter(|(_, catch)| catch.is_none()) {
            if let Some(reason) = complaints.catch(claim) {
                *catch = Some(Catch { test: test.to_owned(), reason: reason.to_owned() });
            }
        }
    }
}

/// Plays the tests until each requirement that the defect breaks is caught, first those that claim it: what an agent is
/// told counts the findings of every conversation. A requirement whose breaking fails an agent is caught only by a
/// failure.
pub fn hunt(
    suite: &[Arc<Program>],
    defect: &Defect,
    under: &[&Variant],
    conditions: &PlayConditions,
) -> Result<Hunted, HabitsError> {
    let actor = Actor::with(under.iter().copied())?.broken(defect);
    let conditions = conditions_for(under, conditions).for_tests(suite);
    // A defect may change what the agent declares, on which preconditions hang.
    let probed = probe(&actor, &conditions);
    let mut hunted = Hunted {
        id: defect.id.clone(),
        title: defect.title.clone(),
        under: under.iter().map(|variant| variant.id.clone()).collect(),
        caught: defect.requirements.iter().map(|id| (id.clone(), None)).collect(),
        played: 0,
    };
    let (claiming, others): (Vec<_>, Vec<_>) =
        suite.iter().partition(|program| defect.requirements.iter().any(|claim| claims(program, claim)));
    for program in claiming.into_iter().chain(others) {
        if hunted.is_killed() {
            break;
        }
        let played = play(program, &actor, &conditions, Some(&probed));
        hunted.played += 1;
        hunted.take(&program.id, &Complaints::of(&played));
    }
    Ok(hunted)
}

/// Whether a test claims this requirement, or a clause of it.
pub fn claims(program: &Program, claim: &str) -> bool {
    program.requirements.iter().any(|claimed| row(claimed) == row(claim))
}

/// The requirement of a claim.
pub(super) fn row(claim: &str) -> &str {
    claim.split('/').next().unwrap_or(claim)
}

/// Whether a variant touches what a defect breaks: the defect names it, or the variant is allowed by a requirement of
/// the same area.
pub fn touches(defect: &Defect, variant: &Variant) -> bool {
    if !defect.under.is_empty() {
        return defect.under.contains(&variant.id);
    }
    let area = |claim: &str| claim.split('-').next().unwrap_or_default().to_owned();
    let areas: Vec<String> = defect.requirements.iter().map(|claim| area(claim)).collect();
    variant.allowed_by.iter().any(|words| {
        let first = words.split([' ', ':']).next().unwrap_or_default();
        first.contains('-') && areas.contains(&area(first))
    })
}
