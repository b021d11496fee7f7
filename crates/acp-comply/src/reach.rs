//! What a test file can show about an agent's reach, and which wishes its prompts name.

use crate::program::{Marks, Program, Step, StepKind};
use crate::wish::wishes;

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

fn each_step(steps: &[Step], visit: &mut impl FnMut(&Step)) {
    for step in steps {
        visit(step);
        if let StepKind::Repeat { steps, .. } = &step.kind {
            each_step(steps, visit);
        }
    }
}
