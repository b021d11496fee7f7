//! The proof of a suite: the conforming agent passes it, no legal variant fails it, each known defect is caught by a test
//! that claims the requirement which the defect breaks, and every small change of a test is found out.
//!
//! Almost all of it is played in memory (`acp-play`). Processes are started for the conforming agent, whose verdicts must
//! be those of the play, and for the defects that only processes show.

mod ratchet;
mod spread;

use std::collections::BTreeMap;
use std::sync::Arc;

use acp_comply::{AgentRun, Defaults, Program, TestOutcome, Verdict};
use acp_play::proof::{
    Candidate, Complaints, Jury, JuryMember, claims, covering, examine, hunt, mutants, random, touches,
};
pub use acp_play::proof::{ComplaintWeight, Examined, Hunted, Mutant, Mutation, Tried};
use acp_play::{Actor, PlayConditions, needs_process, play, probe};
use acp_script::defects::Defect;
use acp_script::variants::Variant;
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;

use crate::campaign::{Campaign, ProgressListener};
use crate::drive::{Probed, drive};
use crate::suite;
use crate::target::{Target, Way};
pub use ratchet::{Allowed, Ratchet, unseen};
use spread::spread;

/// The seed of the random agents, and how many there are.
const SEED: u64 = 20_261_116;
const RANDOM: usize = 10;
/// In a sample one in so many is tried.
const ONE_IN: u64 = 8;

/// How much is tried of what there is too much of: changes of the suite, defects under variants, and agents that have every
/// two variants together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// One in so many, always the same: in a minute or two.
    Sample,
    /// Everything: takes some ten times as long.
    Whole,
}

impl Extent {
    /// One in so many is tried.
    pub fn one_in(self) -> u64 {
        match self {
            Extent::Sample => ONE_IN,
            Extent::Whole => 1,
        }
    }
}

/// What the proof came to.
#[derive(Debug)]
pub struct Proof {
    /// How much was tried.
    pub extent: Extent,
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
    pub change: Mutation,
    /// What was changed.
    pub what: String,
    /// What came of it.
    pub tried: Tried,
}

impl Proof {
    /// The defects that got away, with the requirements for which they did, without those that cannot be seen.
    pub fn survivors(&self) -> impl Iterator<Item = &Hunted> {
        self.defects.iter().filter(|hunted| !hunted.is_killed() && !unseen().contains_key(&hunted.id))
    }

    /// The defects that got away under a variant although the plain agent's was caught.
    pub fn hidden(&self) -> impl Iterator<Item = &Hunted> {
        self.under.iter().filter(|hunted| !hunted.is_killed() && !unseen().contains_key(&hunted.id))
    }

    /// Defects that are said to be unseen and were caught.
    pub fn stale(&self) -> impl Iterator<Item = &Hunted> {
        self.defects.iter().filter(|hunted| hunted.is_killed() && unseen().contains_key(&hunted.id))
    }

    /// Tests that the conforming agent does not pass, or passes without having been put to the test.
    pub fn unsound(&self) -> impl Iterator<Item = &TestOutcome> {
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

    /// Single variants that the suite complains about wrongly, or fails to warn about: there must be none.
    pub fn wronged_alone(&self) -> impl Iterator<Item = &Examined> {
        self.alone.iter().filter(|examined| !examined.alarms.is_empty() || !examined.unheard.is_empty())
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
            && self.wronged_alone().next().is_none()
            && self.survivors().next().is_none()
            && self.stale().next().is_none()
            && self.ratchets().iter().all(|ratchet| ratchet.complaint().is_none())
    }

    /// What may get away, and how much does.
    pub fn ratchets(&self) -> [Ratchet; 4] {
        let allowed = Allowed::embedded(self.extent);
        let combined = self.wronged().count() - self.wronged_alone().count();
        let survived = |change| self.surviving_mutants().filter(|mutant| mutant.change == change).count();
        [
            Ratchet { of: "combined", allowed: allowed.combined, found: combined },
            Ratchet { of: "hidden", allowed: allowed.hidden, found: self.hidden().count() },
            Ratchet { of: "stricter", allowed: allowed.stricter, found: survived(Mutation::Stricter) },
            Ratchet { of: "laxer", allowed: allowed.laxer, found: survived(Mutation::Laxer) },
        ]
    }
}

/// Runs the conforming agent against the whole suite, and the suite against everything that it must tell apart.
pub fn prove<'a>(
    campaign: &'a Campaign,
    target: &'a Target,
    defects: &'a [Defect],
    variants: &'a [Variant],
    extent: Extent,
    listener: &'a ProgressListener,
) -> LocalBoxFuture<'a, Proof> {
    Box::pin(async move {
        let conforming = campaign.run(target, listener).await;
        let playable: Vec<Arc<Program>> =
            campaign.programs.iter().filter(|program| needs_process(program).is_none()).cloned().collect();
        let mut played = tokio::task::block_in_place(|| {
            in_memory(campaign.jobs.max(1), &playable, defects, variants, extent)
        });
        real_hunt(campaign, target, defects, &conforming, &mut played.defects).await;
        let claims = proved(&campaign.programs, &played.defects);
        Proof {
            extent,
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
    })
}

