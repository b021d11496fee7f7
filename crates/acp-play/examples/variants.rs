//! Prints every test that a legal variant does not pass: test, variant, verdict, reason.

#[path = "../tests/common/mod.rs"]
mod common;

use acp_comply::Verdict;
use acp_play::{Actor, Conditions, play, probe};
use acp_script::variants::catalogue;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let suite = common::suite("v1");
    let (mut all, mut bad) = (0, 0);
    for variant in catalogue().iter().filter(|variant| wanted.is_empty() || wanted.contains(&variant.id)) {
        let actor = Actor::with([variant]).expect("habits");
        let conditions = Conditions { auth_method: variant.auth.clone(), ..common::conditions() };
        let probed = probe(&actor, &conditions);
        let mut here = 0;
        for program in &suite {
            let played = play(program, &actor, &conditions, Some(&probed));
            all += 1;
            if !matches!(played.outcome.verdict, Verdict::Pass | Verdict::Na) {
                bad += 1;
                here += 1;
                let reason = played.outcome.reason.unwrap_or_default();
                println!(
                    "{}\t{}\t{}\t{}",
                    played.outcome.id,
                    variant.id,
                    played.outcome.verdict,
                    reason.replace('\n', " ")
                );
            }
        }
        eprintln!("{}: {here}", variant.id);
    }
    eprintln!("{bad} of {all}");
}
