//! Prints the verdict of every built-in test against the conforming agent; of the tests that are named, with what was said.

#[path = "../tests/common/mod.rs"]
mod common;

use acp_play::{Actor, play, probe};

fn main() {
    let conditions = common::conditions();
    let actor = Actor::default();
    let probed = probe(&actor, &conditions);
    let wanted: Vec<String> = std::env::args().skip(1).collect();
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
    }
}
