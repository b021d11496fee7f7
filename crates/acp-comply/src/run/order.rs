//! The steps of a test in the order in which they run, their wishes in words.

use super::{Setup, Turn};
use crate::program::{RawBytes, Step, StepKind};
use crate::wish::worded;

/// Puts the wishes of what the step sends into words. One without words stays, and ends the test when it is sent.
pub(super) fn put_into_words(step: &mut Step, setup: &Setup) {
    let mut change = |text: &mut String| {
        if let Ok(words) = worded(text, |wish| setup.wording(wish)) {
            *text = words;
        }
    };
    match &mut step.kind {
        StepKind::Send { frame, .. } => frame.change_texts(&mut change),
        StepKind::Raw(RawBytes::Text(text)) => change(text),
        _ => {}
    }
}

/// Writes repetitions out: each step once, and the order in which they run.
pub(super) fn write_out(steps: &[Step], round: u32, arena: &mut Vec<Step>, order: &mut Vec<Turn>) {
    for step in steps {
        match &step.kind {
            StepKind::Repeat { times, steps } => {
                let first = order.len();
                write_out(steps, 1, arena, order);
                let body: Vec<Turn> = order[first..].to_vec();
                for round in 2..=*times {
                    order.extend(body.iter().map(|turn| Turn { step: turn.step, round }));
                }
            }
            _ => {
                order.push(Turn { step: arena.len(), round });
                arena.push(step.clone());
            }
        }
    }
}
