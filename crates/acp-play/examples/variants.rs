//! Prints every complaint about a legal variant: weight, test, requirement, variant, reason. With `--pairs`, every two
//! variants together; with `--chance SEED`, some by chance; names joined by `+` are one agent.

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_play::proof::{covering, examine, random};
use acp_script::variants::Variant;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let (suite, conditions) = (common::suite("v1"), common::conditions());
    let catalogue = common::variants();
    let named = |name: &str| catalogue.iter().find(|variant| variant.id == name).expect("a variant");
    let agents: Vec<Vec<&Variant>> = match wanted.first().map(String::as_str) {
        Some("--pairs") => covering(&catalogue),
        Some("--chance") => random(&catalogue, wanted[1].parse().expect("a number"), 100),
        None => catalogue.iter().map(|variant| vec![variant]).collect(),
        Some(_) => wanted.iter().map(|names| names.split('+').map(named).collect()).collect(),
    };
    let (next, totals) = (AtomicUsize::new(0), Mutex::new((0, 0)));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(agent) = agents.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let examined = examine(&suite, agent, &conditions).expect("variants that go together");
                    let name = examined.variants.join("+");
                    let mut totals = totals.lock().expect("no thread fails");
                    for alarm in &examined.alarms {
                        let reason = alarm.reason.replace('\n', " ");
                        println!("{:?}\t{}\t{}\t{name}\t{reason}", alarm.weight, alarm.test, alarm.claim);
                    }
                    for claim in examined.unheard.iter().filter(|_| agent.len() == 1) {
                        println!("Unheard\t-\t{claim}\t{name}\tnobody warned");
                    }
                    totals.0 += examined.played;
                    totals.1 += examined.alarms.len();
                }
            });
        }
    });
    let (played, alarms) = totals.into_inner().expect("no thread fails");
    eprintln!("{alarms} complaints in {played} tests of {} agents", agents.len());
}
