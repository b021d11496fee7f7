//! Prints what the suite makes of every variant and every defect of the folders, without a build of the whole: complaints
//! about legal agents, warnings that did not come, defects that got away, claims that nothing proves. Names of variants and
//! defects as arguments limit it to those.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use acp_comply::Program;
use acp_play::proof::{Examined, Hunted, examine, hunt};
use acp_play::{PlayConditions, needs_process};
use acp_script::defects::Defect;
use acp_script::variants::Variant;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |id: &str| wanted.is_empty() || wanted.iter().any(|name| name == id);
    let mut suite = common::suite("v1");
    let claimed: BTreeSet<String> = suite.iter().flat_map(|test| test.requirements.clone()).collect();
    suite.retain(|test| needs_process(test).is_none());
    let (mut variants, mut defects) = (common::variants(), common::defects());
    variants.retain(|variant| is_wanted(&variant.id));
    defects.retain(|defect| is_wanted(&defect.id));
    let began = Instant::now();
    let proved = Mutex::new(BTreeSet::new());
    let conditions = common::conditions();
    side_by_side(&variants, |variant| try_variant(&suite, variant, &conditions));
    side_by_side(&defects, |defect| {
        let caught = try_defect(&suite, defect, &conditions);
        proved.lock().expect("no thread fails").extend(caught);
    });
    let proved = proved.into_inner().expect("no thread fails");
    if wanted.is_empty() {
        let open: Vec<&str> = claimed.difference(&proved).map(String::as_str).collect();
        println!("claimed, but not proved in memory: {}", open.join(", "));
    }
    eprintln!(
        "{} variants, {} defects, {:.1} s",
        variants.len(),
        defects.len(),
        began.elapsed().as_secs_f64()
    );
}

fn side_by_side<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}

fn try_variant(suite: &[Arc<Program>], variant: &Variant, conditions: &PlayConditions) {
    let Examined { alarms, unheard, .. } = examine(suite, &[variant], conditions).expect("an agent");
    for alarm in alarms {
        println!("{:?} {} ({}) on {}: {}", alarm.weight, alarm.test, alarm.claim, variant.id, alarm.reason);
    }
    for claim in unheard {
        println!("no warning about {claim} on {}", variant.id);
    }
}

/// The claims for which the defect was caught.
fn try_defect(suite: &[Arc<Program>], defect: &Defect, conditions: &PlayConditions) -> Vec<String> {
    let Hunted { caught, .. } = hunt(suite, defect, &[], conditions).expect("the plain agent");
    let (caught, open): (Vec<_>, Vec<_>) = caught.into_iter().partition(|(_, catch)| catch.is_some());
    for (claim, _) in open {
        println!("{} got away in memory ({claim}): {}", defect.id, defect.title);
    }
    caught.into_iter().map(|(claim, _)| claim).collect()
}
