//! What is ranked: every line of a file belongs to exactly one unit.
//!
//! A function or a type is a unit with its comments. Something that holds other blocks (a class, an `impl`, a
//! module, a very long function) gives its head as one unit, its blocks as their own, and what stands between them
//! as runs of lines. So no result contains another.

use crate::blocks::{Kind, Outline};

/// A class of at most this many lines is not taken apart.
const SMALL: usize = 24;
/// A function of more lines than this is taken apart if it holds functions.
const LONG: usize = 150;
/// A run of lines without syntax is cut at about this length.
const RUN: usize = 40;

/// A piece of a file that can be a result.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) kind: Kind,
    /// The block that it is, or is the head of; runs of lines have the block around them.
    pub(super) block: Option<usize>,
    /// First and last line, from 0.
    pub(super) lines: [usize; 2],
}

/// The units of a file in the order of their lines.
pub(super) fn units(outline: &Outline<'_>) -> Vec<Unit> {
    let children = children(outline);
    let mut cutter = Cutter { outline, children, units: Vec::new() };
    let top: Vec<usize> = cutter.children[outline.blocks.len()].clone();
    let last = outline.count().saturating_sub(1);
    cutter.between(None, 0, last, &top);
    cutter.units.sort_by_key(|unit| unit.lines);
    cutter.units
}

/// The blocks inside each block that share no line with one before them; the last entry is for the file.
fn children(outline: &Outline<'_>) -> Vec<Vec<usize>> {
    let top = outline.blocks.len();
    let mut found = vec![Vec::new(); top + 1];
    for (index, block) in outline.blocks.iter().enumerate() {
        let siblings: &mut Vec<usize> = &mut found[block.parent.unwrap_or(top)];
        if siblings.last().is_none_or(|last| outline.blocks[*last].lines[1] < block.lines[0]) {
            siblings.push(index);
        }
    }
    found
}

struct Cutter<'c, 't> {
    outline: &'c Outline<'t>,
    children: Vec<Vec<usize>>,
    units: Vec<Unit>,
}

impl Cutter<'_, '_> {
    fn block(&mut self, index: usize) {
        let block = &self.outline.blocks[index];
        let [first, last] = block.lines;
        let inner: Vec<usize> = self.children[index]
            .iter()
            .copied()
            .filter(|child| {
                self.outline.blocks[*child].lines[0] > block.head
                    && self.outline.blocks[*child].lines[1] <= last
            })
            .collect();
        let length = last + 1 - first;
        let whole =
            inner.is_empty() || if block.kind.holds_blocks() { length <= SMALL } else { length <= LONG };
        if whole {
            self.units.push(Unit { kind: block.kind, block: Some(index), lines: [first, last] });
            return;
        }
        let head = self.outline.blocks[inner[0]].lines[0] - 1;
        let kind = block.kind;
        self.units.push(Unit { kind, block: Some(index), lines: [first, head] });
        self.between(Some(index), head + 1, last, &inner);
    }

    /// The blocks among these lines, and the runs of lines between them.
    fn between(&mut self, around: Option<usize>, first: usize, last: usize, inner: &[usize]) {
        let mut at = first;
        for &child in inner {
            let [from, to] = self.outline.blocks[child].lines;
            if from < at {
                continue;
            }
            if from > at {
                self.run(around, at, from - 1);
            }
            self.block(child);
            at = to + 1;
        }
        if at <= last {
            self.run(around, at, last);
        }
    }

    /// Cuts a run of lines where it is empty, about every [`RUN`] lines.
    fn run(&mut self, around: Option<usize>, first: usize, last: usize) {
        let is_blank = |line: usize| self.outline.slice(line, line).trim().is_empty();
        let mut start = first;
        while start <= last {
            if is_blank(start) {
                start += 1;
                continue;
            }
            let limit = (start + RUN - 1).min(last);
            let mut end = limit;
            if limit < last {
                // The last empty line in the second half is a good place to cut.
                end = (start + RUN / 2..=limit).rev().find(|line| is_blank(*line)).unwrap_or(limit);
            }
            let next = end + 1;
            while end > start && is_blank(end) {
                end -= 1;
            }
            let text = self.outline.slice(start, end);
            if text.bytes().filter(u8::is_ascii_alphanumeric).count() > 2 {
                self.units.push(Unit { kind: Kind::Lines, block: around, lines: [start, end] });
            }
            start = next;
        }
    }
}
