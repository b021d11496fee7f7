//! `acp comply --self-test` and `acp comply --coverage`: what the suite claims, and whether the claims are proved.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use acp_campaign::proof::{Proof, prove};
use acp_campaign::{Campaign, Target};
use acp_comply::Program;
use acp_script::defects::{Defect, catalogue};
use tokio::sync::watch;

use crate::{builtin, exit, progress};

/// Timeouts of the suite are made for slow agents; the built-in one is fast, so a hang shows after a part of them.
const PATIENCE: f64 = 0.2;

/// Runs the proof and prints it.
pub fn self_test(campaign: Campaign) -> anyhow::Result<ExitCode> {
    let target: Target = builtin::target("mock", None, acp_dialect::Dialect::V1)?;
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (stop, stopped) = watch::channel(false);
    let mut campaign = Campaign { stop: stopped, ..campaign };
    campaign.conditions.timeout_factor *= PATIENCE;
    let shown = progress::Shown::quiet();
    let listener = shown.listener();
    let proof = runtime.block_on(async {
        progress::interrupt(stop);
        prove(&campaign, &target, catalogue(), &listener).await
    });
    shown.finish();
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    let interrupted = *campaign.stop.borrow();
    print_proof(&proof, began.elapsed().as_secs_f64())?;
    Ok(ExitCode::from(match (interrupted, proof.holds()) {
        (true, _) => exit::FAULT,
        (false, true) => exit::OK,
        (false, false) => exit::FAILED,
    }))
}

fn print_proof(proof: &Proof, seconds: f64) -> anyhow::Result<()> {
    let mut out = Vec::new();
    let tally = proof.conforming.tally();
    writeln!(
        out,
        "conforming agent: {} of {} tests pass, {} not applicable",
        tally.pass,
        tally.total(),
        tally.na
    )?;
    for test in proof.unsound() {
        let why = test.reason.as_deref().unwrap_or("it passes without having been put to the test");
        writeln!(
            out,
            "  {:<7} {}  {why}",
            if test.vacuous { "VACUOUS" } else { test.verdict.as_str() },
            test.id
        )?;
    }
    let survivors: Vec<_> = proof.survivors().collect();
    writeln!(out, "defects: {} of {} killed", proof.defects.len() - survivors.len(), proof.defects.len())?;
    for hunted in survivors {
        let open: Vec<&str> =
            hunted.caught.iter().filter(|(_, catch)| catch.is_none()).map(|(id, _)| id.as_str()).collect();
        writeln!(out, "  survived {} ({}): {}", hunted.id, open.join(", "), hunted.title)?;
    }
    let proved = proof.claims.values().filter(|proved| **proved).count();
    writeln!(out, "requirements: {} claimed, {proved} proved by a defect", proof.claims.len())?;
    let unproved: Vec<&str> = proof.unproved().collect();
    if !unproved.is_empty() {
        writeln!(out, "  claimed but not proved: {}", unproved.join(", "))?;
    }
    writeln!(out, "took {seconds:.1} s")?;
    crate::out::print(out)
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
