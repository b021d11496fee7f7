//! Prints the verdict of every built-in test against the conforming agent.

#[path = "../tests/common/mod.rs"]
mod common;

use acp_play::{Actor, play, probe};

fn main() {
    let conditions = common::conditions();
    let actor = Actor::default();
    let probed = probe(&actor, &conditions);
    for program in common::suite("v1") {
        let began = std::time::Instant::now();
        let played = play(&program, &actor, &conditions, Some(&probed));
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
