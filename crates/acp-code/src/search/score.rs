//! How well a unit answers a query: BM25 over weighted fields, in the manner of BM25F.

use crate::blocks::Kind;

use super::scan::{GRADES, Grade, Spot};

/// Where in a unit a word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Name,
    Scope,
    Path,
    Doc,
    /// The first sentence of the comment in front.
    Lead,
    Signature,
    /// A comment inside the code.
    Comment,
    Body,
}

/// What a file is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matter {
    Code,
    /// Signatures alone, with the code elsewhere: `.d.ts`, `.pyi`.
    Declarations,
    /// Texts and data: what they say about code is not the code.
    Prose,
}

/// The numbers of the ranking. They were found on one half of the relevance questions.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    name: f64,
    scope: f64,
    path: f64,
    doc: f64,
    lead: f64,
    signature: f64,
    comment: f64,
    body: f64,
    /// A word that only begins like the one that was asked for.
    part: f64,
    /// Another word that often means the same.
    kin: f64,
    k1: f64,
    b: f64,
    /// Words in a unit of usual length.
    usual: f64,
    /// How much it counts that many different words of the query stand together.
    coverage: f64,
    /// What it counts that two words stand side by side as they do in the query.
    near: f64,
    weak: f64,
    test: f64,
    lines: f64,
    prose: f64,
    declarations: f64,
    /// What does nothing by itself, where somebody asks what happens.
    inert: f64,
    huge: f64,
    packed: f64,
}

pub(super) const WEIGHTS: Weights = Weights {
    name: 3.0,
    scope: 0.8,
    path: 0.8,
    doc: 1.5,
    lead: 2.2,
    signature: 1.2,
    comment: 1.1,
    body: 1.0,
    part: 0.5,
    kin: 0.25,
    k1: 1.0,
    b: 0.6,
    usual: 80.0,
    coverage: 0.55,
    near: 0.3,
    weak: 0.25,
    test: 0.6,
    lines: 0.7,
    prose: 0.4,
    declarations: 0.6,
    inert: 0.8,
    huge: 0.8,
    packed: 0.3,
};

impl Weights {
    /// What one word in this field counts.
    pub(super) fn of(&self, field: Field) -> f64 {
        match field {
            Field::Name => self.name,
            Field::Scope => self.scope,
            Field::Path => self.path,
            Field::Doc => self.doc,
            Field::Lead => self.lead,
            Field::Signature => self.signature,
            Field::Comment => self.comment,
            Field::Body => self.body,
        }
    }

    /// The score of a unit from the weighted number of each term in it.
    pub(super) fn score(&self, counts: &[f64], rarity: &[f64], words: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a unit has few words")]
        let length = 1.0 - self.b + self.b * words as f64 / self.usual;
        let mut sum = 0.0;
        for (counts, rarity) in counts.chunks_exact(GRADES.len()).zip(rarity.chunks_exact(GRADES.len())) {
            let worth = |(count, rarity): (&f64, &f64)| {
                let tf = count / length;
                rarity * tf * (self.k1 + 1.0) / (tf + self.k1)
            };
            // The word itself, a part of it or another word for it, whichever says most.
            sum += counts.iter().zip(rarity).map(worth).fold(0.0, f64::max);
        }
        sum
    }

    /// What it counts how much of the query stands together in the best window of a unit; what stands around the unit
    /// is near every window. In all of a very long function there is something of everything.
    pub(super) fn covered(&self, spots: &[Spot], around: &[f64], rarity: &[f64]) -> f64 {
        let mut inside = vec![0_u32; rarity.len()];
        let (mut best, mut from): (f64, usize) = (0.0, 0);
        for spot in spots {
            let feature = spot.feature();
            inside[feature] += 1;
            while spots[from].at + WINDOW < spot.at {
                inside[spots[from].feature()] -= 1;
                from += 1;
            }
            if inside[feature] == 1 {
                best = best.max(share(&inside, around, rarity));
            }
        }
        let all: f64 = rarity.chunks_exact(GRADES.len()).map(|term| term[0]).sum();
        if all > 0.0 { (best / all).powf(self.coverage) } else { 0.0 }
    }