/// How tests are played: with the built-in calibration and its wordings.
fn conditions() -> PlayConditions {
    let wordings = suite::embedded_text("calibration/wishes.json");
    let files = suite::embedded("calibration").unwrap_or_default();
    let defaults = Defaults {
        mcp_stub_args: ["mcp-stub", "--log", "${mcpLog}"].map(str::to_owned).to_vec(),
        ..Defaults::default()
    };
    let read = |source: &acp_comply::TestSource| {
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
    jobs: usize,
    suite: &[Arc<Program>],
    defects: &[Defect],
    variants: &[Variant],
    extent: Extent,
) -> InMemory {
    let conditions = conditions();
    let look = |agents: Vec<Vec<&Variant>>| -> Vec<Examined> {
        let examined = spread(jobs, &agents, |agent| examine(suite, agent, &conditions).ok());
        examined.into_iter().flatten().collect()
    };
    let plain = spread(jobs, defects, |defect| hunt(suite, defect, &[], &conditions).ok());
    let plain: Vec<Hunted> = plain.into_iter().flatten().collect();
    let touched: Vec<(&Defect, &Variant)> = defects
        .iter()
        .flat_map(|defect| {
            let touching = variants.iter().filter(move |variant| touches(defect, variant));
            touching.map(move |variant| (defect, variant))
        })
        .filter(|(defect, variant)| {
            is_in_sample(&format!("{} under {}", defect.id, variant.id), extent.one_in())
        })
        .collect();
    let under = spread(jobs, &touched, |(defect, variant)| {
        let known = plain.iter().find(|hunted| hunted.id == defect.id);
        let near: Vec<Arc<Program>> =
            suite.iter().filter(|program| is_near(program, defect, known)).cloned().collect();
        hunt(&near, defect, &[variant], &conditions).ok()
    });
    let under: Vec<Hunted> = under.into_iter().flatten().collect();
    InMemory {
        alone: look(variants.iter().map(|variant| vec![variant]).collect()),
        pairs: look(covering(variants).into_iter().step_by(extent.one_in() as usize).collect()),
        random: look(random(variants, SEED, RANDOM)),
        under: within_reach(under, &plain, suite, variants, &conditions),
        defects: plain,
        mutants: changes(suite, defects, variants, jobs, extent),
    }
}

/// Whether a test may catch a defect under a variant: it claims what is broken, or caught the plain defect.
fn is_near(program: &Program, defect: &Defect, known: Option<&Hunted>) -> bool {
    let mut caught = known.iter().flat_map(|known| known.caught.values().flatten());
    caught.any(|by| by.test == program.id) || defect.requirements.iter().any(|claim| claims(program, claim))
}

/// Leaves out what a variant puts out of reach: the test that catches the plain defect does not pass with the variant
/// alone, because it does not apply there.
fn within_reach(
    mut hunted: Vec<Hunted>,
    plain: &[Hunted],
    suite: &[Arc<Program>],
    variants: &[Variant],
    conditions: &PlayConditions,
) -> Vec<Hunted> {
    let mut known: BTreeMap<(String, String), bool> = BTreeMap::new();
    let mut applies = |variant: &str, test: &str| {
        *known.entry((variant.to_owned(), test.to_owned())).or_insert_with(|| {
            let program = suite.iter().find(|program| program.id == test);
            let variant = variants.iter().find(|known| known.id == variant);
            program.zip(variant).is_some_and(|(program, variant)| passes(program, variant, conditions))
        })
    };
    hunted.retain_mut(|hunted| {
        let Some(plain) = plain.iter().find(|plain| plain.id == hunted.id) else { return true };
        let variant = hunted.under.first().cloned().unwrap_or_default();
        hunted.caught.retain(|claim, catch| {
            catch.is_some()
                || plain
                    .caught
                    .get(claim)
                    .and_then(Option::as_ref)
                    .is_some_and(|by| applies(&variant, &by.test))
        });
        !hunted.caught.is_empty()
    });
    hunted
}

/// Whether an agent that is this variant passes a test.
fn passes(program: &Arc<Program>, variant: &Variant, conditions: &PlayConditions) -> bool {
    let conditions = acp_play::proof::conditions_for(&[variant], conditions);
    let Ok(actor) = Actor::with([variant]) else { return false };
    let probed = probe(&actor, &conditions);
    play(program, &actor, &conditions, Some(&probed)).outcome.verdict == Verdict::Pass
}

fn changes(
    suite: &[Arc<Program>],
    defects: &[Defect],
    variants: &[Variant],
    jobs: usize,
    extent: Extent,
) -> Vec<TriedMutant> {
    let conditions = conditions();
    let candidates: Vec<Candidate<'_>> = std::iter::once(Candidate::Conforming)
        .chain(variants.iter().map(Candidate::Legal))
        .chain(defects.iter().map(Candidate::Broken))
        .collect();
    let members = spread(jobs, &candidates, |candidate| JuryMember::new(*candidate, &conditions).ok());
    let jury = Jury::new(members.into_iter().flatten().collect());
    let tried = spread(jobs, suite, |program| {
        let chosen = sample(&program.id, mutants(program), extent);
        let tried = jury.try_mutants(program, &chosen);
        let record = |(mutant, tried): (Mutant, Tried)| TriedMutant {
            file: program.file.clone(),
            line: mutant.line,
            change: mutant.change,
            tried,
            what: mutant.what,
        };
        chosen.into_iter().zip(tried).map(record).collect::<Vec<_>>()
    });
    tried.into_iter().flatten().collect()
}

/// One change of a test in so many. Which ones depends on their names alone, so that a change elsewhere in the suite, or in
/// the same test, takes no other change out of the sample.
fn sample(test: &str, mut changes: Vec<Mutant>, extent: Extent) -> Vec<Mutant> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    changes.retain(|mutant| {
        let count = seen.entry(mutant.what.clone()).or_default();
        *count += 1;
        is_in_sample(&format!("{test}: {} ({count})", mutant.what), extent.one_in())
    });
    changes
}

