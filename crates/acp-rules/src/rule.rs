//! The table of rules: name, requirements, weight, what it looks for, how to fix it.
//!
//! The first requirement is the one a finding names; the others are put to the test by the same situation.

mod table;

use std::sync::OnceLock;

use crate::grade::split;
use acp_proto::Side;

use crate::registry::registry;
use table::TABLE;

pub use table::Rule;

/// How heavy a finding of a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleWeight {
    /// As the requirement's level says.
    AsLevel,
    /// Never more than a warning: the text of the protocol is unclear there, or frames alone leave a doubt.
    Warns,
}

/// What is known about a rule.
#[derive(Debug)]
pub struct RuleInfo {
    /// The name, which does not change.
    pub name: &'static str,
    /// Requirements on the agent, the named one first, or clauses of them (`RPC-15/code`); empty when the rule never
    /// blames it.
    pub agent: &'static [&'static str],
    /// Requirements on the client, likewise.
    pub client: &'static [&'static str],
    /// How heavy.
    pub weight: RuleWeight,
    /// What the rule looks for.
    pub looks_for: &'static str,
    /// What to do when it is broken.
    pub hint: &'static str,
}

impl RuleInfo {
    /// The requirements that a rule puts to the test for one side.
    #[must_use]
    pub fn requirements(&self, side: Side) -> &'static [&'static str] {
        match side {
            Side::Agent => self.agent,
            Side::Client => self.client,
        }
    }
}

impl Rule {
    /// The table's row.
    #[must_use]
    pub fn info(self) -> &'static RuleInfo {
        &TABLE[self as usize]
    }

    /// How many rules there are.
    pub(crate) const COUNT: usize = TABLE.len();
}

/// Whether frames alone show a requirement, that is, whether some rule judges it.
#[must_use]
pub fn is_passive(requirement: &str) -> bool {
    registry().place(requirement).is_some_and(|place| passive()[usize::from(place)])
}

/// Every rule, in the table's order.
#[must_use]
pub fn rules() -> &'static [RuleInfo] {
    TABLE
}

/// The registry's places of a rule's requirements, by rule and side.
pub(crate) fn places(rule: Rule, side: Side) -> &'static [u16] {
    static PLACES: OnceLock<Vec<[Vec<u16>; 2]>> = OnceLock::new();
    let all = PLACES.get_or_init(|| {
        let find = |ids: &[&str]| ids.iter().filter_map(|id| registry().place(split(id).0)).collect();
        TABLE.iter().map(|info| [find(info.agent), find(info.client)]).collect()
    });
    &all[rule as usize][side as usize]
}

/// Which requirements some rule judges, by the registry's places.
pub(crate) fn passive() -> &'static [bool] {
    static PASSIVE: OnceLock<Vec<bool>> = OnceLock::new();
    PASSIVE.get_or_init(|| {
        let mut out = vec![false; registry().all().len()];
        let named = TABLE.iter().flat_map(|info| info.agent.iter().chain(info.client)).copied();
        for id in named.chain(crate::rules::schema::requirements()) {
            if let Some(place) = registry().place(split(id).0) {
                out[usize::from(place)] = true;
            }
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::ClaimId;

    #[test]
    fn every_rule_names_requirements_that_exist_and_bind_the_side_it_blames() {
        for info in rules() {
            assert!(!info.agent.is_empty() || !info.client.is_empty(), "{}", info.name);
            for (side, ids) in [(Side::Agent, info.agent), (Side::Client, info.client)] {
                for id in ids {
                    let claim: ClaimId = id.parse().unwrap_or_else(|error| panic!("{}: {error}", info.name));
                    let row = claim.requirement().expect("a claim has a requirement");
                    assert_eq!(row.binds, side, "{}: {id}", info.name);
                }
            }
        }
        for id in crate::rules::schema::requirements() {
            assert!(registry().get(id).is_some(), "{id}");
        }
    }

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = rules().iter().map(|info| info.name).collect();
        assert_eq!(names.len(), rules().len());
    }
}
