//! Legal variants against a suite: nothing may fail, and only what they list may warn.

use std::collections::BTreeSet;
use std::sync::Arc;

use acp_comply::Program;
use acp_script::variants::{HabitsError, Variant};

use super::complaint::{ComplaintWeight, Complaints};
use crate::{Actor, PlayConditions, play, probe};

/// What came of a legal agent and a suite.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The names of the variants.
    pub variants: Vec<String>,
    /// Complaints that are wrong.
    pub alarms: Vec<Alarm>,
    /// Warnings that the variants list and nobody gave.
    pub unheard: Vec<String>,
    /// How many tests were played.
    pub played: usize,
}

/// A complaint about a legal agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The test.
    pub test: String,
    /// The requirement.
    pub claim: String,
    /// How heavy it was.
    pub weight: ComplaintWeight,
    /// What was said.
    pub reason: String,
}

/// Plays the suite against an agent that is all of these variants at once.
pub fn examine(
    suite: &[Arc<Program>],
    variants: &[&Variant],
    conditions: &PlayConditions,
) -> Result<Examined, HabitsError> {
    let actor = Actor::with(variants.iter().copied())?;
    let conditions = conditions_for(variants, conditions);
    let probed = probe(&actor, &conditions);
    let allowed: BTreeSet<&str> =
        variants.iter().flat_map(|variant| &variant.warns).map(String::as_str).collect();
    let mut heard = BTreeSet::new();
    let mut alarms = Vec::new();
    for program in suite {
        let played = play(program, &actor, &conditions, Some(&probed));
        for (claim, weight, reason) in Complaints::of(&played).iter() {
            if weight == ComplaintWeight::Warn && allowed.contains(claim) {
                heard.insert(claim.to_owned());
                continue;
            }
            let (test, claim, reason) = (program.id.clone(), claim.to_owned(), reason.to_owned());
            alarms.push(Alarm { test, claim, weight, reason });
        }
    }
    Ok(Examined {
        variants: variants.iter().map(|variant| variant.id.clone()).collect(),
        alarms,
        unheard: allowed.into_iter().filter(|claim| !heard.contains(*claim)).map(str::to_owned).collect(),
        played: suite.len(),
    })
}

/// The conditions under which these variants can be tested: they may need a login.
pub fn conditions_for(variants: &[&Variant], conditions: &PlayConditions) -> PlayConditions {
    let auth_method = variants.iter().find_map(|variant| variant.auth.clone());
    PlayConditions {
        auth_method: auth_method.or_else(|| conditions.auth_method.clone()),
        ..conditions.clone()
    }
}
