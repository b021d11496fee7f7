//! Prints what came of every small change of the tests: who noticed it, aim, file and line, what was changed. Names of tests
//! as arguments limit it to those.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use acp_play::proof::{Candidate, Jury, JuryMember, Tried, mutants};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let (suite, conditions) = (common::suite("v1"), common::conditions());
    let (variants, defects) = (common::variants(), common::defects());
    let candidates: Vec<Candidate<'_>> = std::iter::once(Candidate::Conforming)
        .chain(variants.iter().map(Candidate::Legal))
        .chain(defects.iter().map(Candidate::Broken))
        .collect();
    let member = |candidate: &Candidate<'_>| JuryMember::new(*candidate, &conditions).expect("an agent");
    let jury = Jury::new(candidates.iter().map(member).collect());
    eprintln!("{:?} legal and other agents", jury.count());
    let began = Instant::now();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let totals = std::sync::Mutex::new((0, 0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(program) = suite.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    if !wanted.is_empty() && !wanted.contains(&program.id) {
                        continue;
                    }
                    let changes = mutants(program);
                    let tried = jury.try_mutants(program, &changes);
                    let mut totals = totals.lock().expect("no thread fails");
                    for (mutant, tried) in changes.iter().zip(tried) {
                        let by = match &tried {
                            Tried::Killed(by) => by.as_str(),
                            Tried::Survived => "SURVIVED",
                        };
                        totals.0 += 1;
                        totals.1 += usize::from(tried == Tried::Survived);
                        println!("{by}\t{:?}\t{}:{}\t{}", mutant.aim, program.file, mutant.line, mutant.what);
                    }
                }
            });
        }
    });
    let (all, survived) = totals.into_inner().expect("no thread fails");
    eprintln!("{survived} of {all} not found out, {:.1} s", began.elapsed().as_secs_f64());
}
