//! The proof of a suite: the conforming agent passes it, no legal variant fails it, each known defect is caught by a test
//! that claims the requirement which the defect breaks, and every small change of a test is found out.
//!
//! Almost all of it is played in memory (`acp-play`). Processes are started for the conforming agent, whose verdicts must
//! be those of the play, and for the defects that only processes show.

mod spread;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use acp_comply::{AgentRun, Defaults, Outcome, Program, Verdict};
use acp_play::proof::{
    Catch, Complaints, covering, examine, hunt, jury, mutants, random, touches, try_mutant, weight,
};
pub use acp_play::proof::{Change, Examined, Hunted, Tried, Weight};
use acp_play::{Actor, Conditions as PlayConditions, needs_process, play, probe};
use acp_script::defects::Defect;
use acp_script::variants::Variant;
use futures_util::StreamExt;

use crate::campaign::{Campaign, Listener};
use crate::drive::{Probed, drive};
use crate::suite;
use crate::target::{Target, Way};
use spread::spread;

/// The seed of the random agents, and how many there are.
const SEED: u64 = 20_261_116;
const RANDOM: usize = 60;

/// What the proof came to.
#[derive(Debug)]
pub struct Proof {
    /// The conforming agent's run.
    pub conforming: AgentRun,
    /// Tests whose verdict in memory is not that of the real run: id, real, played.
    pub unequal: Vec<(String, Verdict, Verdict)>,
    /// Legal agents: each variant alone.
    pub alone: Vec<Examined>,
    /// Legal agents: every two variants together.
    pub pairs: Vec<Examined>,
    /// Legal agents: some variants by chance.
    pub random: Vec<Examined>,
    /// One entry per defect, in the catalogue's order.
    pub defects: Vec<Hunted>,
    /// One entry per defect and variant that touches it.
    pub under: Vec<Hunted>,
    /// Changes of the suite that were found out, and those that were not.
    pub mutants: Vec<TriedMutant>,
    /// Requirements that the suite claims, and whether a defect proves the claim.
    pub claims: BTreeMap<String, bool>,
}

/// A changed test and what came of it.
#[derive(Debug, Clone)]
pub struct TriedMutant {
    /// The file.
    pub file: String,
    /// The line of the change, from 1.
    pub line: usize,
    /// Which way the change goes.
    pub change: Change,
    /// What was changed.
    pub what: String,
    /// What came of it.
    pub tried: Tried,
}

impl Proof {
    /// The defects that got away, with the requirements for which they did.
    pub fn survivors(&self) -> impl Iterator<Item = &Hunted> {
        self.defects.iter().chain(&self.under).filter(|hunted| !hunted.is_killed())
    }

    /// Tests that the conforming agent does not pass, or passes without having been put to the test.
    pub fn unsound(&self) -> impl Iterator<Item = &Outcome> {
        self.conforming
            .tests
            .iter()
            .filter(|test| test.vacuous || !matches!(test.verdict, Verdict::Pass | Verdict::Na))
    }

    /// Legal agents that the suite complains about wrongly, or fails to warn about.
    pub fn wronged(&self) -> impl Iterator<Item = &Examined> {
        let together = self.pairs.iter().chain(&self.random).filter(|examined| !examined.alarms.is_empty());
        let alone = |examined: &&Examined| !examined.alarms.is_empty() || !examined.unheard.is_empty();
        self.alone.iter().filter(alone).chain(together)
    }

    /// Changes of the suite that nobody noticed.
    pub fn surviving_mutants(&self) -> impl Iterator<Item = &TriedMutant> {
        self.mutants.iter().filter(|mutant| mutant.tried == Tried::Survived)
    }

    /// Claims that no defect proves.
    pub fn unproved(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().filter(|(_, proved)| !**proved).map(|(id, _)| id.as_str())
    }

    /// Whether the suite is proved.
    pub fn holds(&self) -> bool {
        self.unsound().next().is_none()
            && self.unequal.is_empty()
            && self.wronged().next().is_none()
            && self.survivors().next().is_none()
            && self.surviving_mutants().next().is_none()
    }
}

/// Runs the conforming agent against the whole suite, and the suite against everything that it must tell apart.
pub async fn prove(
    campaign: &Campaign,
    target: &Target,
    defects: &[Defect],
    variants: &[Variant],
    listener: &Listener,
) -> Proof {
    let conforming = campaign.run(target, listener).await;
    let playable: Vec<Arc<Program>> =
        campaign.programs.iter().filter(|program| needs_process(program).is_none()).cloned().collect();
    let mut played = tokio::task::block_in_place(|| in_memory(campaign, &playable, defects, variants));
    real_hunt(campaign, target, defects, &conforming, &mut played.defects).await;
    let claims = proved(&campaign.programs, &played.defects);
    Proof {
        unequal: unequal(&conforming, &playable),
        conforming,
        alone: played.alone,
        pairs: played.pairs,
        random: played.random,
        defects: played.defects,
        under: played.under,
        mutants: played.mutants,
        claims,
    }
}

/// How tests are played: with the built-in calibration and its wordings.
fn conditions() -> PlayConditions {
    let wordings = suite::embedded_text("calibration/wishes.json");
    let files = suite::embedded("calibration").unwrap_or_default();
    let defaults = Defaults {
        mcp_stub_args: ["mcp-stub", "--log", "${mcpLog}"].map(str::to_owned).to_vec(),
        ..Defaults::default()
    };
    let read = |source: &acp_comply::Source| {
        Program::read(&source.name, &source.text, &defaults).program.map(Arc::new)
    };
    PlayConditions {
        wordings: wordings.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
        calibration: files.iter().filter_map(read).collect(),
        ..PlayConditions::default()
    }
}