/// Whether the thing of this name is among the one in so many that is tried: the same answer in every build (FNV-1a, stirred
/// so that the last bits depend on all of it).
fn is_in_sample(name: &str, one_in: u64) -> bool {
    let sum = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    ((sum ^ (sum >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).is_multiple_of(one_in)
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

/// Hunts those defects that the play did not catch, with the tests that need processes.
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
    // The others were played in memory, after the agent's own calibration.
    let is_meant = |program: &&Arc<Program>| {
        needs_process(program).is_some() && defect.requirements.iter().any(|claim| claims(program, claim))
    };
    let mut tests: Vec<&Arc<Program>> = campaign.programs.iter().filter(is_meant).collect();
    tests.sort_by(|a, b| {
        let time = |program: &Program| took.get(program.id.as_str()).copied().unwrap_or(0.0);
        time(a).total_cmp(&time(b))
    });
    // On a busy machine a fault may show too late the first time.
    for program in tests.iter().chain(&tests) {
        if *campaign.stop.borrow() || hunted.is_killed() {
            break;
        }
        let (program, target, probe) = (Arc::clone(program), target.clone(), probe.clone());
        let conditions = campaign.conditions.clone();
        let task =
            tokio::spawn(async move { drive(&program, &target, &conditions, Some(&probe), None).await });
        let Ok(driven) = task.await else { continue };
        hunted.take(&driven.outcome.id, &Complaints::of_run(&driven.outcome, &driven.others));
    }
}

fn with_defect(target: &Target, defect: &str) -> Target {
    let mut target = target.clone();
    if let Way::Start { args, .. } = &mut target.way {
        args.extend(["--defect".to_owned(), defect.to_owned()]);
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_chosen_by_name_and_is_about_as_large_as_it_should_be() {
        let chosen = |one_in: u64| -> Vec<usize> {
            (0..4000).filter(|number| is_in_sample(&format!("test {number}"), one_in)).collect()
        };
        assert_eq!(chosen(1).len(), 4000);
        assert!((400..600).contains(&chosen(8).len()), "{}", chosen(8).len());
        assert_eq!(chosen(8), chosen(8));
    }
}
