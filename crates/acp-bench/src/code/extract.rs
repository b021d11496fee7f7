//! Extraction of a symbol from a large file beside the bare parse of that file.

use std::time::Instant;

use acp_code::extract::ExtractRequest;
use acp_code::{Engine, StopSignal};
use anyhow::Context as _;
use ast_grep_language::{LanguageExt as _, SupportLang};

use super::Plan;
use super::timing::{median, millis};
use crate::rows::{Bar, Wanted};
use crate::table;

/// A file, a symbol near its end, and the language.
const SYMBOLS: [(&str, &str, &str, SupportLang); 2] = [
    ("linux", "net/core/dev.c", "default_device_exit_batch", SupportLang::C),
    ("linux", "kernel/sched/fair.c", "init_cfs_rq", SupportLang::C),
];
/// Runs of each contestant in one round.
const TURNS: usize = 15;

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let (mut rows, mut worst) = (Vec::new(), Vec::new());
    for (tree, file, symbol, language) in SYMBOLS {
        let root = plan.tree(tree)?;
        let text = std::fs::read_to_string(root.join(file)).with_context(|| format!("reading {file}"))?;
        let lines = text.lines().count();
        anyhow::ensure!(lines >= 10_000, "{file} has only {lines} lines");
        let request = ExtractRequest::new([format!("{file}#{symbol}")]);
        let mut parser = tree_sitter::Parser::new();
        parser.set_language(&language.get_ts_language())?;
        let (mut bare, mut ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..plan.rounds * TURNS {
            let began = Instant::now();
            let tree = parser.parse(&text, None).context("parsing")?;
            let parsed = began.elapsed().as_secs_f64();
            anyhow::ensure!(tree.root_node().end_byte() > 0, "{file}: nothing was parsed");
            // A new engine each time, so that nothing is remembered from the turn before.
            let began = Instant::now();
            let results = Engine::new(&root)?.extract(&request, &StopSignal::never())?;
            let extracted = began.elapsed().as_secs_f64();
            let code = results.results.first().and_then(|piece| piece.code.as_deref()).unwrap_or_default();
            anyhow::ensure!(
                results.failed == 0 && code.contains(symbol),
                "{symbol} was not extracted: {results:?}"
            );
            bare.push(parsed);
            ours.push(extracted);
            ratios.push(extracted / parsed);
        }
        let ratio = median(ratios);
        worst.push(ratio);
        rows.push(vec![
            format!("{file}#{symbol}"),
            lines.to_string(),
            format!("{:.1}", median(bare) * 1e3),
            millis(median(ours)),
            format!("{ratio:.2}"),
        ]);
    }
    let header = ["", "lines", "bare parse, ms", "extract, ms", "times the parse"];
    table::print("Extract of a symbol, beside the bare parse of its file", &header, &rows);
    let worst = worst.into_iter().reduce(f64::max);
    Ok(vec![Bar::new("extract, the worst time, times the bare parse's", Wanted::AtMost(2.0), worst)])
}
