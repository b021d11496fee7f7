//! A defect against the tests that claim what it breaks.

use std::collections::BTreeMap;
use std::sync::Arc;

use acp_comply::Program;
use acp_script::defects::Defect;
use acp_script::variants::Variant;

use super::alarms::conditions_for;
use super::complaint::{Complaints, Weight, weight};
use crate::{Actor, Conditions, play, probe};

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
}

/// Plays the tests that claim what the defect breaks, until each requirement is caught. A requirement whose breaking
/// fails an agent is caught only by a failure.
pub fn hunt(
    suite: &[Arc<Program>],
    defect: &Defect,
    under: &[&Variant],
    conditions: &Conditions,
) -> Result<Hunted, String> {
    let actor = Actor::with(under.iter().copied())?.broken(defect);
    let conditions = conditions_for(under, conditions);
    // A defect may change what the agent declares, on which preconditions hang.
    let probed = probe(&actor, &conditions);
    let mut hunted = Hunted {
        id: defect.id.clone(),
        title: defect.title.clone(),
        under: under.iter().map(|variant| variant.id.clone()).collect(),
        caught: defect.requirements.iter().map(|id| (id.clone(), None)).collect(),
        played: 0,
    };
    for program in suite {
        let open: Vec<String> = hunted
            .caught
            .iter()
            .filter(|(claim, catch)| catch.is_none() && claims(program, claim))
            .map(|(claim, _)| claim.clone())
            .collect();
        if open.is_empty() {
            continue;
        }
        let played = play(program, &actor, &conditions, Some(&probed));
        hunted.played += 1;
        let complaints = Complaints::of_claims(&played.outcome);
        for claim in open {
            let enough = weight(&claim).unwrap_or(Weight::Warn);
            let said = complaints.about(row(&claim)).filter(|(weight, _)| *weight >= enough);
            if let Some((_, reason)) = said {
                let catch = Catch { test: program.id.clone(), reason: reason.to_owned() };
                hunted.caught.insert(claim, Some(catch));
            }
        }
    }
    Ok(hunted)
}

/// Whether a test claims this requirement, or a clause of it.
pub(super) fn claims(program: &Program, claim: &str) -> bool {
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