/// What is proved without processes.
struct InMemory {
    alone: Vec<Examined>,
    pairs: Vec<Examined>,
    random: Vec<Examined>,
    defects: Vec<Hunted>,
    under: Vec<Hunted>,
    mutants: Vec<TriedMutant>,
}

fn in_memory(
    campaign: &Campaign,
    suite: &[Arc<Program>],
    defects: &[Defect],
    variants: &[Variant],
) -> InMemory {
    let jobs = campaign.jobs.max(1);
    let conditions = conditions();
    let look = |agents: Vec<Vec<&Variant>>| -> Vec<Examined> {
        let examined = spread(jobs, &agents, |agent| examine(suite, agent, &conditions).ok());
        examined.into_iter().flatten().collect()
    };
    let chase = |cases: Vec<(&Defect, Vec<&Variant>)>| -> Vec<Hunted> {
        let hunted = spread(jobs, &cases, |(defect, under)| hunt(suite, defect, under, &conditions).ok());
        hunted.into_iter().flatten().collect()
    };
    let plain = chase(defects.iter().map(|defect| (defect, Vec::new())).collect());
    let touched = defects.iter().flat_map(|defect| {
        variants
            .iter()
            .filter(move |variant| touches(defect, variant))
            .map(move |variant| (defect, vec![variant]))
    });
    InMemory {
        alone: look(variants.iter().map(|variant| vec![variant]).collect()),
        pairs: look(covering(variants)),
        random: look(random(variants, SEED, RANDOM)),
        under: chase(touched.collect()),
        defects: plain,
        mutants: try_mutants(suite, defects, variants, jobs),
    }
}

fn try_mutants(
    suite: &[Arc<Program>],
    defects: &[Defect],
    variants: &[Variant],
    jobs: usize,
) -> Vec<TriedMutant> {
    let Ok((legal, broken)) = jury(variants, defects, &conditions()) else { return Vec::new() };
    let tried = spread(jobs, suite, |program| {
        mutants(program)
            .into_iter()
            .map(|mutant| TriedMutant {
                file: program.file.clone(),
                line: mutant.line,
                change: mutant.change,
                tried: try_mutant(program, &mutant, &legal, &broken),
                what: mutant.what,
            })
            .collect::<Vec<_>>()
    });
    tried.into_iter().flatten().collect()
}

/// Tests that come out differently in memory.
fn unequal(conforming: &AgentRun, suite: &[Arc<Program>]) -> Vec<(String, Verdict, Verdict)> {
    let (actor, conditions) = (Actor::default(), conditions());
    let probed = probe(&actor, &conditions);
    let real: BTreeMap<&str, Verdict> =
        conforming.tests.iter().map(|test| (test.id.as_str(), test.verdict)).collect();
    suite
        .iter()
        .filter_map(|program| {
            let real = *real.get(program.id.as_str())?;
            let played = play(program, &actor, &conditions, Some(&probed)).outcome.verdict;
            (real != played).then(|| (program.id.clone(), real, played))
        })
        .collect()
}

fn proved(programs: &[Arc<Program>], hunted: &[Hunted]) -> BTreeMap<String, bool> {
    let all = programs.iter().flat_map(|program| &program.requirements);
    let mut claims: BTreeMap<String, bool> = all.map(|claim| (claim.clone(), false)).collect();
    for (claim, catch) in hunted.iter().flat_map(|hunted| &hunted.caught) {
        if let (Some(proved), true) = (claims.get_mut(claim), catch.is_some()) {
            *proved = true;
        }
    }
    claims
}

/// Hunts those defects with processes that the play did not catch.
async fn real_hunt(
    campaign: &Campaign,
    target: &Target,
    defects: &[Defect],
    conforming: &AgentRun,
    hunted: &mut [Hunted],
) {
    let header = conforming.header.as_ref();
    let probe = Probed {
        introduction: header.map(|header| header.introduction.clone()),
        session: header.and_then(|header| header.session.clone()),
        ..Probed::default()
    };
    let took: BTreeMap<&str, f64> =
        conforming.tests.iter().map(|test| (test.id.as_str(), test.duration_ms)).collect();
    let (took, probe) = (&took, &probe);
    let hunts = hunted.iter_mut().filter(|hunted| !hunted.is_killed()).filter_map(|hunted| {
        let defect = defects.iter().find(|defect| defect.id == hunted.id)?;
        Some(async move { hunt_for_real(campaign, target, defect, hunted, probe, took).await })
    });
    futures_util::stream::iter(hunts).buffer_unordered(campaign.jobs.max(1)).collect::<Vec<()>>().await;
}

async fn hunt_for_real(
    campaign: &Campaign,
    target: &Target,
    defect: &Defect,
    hunted: &mut Hunted,
    probe: &Probed,
    took: &BTreeMap<&str, f64>,
) {
    let target = with_defect(target, &defect.id);
    // A defect may change what the agent declares, on which preconditions hang.
    let own = campaign.introduce(&target).await;
    let probe = Probed {
        introduction: own.introduction.or_else(|| probe.introduction.clone()),
        session: own.session.or_else(|| probe.session.clone()),
        ..own
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
        let complaints = Complaints::of_claims(&driven.outcome);
        for claim in open {
            let enough = weight(&claim).unwrap_or(Weight::Warn);
            if let Some((_, reason)) = complaints.about(&claim).filter(|(weight, _)| *weight >= enough) {
                let catch = Catch { test: driven.outcome.id.clone(), reason: reason.to_owned() };
                hunted.caught.insert(claim, Some(catch));
            }
        }
    }
}

fn with_defect(target: &Target, defect: &str) -> Target {
    let mut target = target.clone();
    if let Way::Start { args, .. } = &mut target.way {
        args.extend(["--defect".to_owned(), defect.to_owned()]);
    }
    target
}
