//! `acp comply --self-test` and `acp comply --coverage`: what the suite claims, and whether the claims are proved.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use acp_campaign::proof::{ComplaintWeight, Extent, Hunted, Mutation, Proof, Ratchet, Tried, prove, unseen};
use acp_campaign::{Campaign, Target};
use acp_comply::Program;
use acp_script::defects::{Defect, catalogue};
use tokio::sync::watch;

use crate::{builtin, exit, progress};

/// Timeouts of the suite are made for slow agents; the built-in one is fast, so a hang shows after a part of them.
const PATIENCE: f64 = 0.2;

/// Runs the proof and prints it.
pub fn self_test(campaign: Campaign, extent: Extent, verbose: bool) -> anyhow::Result<ExitCode> {
    let target: Target = builtin::target("mock", None, acp_dialect::Dialect::V1)?;
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (stop, stopped) = watch::channel(false);
    let mut campaign = Campaign { stop: stopped, watch: None, ..campaign };
    campaign.conditions.timeout_factor *= PATIENCE;
    let shown = progress::Shown::quiet();
    let listener = shown.listener();
    let proof = runtime.block_on(async {
        progress::interrupt(stop);
        let variants = acp_script::variants::catalogue();
        prove(&campaign, &target, catalogue(), variants, extent, &listener).await
    });
    shown.finish();
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    let interrupted = *campaign.stop.borrow();
    print_proof(&proof, began.elapsed().as_secs_f64(), verbose)?;
    Ok(ExitCode::from(match (interrupted, proof.holds()) {
        (true, _) => exit::FAULT,
        (false, true) => exit::OK,
        (false, false) => exit::FAILED,
    }))
}

fn print_proof(proof: &Proof, seconds: f64, verbose: bool) -> anyhow::Result<()> {
    let mut out = Vec::new();
    print_conforming(proof, &mut out)?;
    print_variants(proof, &mut out)?;
    print_defects(proof, verbose, &mut out)?;
    print_mutants(proof, verbose, &mut out)?;
    let proved = proof.claims.values().filter(|proved| **proved).count();
    writeln!(out, "requirements: {} claimed, {proved} proved by a defect", proof.claims.len())?;
    let unproved: Vec<&str> = proof.unproved().collect();
    if !unproved.is_empty() {
        writeln!(out, "  claimed but not proved: {}", unproved.join(", "))?;
    }
    for complaint in proof.ratchets().iter().filter_map(Ratchet::complaint) {
        writeln!(out, "  {complaint}")?;
    }
    let result = if proof.holds() { "the suite is proved" } else { "the suite is NOT proved" };
    writeln!(out, "{result}; took {seconds:.1} s")?;
    crate::out::print(out)
}

/// How much of what there is was tried, in words.
fn how_many(extent: Extent) -> String {
    match extent {
        Extent::Sample => format!("one in {}, always the same", extent.one_in()),
        Extent::Whole => "all".to_owned(),
    }
}

fn print_conforming(proof: &Proof, out: &mut Vec<u8>) -> anyhow::Result<()> {
    let tally = proof.conforming.tally();
    let (pass, total, na) = (tally.pass, tally.total(), tally.na);
    writeln!(out, "conforming agent: {pass} of {total} tests pass, {na} not applicable")?;
    for test in proof.unsound() {
        let why = test.reason.as_deref().unwrap_or("it passes without having been put to the test");
        let verdict = if test.vacuous { "VACUOUS" } else { test.verdict.as_str() };
        writeln!(out, "  {verdict:<7} {}  {why}", test.id)?;
    }
    for (test, real, played) in &proof.unequal {
        writeln!(out, "  {test} is {real} with a process and {played} in memory")?;
    }
    Ok(())
}

fn print_variants(proof: &Proof, out: &mut Vec<u8>) -> anyhow::Result<()> {
    let tests: usize =
        proof.alone.iter().chain(&proof.pairs).chain(&proof.random).map(|examined| examined.played).sum();
    let wronged = proof.wronged().count();
    let tried = how_many(proof.extent);
    writeln!(
        out,
        "legal agents: {} variants alone, {} agents with pairs of variants ({tried}), {} by chance \
         ({tests} tests): {wronged} wronged",
        proof.alone.len(),
        proof.pairs.len(),
        proof.random.len()
    )?;
    // What a variant alone shows need not be told again of every agent that has it.
    let mut told = BTreeSet::new();
    for examined in proof.wronged() {
        for alarm in
            examined.alarms.iter().filter(|alarm| told.insert((alarm.test.clone(), alarm.reason.clone())))
        {
            let weight = if alarm.weight == ComplaintWeight::Fail { "FAIL" } else { "WARN" };
            writeln!(
                out,
                "  {weight} {} ({}) on {}: {}",
                alarm.test,
                alarm.claim,
                examined.variants.join(" + "),
                alarm.reason
            )?;
        }
        for claim in examined.unheard.iter().filter(|_| examined.variants.len() == 1) {
            writeln!(out, "  no warning about {claim} on {}", examined.variants.join(" + "))?;
        }
    }
    Ok(())
}

