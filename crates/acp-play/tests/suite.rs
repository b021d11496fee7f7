//! The built-in suite in memory.

mod common;

use acp_comply::Verdict;
use acp_play::proof::{Candidate, Jury, JuryMember, Mutation, Tried, hunt, mutants};
use acp_play::{Actor, needs_process, play, probe};

#[test]
fn the_conforming_agent_fails_no_test() {
    let (actor, conditions) = (Actor::default(), common::conditions());
    let probed = probe(&actor, &conditions);
    let mut bad = Vec::new();
    let mut passed = 0;
    for program in common::suite("v1").iter().filter(|program| needs_process(program).is_none()) {
        let outcome = play(program, &actor, &conditions, Some(&probed)).outcome;
        match outcome.verdict {
            Verdict::Pass => passed += 1,
            Verdict::Na => {}
            verdict => bad.push(format!("{verdict} {}: {}", outcome.id, outcome.reason.unwrap_or_default())),
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(passed > 150, "only {passed} tests pass");
}

#[test]
fn the_same_test_gives_the_same_outcome() {
    let (actor, conditions) = (Actor::default(), common::conditions());
    let probed = probe(&actor, &conditions);
    for program in common::suite("v1").iter().take(40) {
        let once = play(program, &actor, &conditions, Some(&probed)).outcome;
        let again = play(program, &actor, &conditions, Some(&probed)).outcome;
        assert_eq!(once, again, "{}", program.id);
    }
}

#[test]
fn a_defect_is_caught_in_memory() {
    let (suite, conditions) = (common::suite("v1"), common::conditions());
    let defect = acp_script::defects::find("jsonrpc-1").expect("a defect of the catalogue");
    let hunted = hunt(&suite, defect, &[], &conditions).expect("the plain agent");
    assert!(hunted.is_killed(), "{hunted:?}");
}

#[test]
fn every_requirement_that_a_variant_or_a_defect_names_exists() {
    let known =
        |claim: &str| acp_rules::registry().get(claim.split('/').next().unwrap_or_default()).is_some();
    for variant in acp_script::variants::catalogue() {
        assert!(variant.warns.iter().all(|claim| known(claim)), "{}: {:?}", variant.id, variant.warns);
    }
    for defect in acp_script::defects::catalogue() {
        assert!(
            defect.requirements.iter().all(|claim| known(claim)),
            "{}: {:?}",
            defect.id,
            defect.requirements
        );
        let named = |id: &String| acp_script::variants::find(id).is_some();
        assert!(defect.under.iter().all(named), "{}: {:?}", defect.id, defect.under);
    }
}

#[test]
fn the_suite_can_be_changed_both_ways() {
    let changes: Vec<Mutation> =
        common::suite("v1").iter().flat_map(|program| mutants(program)).map(|mutant| mutant.change).collect();
    let stricter = changes.iter().filter(|change| **change == Mutation::Stricter).count();
    assert!(stricter > 50 && changes.len() - stricter > 200, "{stricter} of {}", changes.len());
}

#[test]
fn a_changed_test_is_found_out() {
    let conditions = common::conditions();
    let suite = common::suite("v1");
    let program = suite.iter().find(|program| program.id == "session.new").expect("a test of the suite");
    let defect = acp_script::defects::find("same-session-id");
    let candidates = std::iter::once(Candidate::Conforming).chain(defect.map(Candidate::Broken));
    let members = candidates.map(|candidate| JuryMember::new(candidate, &conditions).expect("an agent"));
    let jury = Jury::new(members.collect());
    assert_eq!(jury.count().0, 1);
    let changes = mutants(program);
    let tried = jury.try_mutants(program, &changes);
    assert_eq!(tried.len(), changes.len());
    assert!(tried.contains(&Tried::Survived), "two agents cannot show every change");
}
