//! Prints every defect that no test catches: defect, the variants that the agent is besides, requirements. With `--under`,
//! each defect with each variant that touches it; with names, what caught those.

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_play::proof::{hunt, touches};
use acp_script::defects::Defect;
use acp_script::variants::Variant;

fn main() {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let under = wanted.iter().any(|word| word == "--under");
    wanted.retain(|word| word != "--under");
    let (suite, conditions) = (common::suite("v1"), common::conditions());
    let (defects, variants) = (common::defects(), common::variants());
    let chosen = defects.iter().filter(|defect| wanted.is_empty() || wanted.contains(&defect.id));
    let work: Vec<(&Defect, Vec<&Variant>)> = chosen
        .flat_map(|defect| -> Vec<(&Defect, Vec<&Variant>)> {
            if !under {
                return vec![(defect, Vec::new())];
            }
            let touching = variants.iter().filter(|variant| touches(defect, variant));
            touching.map(|variant| (defect, vec![variant])).collect()
        })
        .collect();
    let (next, killed) = (AtomicUsize::new(0), Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((defect, besides)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let hunted = hunt(&suite, defect, besides, &conditions).expect("the plain agent");
                    let besides = hunted.under.join("+");
                    *killed.lock().expect("no thread fails") += usize::from(hunted.is_killed());
                    for (claim, catch) in &hunted.caught {
                        match catch {
                            None => println!("survived\t{}\t{claim}\t{besides}\t{}", defect.id, defect.title),
                            Some(catch) if !wanted.is_empty() => {
                                println!(
                                    "{}\t{claim}\t{besides}\t{}: {}",
                                    defect.id, catch.test, catch.reason
                                );
                            }
                            Some(_) => {}
                        }
                    }
                }
            });
        }
    });
    eprintln!("{} of {} killed", killed.into_inner().expect("no thread fails"), work.len());
}
