//! How often the first ten results hold the answer to a question, beside the baseline.

use std::collections::HashMap;

use acp_code::search::SearchRequest;
use acp_code::{Engine, StopSignal};
use serde::Deserialize;

use super::baseline::Lines;
use super::{Plan, data};
use crate::rows::{Bar, Wanted};
use crate::table;

/// How many results count.
const FIRST: usize = 10;

#[derive(Debug, Deserialize)]
struct Question {
    id: String,
    package: String,
    question: String,
    answers: Vec<Answer>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    file: String,
    lines: [usize; 2],
}

impl Answer {
    /// A result is a hit when it shares half of the shorter range and is not far longer than the answer.
    fn hit(&self, file: &str, [first, last]: [usize; 2]) -> bool {
        let own = self.lines[1] + 1 - self.lines[0];
        let length = last + 1 - first;
        let shared = (last.min(self.lines[1]) + 1).saturating_sub(first.max(self.lines[0]));
        file == self.file && shared * 2 >= own.min(length) && length <= (3 * own).max(120)
    }
}

/// Where the answers stood, question by question.
#[derive(Debug, Default)]
struct Ranks(Vec<Option<usize>>);

impl Ranks {
    fn recall(&self) -> f64 {
        self.0.iter().flatten().count() as f64 / self.0.len() as f64
    }

    fn mrr(&self) -> f64 {
        self.0.iter().flatten().map(|rank| 1.0 / *rank as f64).sum::<f64>() / self.0.len() as f64
    }
}

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let folder = plan.tree("relevance")?;
    let (mut engines, mut lines) = (HashMap::new(), HashMap::new());
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for (half, file) in [
        ("tuning", "questions-tune.json"),
        ("set aside", "questions-holdout.json"),
        ("other packages", "questions-unseen.json"),
    ] {
        let questions: Vec<Question> = data(&format!("acp-code/relevance/{file}"))?;
        let (mut engine_ranks, mut line_ranks) = (Ranks::default(), Ranks::default());
        for question in &questions {
            let root = folder.join(&question.package);
            if !engines.contains_key(&question.package) {
                engines.insert(question.package.clone(), Engine::new(&root)?);
                lines.insert(question.package.clone(), Lines::read(&root)?);
            }
            if let Some(engine) = engines.get(&question.package) {
                let hits =
                    engine.search(&SearchRequest::new(&question.question), &StopSignal::never())?.results;
                let places = hits.iter().take(FIRST).map(|hit| (hit.file.as_str(), hit.lines));
                engine_ranks.0.push(rank(question, places));
            }
            if let Some(lines) = lines.get(&question.package) {
                let best = lines.search(&question.question, FIRST);
                line_ranks.0.push(rank(
                    question,
                    best.into_iter().map(|(file, line)| (file.as_str(), [*line, *line])),
                ));
            }
            if plan.misses && half == "tuning" && engine_ranks.0.last() == Some(&None) {
                eprintln!("  missed: {} {}", question.id, question.question);
            }
        }
        for (who, ranks) in [("line-based BM25", &line_ranks), ("ours", &engine_ranks)] {
            rows.push(vec![
                format!("{half}, {} questions: {who}", questions.len()),
                format!("{:.3}", ranks.recall()),
                format!("{:.3}", ranks.mrr()),
            ]);
        }
        bars.push((half, line_ranks, engine_ranks));
    }
    table::print("Relevance: natural questions over thirteen packages", &["", "recall@10", "MRR"], &rows);
    let mut promised = Vec::new();
    for (half, line_ranks, engine_ranks) in bars {
        if half == "tuning" {
            promised.push(Bar::new(
                "baseline's recall@10, tuning half",
                Wanted::AtMost(0.7),
                Some(line_ranks.recall()),
            ));
            continue;
        }
        if half == "other packages" {
            promised.push(Bar::new(
                "recall@10, other packages",
                Wanted::AtLeast(0.93),
                Some(engine_ranks.recall()),
            ));
            promised.push(Bar::new("MRR, other packages", Wanted::AtLeast(0.7), Some(engine_ranks.mrr())));
            continue;
        }
        promised.push(Bar::new(
            "baseline's recall@10, half set aside",
            Wanted::AtMost(0.7),
            Some(line_ranks.recall()),
        ));
        promised.push(Bar::new(
            "recall@10, half set aside",
            Wanted::AtLeast(0.85),
            Some(engine_ranks.recall()),
        ));
        promised.push(Bar::new("MRR, half set aside", Wanted::AtLeast(0.5), Some(engine_ranks.mrr())));
    }
    Ok(promised)
}

fn rank<'a>(question: &Question, mut places: impl Iterator<Item = (&'a str, [usize; 2])>) -> Option<usize> {
    let hit = |(file, lines)| question.answers.iter().any(|answer| answer.hit(file, lines));
    places.position(hit).map(|index| index + 1)
}
