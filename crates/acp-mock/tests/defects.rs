//! Defects on a client's tour: the judge names what they break. That every defect shows at all is proved by
//! `acp comply --self-test`, whose client also answers wrongly, hangs up, and starts the agent again.

mod harness;

use std::collections::BTreeSet;

use acp_script::defects::{Defect, catalogue};
use harness::tour::CHAPTERS;
use harness::{AgentUnderTest, all_caps, config};
use serde_json::Value;

/// The requirements that the judge saw broken while an agent with this defect went through a chapter.
fn broken(chapter: &harness::tour::Chapter, defect: &Defect, caps: Value) -> BTreeSet<String> {
    let mut harness = AgentUnderTest::new(config(), &defect.faults, caps);
    harness.player = harness.player.wrong(defect.switch.as_slice());
    (chapter.run)(&mut harness);
    harness.finish().iter().map(|finding| finding.requirement.to_owned()).collect()
}

/// Requirements about single frames, envelopes and their order: what a judge must see without any test's help.
const JUDGED: [&str; 12] = [
    "RPC-01", "RPC-03", "TRN-05", "TRN-06", "TRN-07", "INIT-03", "TC-03", "TC-04", "PERM-02", "PLAN-02",
    "FS-04", "PT-02",
];

#[test]
fn the_judge_names_the_requirement_that_a_visible_defect_breaks() {
    let mut missed = Vec::new();
    for defect in catalogue() {
        let claims = |broken: &BTreeSet<String>| defect.requirements.iter().any(|id| broken.contains(id));
        if !defect.requirements.iter().all(|id| JUDGED.contains(&id.as_str())) {
            continue;
        }
        let caps = defect.client_capabilities.clone().unwrap_or_else(all_caps);
        let named = CHAPTERS.iter().any(|chapter| claims(&broken(chapter, defect, caps.clone())));
        // Processes and the end of input are not frames; the suite looks at those.
        let beyond =
            ["byte-order-mark", "grandchild-writes-stdout", "goodbye-line"].contains(&defect.id.as_str());
        if !named && !beyond {
            missed.push(format!("{} ({})", defect.id, defect.requirements.join(", ")));
        }
    }
    assert!(missed.is_empty(), "the judge does not name: {missed:#?}");
}

#[test]
fn the_requirements_exist() {
    for defect in catalogue() {
        for id in &defect.requirements {
            let claim = id.parse::<acp_rules::ClaimId>();
            assert!(claim.is_ok(), "{}: {:?}", defect.id, claim.err().map(|error| error.to_string()));
        }
    }
}