fn print_defects(proof: &Proof, verbose: bool, out: &mut Vec<u8>) -> anyhow::Result<()> {
    let killed = |hunted: &[Hunted]| hunted.iter().filter(|hunted| hunted.is_killed()).count();
    let unseen = proof.defects.iter().filter_map(|hunted| Some((hunted, unseen().get(&hunted.id)?)));
    let tried = how_many(proof.extent);
    writeln!(
        out,
        "defects: {} of {} killed, {} known to get away; {} of {} killed under the \
         variants that touch them ({tried})",
        killed(&proof.defects),
        proof.defects.len(),
        unseen.clone().count(),
        killed(&proof.under),
        proof.under.len()
    )?;
    for hunted in proof.stale() {
        writeln!(out, "  {} is caught: take it out of suites/unseen.txt", hunted.id)?;
    }
    for (hunted, reason) in unseen.filter(|(hunted, _)| verbose && !hunted.is_killed()) {
        writeln!(out, "  known to get away: {}: {reason}", hunted.id)?;
    }
    for hunted in proof.survivors().chain(proof.hidden().filter(|_| verbose)) {
        let open: Vec<&str> =
            hunted.caught.iter().filter(|(_, catch)| catch.is_none()).map(|(id, _)| id.as_str()).collect();
        let under = if hunted.under.is_empty() {
            String::new()
        } else {
            format!(" under {}", hunted.under.join(" + "))
        };
        writeln!(out, "  survived {}{under} ({}): {}", hunted.id, open.join(", "), hunted.title)?;
    }
    Ok(())
}

fn print_mutants(proof: &Proof, verbose: bool, out: &mut Vec<u8>) -> anyhow::Result<()> {
    let count = |change: Mutation, survived: bool| {
        let mutants = proof.mutants.iter().filter(|mutant| mutant.change == change);
        mutants.filter(|mutant| !survived || mutant.tried == Tried::Survived).count()
    };
    let killed = |change: Mutation| count(change, false) - count(change, true);
    let tried = how_many(proof.extent);
    writeln!(
        out,
        "changes of the suite ({tried}): {} of {} stricter ones and {} of {} laxer ones are found out",
        killed(Mutation::Stricter),
        count(Mutation::Stricter, false),
        killed(Mutation::Laxer),
        count(Mutation::Laxer, false)
    )?;
    for mutant in proof.surviving_mutants().filter(|_| verbose) {
        let change = if mutant.change == Mutation::Stricter { "stricter" } else { "laxer" };
        writeln!(out, "  {change}, not found out: {}:{}: {}", mutant.file, mutant.line, mutant.what)?;
    }
    Ok(())
}

/// Prints requirement → tests → defects, and what is not covered and why.
pub fn coverage(programs: &[Arc<Program>]) -> anyhow::Result<ExitCode> {
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for program in programs {
        for requirement in &program.requirements {
            tests.entry(requirement).or_default().push(&program.id);
        }
    }
    let defects = |id: &str| -> Vec<&str> {
        let breaks = |defect: &&Defect| defect.requirements.iter().any(|requirement| requirement == id);
        catalogue().iter().filter(breaks).map(|defect| defect.id.as_str()).collect()
    };
    let mut out = Vec::new();
    let (mut covered, mut all) = (0, 0);
    for requirement in acp_rules::registry().all() {
        if requirement.binds != acp_rules::Side::Agent {
            continue;
        }
        all += 1;
        let claimed = tests.get(requirement.id.as_str());
        covered += usize::from(claimed.is_some());
        writeln!(out, "{:<8} {:<10} {}", requirement.id, requirement.level.as_str(), requirement.text)?;
        match claimed {
            Some(tests) => writeln!(out, "         tests    {}", tests.join(", "))?,
            None => writeln!(out, "         tests    none: {}", why_not(requirement))?,
        }
        let broken_by = defects(&requirement.id);
        if !broken_by.is_empty() {
            writeln!(out, "         defects  {}", broken_by.join(", "))?;
        }
    }
    writeln!(out, "{covered} of {all} requirements on agents are claimed by {} tests", programs.len())?;
    crate::out::print(out)?;
    Ok(ExitCode::from(exit::OK))
}

fn why_not(requirement: &acp_rules::Requirement) -> String {
    match requirement.class.as_str() {
        "X" => format!("cannot be seen from outside ({})", requirement.how),
        class if class.ends_with('~') => format!("only a heuristic would be possible ({})", requirement.how),
        _ if requirement.level.as_str() == "MAY" => "a permission, which nothing can break".to_owned(),
        _ => requirement.how.clone(),
    }
}
