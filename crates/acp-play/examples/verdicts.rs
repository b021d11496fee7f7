//! Prints the verdict of every built-in test against the conforming agent; of the tests that are named, with what was said.
//! `--variant NAME` and `--defect NAME` make it another agent.

#[path = "../tests/common/mod.rs"]
mod common;

use acp_play::{Actor, play, probe};
use acp_script::variants::Variant;

fn main() {
    let conditions = common::conditions();
    let (variants, defects) = (common::variants(), common::defects());
    let (mut wanted, mut chosen, mut broken) = (Vec::new(), Vec::<&Variant>::new(), None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--variant" => {
                let name = words.next().unwrap_or_default();
                chosen.push(variants.iter().find(|variant| variant.id == name).expect("a variant"));
            }
            "--defect" => {
                let name = words.next().unwrap_or_default();
                broken = Some(defects.iter().find(|defect| defect.id == name).expect("a defect"));
            }
            _ => wanted.push(word),
        }
    }
    let conditions = acp_play::proof::conditions_for(&chosen, &conditions);
    let mut actor = Actor::with(chosen.iter().copied()).expect("variants that go together");
    if let Some(defect) = broken {
        actor = actor.broken(defect);
    }
    let probed = probe(&actor, &conditions);
    eprintln!("missing: {:?}", probed.missing);
    let is_wanted = |id: &String| wanted.is_empty() || wanted.contains(id);
    for program in common::suite("v1").into_iter().filter(|program| is_wanted(&program.id)) {
        let began = std::time::Instant::now();
        let played = play(&program, &actor, &conditions, Some(&probed));
        for line in played.outcome.transcript.iter().filter(|_| !wanted.is_empty()) {
            eprintln!("{:>6} {:?} {}", line.at_ms, line.dir, line.text);
        }
        let took = began.elapsed().as_micros();
        let vacuous = if played.outcome.vacuous { " (vacuous)" } else { "" };
        println!(
            "{}\t{}{vacuous}\t{}\t{}",
            played.outcome.id,
            played.outcome.verdict,
            played.outcome.reason.unwrap_or_default(),
            took
        );
        for claim in played.outcome.claims.iter().filter(|_| !wanted.is_empty()) {
            println!(
                "\t{}\t{:?}\t{:?}\t{}",
                claim.id,
                claim.grade,
                claim.state,
                claim.reason.as_deref().unwrap_or("")
            );
        }
        for finding in &played.others {
            println!(
                "\tother\t{}\t{:?}\t{:?}\t{}",
                finding.requirement, finding.grade, finding.blame, finding.message
            );
        }
    }
}
