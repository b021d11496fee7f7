//! How well a unit answers a query: BM25 over weighted fields, in the manner of BM25F.

use crate::blocks::Kind;

use super::scan::{Grade, Spot};

/// Where in a unit a word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Name,
    Scope,
    Path,
    Doc,
    Signature,
    Body,
}

/// The numbers of the ranking. They were found on one half of the relevance questions.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    name: f64,
    scope: f64,
    path: f64,
    doc: f64,
    signature: f64,
    body: f64,
    /// A word that only begins like the one that was asked for.
    part: f64,
    k1: f64,
    b: f64,
    /// Words in a unit of usual length.
    usual: f64,
    /// How much it counts that many different words of the query are there.
    coverage: f64,
    weak: f64,
    test: f64,
    lines: f64,
    prose: f64,
}

pub(super) const WEIGHTS: Weights = Weights {
    name: 3.0,
    scope: 0.8,
    path: 0.8,
    doc: 1.6,
    signature: 1.2,
    body: 1.0,
    part: 0.5,
    k1: 1.2,
    b: 0.6,
    usual: 80.0,
    coverage: 1.0,
    weak: 0.25,
    test: 0.6,
    lines: 0.7,
    prose: 0.6,
};

impl Weights {
    /// What one word in this field counts.
    pub(super) fn of(&self, field: Field, grade: Grade) -> f64 {
        let field = match field {
            Field::Name => self.name,
            Field::Scope => self.scope,
            Field::Path => self.path,
            Field::Doc => self.doc,
            Field::Signature => self.signature,
            Field::Body => self.body,
        };
        field * if grade == Grade::Same { 1.0 } else { self.part }
    }

    /// The score of a unit from the weighted number of each term in it.
    pub(super) fn score(&self, counts: &[f64], rarity: &[f64], words: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a unit has few words")]
        let length = 1.0 - self.b + self.b * words as f64 / self.usual;
        let (mut sum, mut covered, mut all) = (0.0, 0.0, 0.0);
        for (count, rarity) in counts.iter().zip(rarity) {
            all += rarity;
            if *count > 0.0 {
                let tf = count / length;
                sum += rarity * tf * (self.k1 + 1.0) / (tf + self.k1);
                covered += rarity * count.min(1.0);
            }
        }
        if all > 0.0 { sum * (covered / all).powf(self.coverage) } else { 0.0 }
    }

    /// What the kind of a unit and of its file count.
    pub(super) fn standing(&self, kind: Kind, test: bool, prose: bool) -> f64 {
        let mut factor = 1.0;
        if test {
            factor *= self.test;
        }
        if kind == Kind::Lines && !prose {
            factor *= self.lines;
        }
        if prose {
            factor *= self.prose;
        }
        factor
    }

    /// How rare a term is: from the number of files, and of those that have it.
    pub(super) fn rarity(&self, files: usize, having: usize, weak: bool) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "there are few files")]
        let (files, having) = (files as f64, having as f64);
        let rarity = (1.0 + (files - having + 0.5) / (having + 0.5)).ln();
        if weak { rarity * self.weak } else { rarity }
    }
}

/// A window of this many bytes is about a function.
const WINDOW: u32 = 1600;

/// What the best unit of a file may be worth, before it is parsed: the rarest words that stand close together.
pub(super) fn promise(spots: &[Spot], on_path: &[f64], rarity: &[f64]) -> f64 {
    let mut counts = vec![0_u32; rarity.len()];
    let gain = |count: u32| 1.0 - 0.5_f64.powi(i32::try_from(count.min(8)).unwrap_or(8));
    let mut inside = 0.0;
    let mut best: f64 = 0.0;
    let mut from = 0;
    for spot in spots {
        let term = usize::from(spot.term);
        let step = |counts: &mut Vec<u32>, term: usize, up: bool| {
            let before = gain(counts[term]);
            counts[term] = if up { counts[term] + 1 } else { counts[term] - 1 };
            (gain(counts[term]) - before) * rarity[term]
        };
        inside += step(&mut counts, term, true);
        while spots[from].at + WINDOW < spot.at {
            inside += step(&mut counts, usize::from(spots[from].term), false);
            from += 1;
        }
        best = best.max(inside);
    }
    let path: f64 = on_path.iter().zip(rarity).map(|(count, rarity)| count.min(1.0) * rarity * 0.3).sum();
    best + path
}
