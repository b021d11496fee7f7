//! Prints every complaint about a legal variant: weight, test, requirement, variant, reason. With `--pairs`, every two
//! variants together.

#[path = "../tests/common/mod.rs"]
mod common;

use acp_play::proof::{covering, examine};
use acp_script::variants::{Variant, catalogue};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let (suite, conditions) = (common::suite("v1"), common::conditions());
    let agents: Vec<Vec<&Variant>> = match wanted.first().map(String::as_str) {
        Some("--pairs") => covering(catalogue()),
        _ => {
            let is_wanted = |variant: &&Variant| wanted.is_empty() || wanted.contains(&variant.id);
            catalogue().iter().filter(is_wanted).map(|variant| vec![variant]).collect()
        }
    };
    let (mut played, mut alarms) = (0, 0);
    for agent in agents {
        let examined = examine(&suite, &agent, &conditions).expect("variants that go together");
        let name = examined.variants.join("+");
        for alarm in &examined.alarms {
            let reason = alarm.reason.replace('\n', " ");
            println!("{:?}\t{}\t{}\t{name}\t{reason}", alarm.weight, alarm.test, alarm.claim);
        }
        for claim in &examined.unheard {
            println!("Unheard\t-\t{claim}\t{name}\tnobody warned");
        }
        played += examined.played;
        alarms += examined.alarms.len();
    }
    eprintln!("{alarms} complaints in {played} tests");
}
