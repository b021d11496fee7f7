//! Prints every defect that no test catches: defect, the variants that the agent is besides, requirements.

#[path = "../tests/common/mod.rs"]
mod common;

use acp_play::proof::hunt;
use acp_script::defects::catalogue;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let (suite, conditions) = (common::suite("v1"), common::conditions());
    let (mut all, mut killed) = (0, 0);
    for defect in catalogue().iter().filter(|defect| wanted.is_empty() || wanted.contains(&defect.id)) {
        let hunted = hunt(&suite, defect, &[], &conditions).expect("the plain agent");
        all += 1;
        killed += usize::from(hunted.is_killed());
        for (claim, catch) in &hunted.caught {
            match catch {
                None => println!("survived\t{}\t{claim}\t{}", defect.id, defect.title),
                Some(catch) if !wanted.is_empty() => {
                    println!("{}\t{claim}\t{}: {}", defect.id, catch.test, catch.reason);
                }
                Some(_) => {}
            }
        }
    }
    eprintln!("{killed} of {all} killed");
}