    /// What words that are neighbours in the query and in the text count, each pair once.
    pub(super) fn near(&self, spots: &[Spot], rarity: &[f64]) -> f64 {
        let mut seen = vec![false; rarity.len() / GRADES.len()];
        let mut sum = 0.0;
        for pair in spots.windows(2) {
            let (first, second) = (usize::from(pair[0].term), usize::from(pair[1].term));
            if second == first + 1 && pair[1].at - pair[0].at <= NEIGHBOURS && !seen[first] {
                seen[first] = true;
                sum += self.near * rarity[pair[0].feature()].min(rarity[pair[1].feature()]);
            }
        }
        sum
    }

    /// What the kind of a unit, its length in lines and bytes, and the matter of its file count.
    pub(super) fn standing(&self, kind: Kind, [lines, bytes]: [usize; 2], test: bool, matter: Matter) -> f64 {
        let mut factor = match matter {
            Matter::Code if kind == Kind::Lines => self.lines,
            Matter::Code => 1.0,
            Matter::Declarations => self.declarations,
            Matter::Prose => self.prose,
        };
        if test {
            factor *= self.test;
        }
        if lines > HUGE {
            factor *= self.huge;
        }
        if bytes > PACKED && bytes / PACKED_LINE > lines {
            factor *= self.packed;
        }
        factor
    }

    /// What the kind of a unit counts for a question in whole words: it asks what happens, and functions do things.
    pub(super) fn for_question(&self, kind: Kind) -> f64 {
        if matches!(kind, Kind::Function | Kind::Lines) { 1.0 } else { self.inert }
    }

    /// How rare a word is, from the number of pieces of text and of those that have it; what it is worth if it is
    /// only a part, or weak.
    pub(super) fn rarity(&self, pieces: usize, having: usize, grade: Grade, weak: bool) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "there are few pieces")]
        let (pieces, having) = (pieces as f64, having as f64);
        let rarity = (1.0 + (pieces - having + 0.5) / (having + 0.5)).ln();
        rarity
            * if weak { self.weak } else { 1.0 }
            * match grade {
                Grade::Same => 1.0,
                Grade::Part => self.part,
                Grade::Kin => self.kin,
            }
    }
}

/// Words this many bytes apart are side by side, small words between them included.
const NEIGHBOURS: u32 = 24;

/// A window of this many bytes is about a function.
const WINDOW: u32 = 1600;

/// A unit with more lines than this is no answer that somebody likes to read.
const HUGE: usize = 120;

/// A unit of more bytes than this, with more in a line than that, was packed by a machine: it has something of everything.
const PACKED: usize = 4000;
const PACKED_LINE: usize = 400;

/// What of the query's weight is in a window or around the unit.
fn share(inside: &[u32], around: &[f64], rarity: &[f64]) -> f64 {
    let places: Vec<f64> = inside.iter().zip(around).zip(rarity).map(there).collect();
    let own = rarity.chunks_exact(GRADES.len()).map(|term| term[0]);
    places
        .chunks_exact(GRADES.len())
        .zip(own)
        .map(|(term, own)| term.iter().copied().fold(0.0, f64::max).min(own))
        .sum()
}

fn there(((inside, around), rarity): ((&u32, &f64), &f64)) -> f64 {
    if *inside > 0 { *rarity } else { rarity * around.min(1.0) }
}

/// What the best unit of a file may be worth, before it is parsed: the rarest words that stand close together.
pub(super) fn promise(spots: &[Spot], on_path: &[f64], rarity: &[f64]) -> f64 {
    let mut counts = vec![0_u32; rarity.len()];
    let gain = |count: u32| 1.0 - 0.5_f64.powi(i32::try_from(count.min(8)).unwrap_or(8));
    let mut inside = 0.0;
    let mut best: f64 = 0.0;
    let mut from = 0;
    for spot in spots {
        let step = |counts: &mut Vec<u32>, term: usize, up: bool| {
            let before = gain(counts[term]);
            counts[term] = if up { counts[term] + 1 } else { counts[term] - 1 };
            (gain(counts[term]) - before) * rarity[term]
        };
        inside += step(&mut counts, spot.feature(), true);
        while spots[from].at + WINDOW < spot.at {
            inside += step(&mut counts, spots[from].feature(), false);
            from += 1;
        }
        best = best.max(inside);
    }
    let path: f64 = on_path.iter().zip(rarity).map(|(count, rarity)| count.min(1.0) * rarity * 0.3).sum();
    best + path
}
