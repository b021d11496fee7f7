//! What a test file can show about an agent's reach, and which wishes its prompts name.

use crate::program::{Marks, Program, Step, StepKind};
use crate::wish::wishes;
use std::collections::BTreeSet;

impl Program {
    /// Every name that some step of the file provides, in the order of the file.
    pub fn provides(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        each_step(&self.steps, &mut |step| {
            let mut add = |list: &[String]| {
                for name in list {
                    if !names.contains(name) {
                        names.push(name.clone());
                    }
                }
            };
            let Marks { provides, .. } = &step.marks;
            add(provides);
            if let StepKind::Expect(expect) = &step.kind {
                for message in &expect.messages {
                    add(&message.marks.provides);
                    message.alternatives.iter().for_each(|envelope| add(&envelope.provides));
                }
            }
        });
        names
    }

    /// The names of the wishes in what the file sends, each once, in the order of the file.
    pub fn wishes(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        each_step(&self.steps, &mut |step| {
            let StepKind::Send { frame, .. } = &step.kind else { return };
            frame.each_text(&mut |_, text| {
                for wish in wishes(text).unwrap_or_default() {
                    if !names.iter().any(|known| known == wish.name) {
                        names.push(wish.name.to_owned());
                    }
                }
            });
        });
        names
    }
}

/// The tests in the order of their needs, by their places in the list: what a later group needs is provided by tests of the
/// groups before it. What nobody provides holds nobody up; tests that need each other stand in the last group.
pub fn in_order_of_needs<'p>(tests: impl IntoIterator<Item = &'p Program>) -> Vec<Vec<usize>> {
    let tests: Vec<&Program> = tests.into_iter().collect();
    let mut left: Vec<usize> = (0..tests.len()).collect();
    let mut groups = Vec::new();
    while !left.is_empty() {
        let open: BTreeSet<String> = left.iter().flat_map(|place| tests[*place].provides()).collect();
        let waits = |place: &usize| tests[*place].needs.iter().any(|name| open.contains(name));
        let (later, now): (Vec<usize>, Vec<usize>) = left.iter().partition(|place| waits(place));
        if now.is_empty() {
            groups.push(later);
            break;
        }
        groups.push(now);
        left = later;
    }
    groups
}

fn each_step(steps: &[Step], visit: &mut impl FnMut(&Step)) {
    for step in steps {
        visit(step);
        if let StepKind::Repeat { steps, .. } = &step.kind {
            each_step(steps, visit);
        }
    }
}
