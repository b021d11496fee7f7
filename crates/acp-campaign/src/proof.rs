//! The proof of a suite: the conforming agent passes it, and each known defect is caught by a test that claims the
//! requirement which the defect breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use acp_comply::verdict::ClaimState;
use acp_comply::{AgentRun, Outcome, Program, Verdict};
use acp_rules::ClaimId;
use acp_script::defects::Defect;
use futures_util::StreamExt;

use crate::campaign::{Campaign, Listener};
use crate::drive::{Probed, drive};
use crate::target::{Target, Way};

/// What the proof came to.
#[derive(Debug)]
pub struct Proof {
    /// The conforming agent's run.
    pub conforming: AgentRun,
    /// One entry per defect, in the catalogue's order.
    pub defects: Vec<Hunted>,
    /// Requirements that the suite claims, and whether a defect proves the claim.
    pub claims: BTreeMap<String, bool>,
}

/// How a defect fared.
#[derive(Debug, Clone)]
pub struct Hunted {
    /// The defect.
    pub id: String,
    /// What is wrong with it.
    pub title: String,
    /// For each requirement that it breaks, the test that caught it.
    pub caught: BTreeMap<String, Option<Catch>>,
}

/// Which test caught a defect, and by what.
#[derive(Debug, Clone)]
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

impl Proof {
    /// The defects that got away, with the requirements for which they did.
    pub fn survivors(&self) -> impl Iterator<Item = &Hunted> {
        self.defects.iter().filter(|hunted| !hunted.is_killed())
    }

    /// Tests that the conforming agent does not pass, or passes without having been put to the test.
    pub fn unsound(&self) -> impl Iterator<Item = &Outcome> {
        self.conforming
            .tests
            .iter()
            .filter(|test| test.vacuous || !matches!(test.verdict, Verdict::Pass | Verdict::Na))
    }

    /// Claims that no defect proves.
    pub fn unproved(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().filter(|(_, proved)| !**proved).map(|(id, _)| id.as_str())
    }

    /// Whether the suite is proved.
    pub fn holds(&self) -> bool {
        self.unsound().next().is_none() && self.survivors().next().is_none()
    }
}

/// Runs the conforming agent against the whole suite and each defect against the tests that claim its requirements.
pub async fn prove(campaign: &Campaign, target: &Target, defects: &[Defect], listener: &Listener) -> Proof {
    let conforming = campaign.run(target, listener).await;
    let header = conforming.header.as_ref();
    let probe = Probed {
        introduction: header.map(|header| header.introduction.clone()),
        session: header.and_then(|header| header.session.clone()),
    };
    let took: BTreeMap<&str, f64> =
        conforming.tests.iter().map(|test| (test.id.as_str(), test.duration_ms)).collect();
    let hunts = defects.iter().map(|defect| hunt(campaign, target, defect, &probe, &took));
    let mut hunted: Vec<Hunted> =
        futures_util::stream::iter(hunts).buffer_unordered(campaign.jobs.max(1)).collect().await;
    hunted.sort_by(|a, b| a.id.cmp(&b.id));

    let mut claims: BTreeMap<String, bool> = campaign
        .programs
        .iter()
        .flat_map(|program| &program.requirements)
        .map(|requirement| (requirement.clone(), false))
        .collect();
    for (requirement, catch) in hunted.iter().flat_map(|hunted| &hunted.caught) {
        if let (Some(proved), true) = (claims.get_mut(requirement), catch.is_some()) {
            *proved = true;
        }
    }
    Proof { conforming, defects: hunted, claims }
}

async fn hunt(
    campaign: &Campaign,
    target: &Target,
    defect: &Defect,
    probe: &Probed,
    took: &BTreeMap<&str, f64>,
) -> Hunted {
    let mut hunted = Hunted {
        id: defect.id.clone(),
        title: defect.title.clone(),
        caught: defect.requirements.iter().map(|id| (id.clone(), None)).collect(),
    };
    let target = with_defect(target, &defect.id);
    // A defect may change what the agent declares, on which preconditions hang.
    let own = campaign.introduce(&target).await;
    let probe = Probed {
        introduction: own.introduction.or_else(|| probe.introduction.clone()),
        session: own.session.or_else(|| probe.session.clone()),
    };
    let wanted: BTreeSet<&String> = defect.requirements.iter().collect();
    let mut tests: Vec<&Arc<Program>> = campaign
        .programs
        .iter()
        .filter(|program| program.requirements.iter().any(|requirement| wanted.contains(requirement)))
        .collect();
    tests.sort_by(|a, b| {
        let time = |program: &Program| took.get(program.id.as_str()).copied().unwrap_or(0.0);
        time(a).total_cmp(&time(b))
    });
    for program in tests {
        let open: Vec<String> =
            hunted.caught.iter().filter(|(_, catch)| catch.is_none()).map(|(id, _)| id.clone()).collect();
        if !program.requirements.iter().any(|requirement| open.contains(requirement)) {
            continue;
        }
        if *campaign.stop.borrow() {
            break;
        }
        let (program, target, probe) = (Arc::clone(program), target.clone(), probe.clone());
        let conditions = campaign.conditions.clone();
        let task =
            tokio::spawn(async move { drive(&program, &target, &conditions, Some(&probe), None).await });
        let Ok(driven) = task.await else { continue };
        for requirement in open {
            if let Some(reason) = speaks_of(&driven.outcome, &requirement) {
                let catch = Catch { test: driven.outcome.id.clone(), reason };
                hunted.caught.insert(requirement, Some(catch));
            }
        }
    }
    hunted
}

/// Whether an outcome is a catch for this requirement: the test found it broken, at its full grade.
fn speaks_of(outcome: &Outcome, requirement: &str) -> Option<String> {
    let full = requirement.parse::<ClaimId>().ok()?.grade();
    let mut broken = outcome.claims.iter().filter(|claim| claim.state == ClaimState::Broken);
    let caught = broken.find(|claim| {
        claim.id.as_str() == requirement || (claim.id.row() == requirement && claim.grade >= full)
    })?;
    Some(caught.reason.clone().unwrap_or_default())
}

fn with_defect(target: &Target, defect: &str) -> Target {
    let mut target = target.clone();
    if let Way::Start { args, .. } = &mut target.way {
        args.extend(["--defect".to_owned(), defect.to_owned()]);
    }
    target
}
