//! Ranked search of three fixed words over the kernel, beside `ripgrep` for the same words.

use std::process::Command;

use acp_code::search::SearchRequest;

use super::Plan;
use super::timing::{self, Duel, millis};
use super::work::{self, Work};
use crate::rows::{Bar, Wanted};
use crate::table;

/// The words were chosen before the engine was tuned: one of them stands in very many files.
pub(super) const WORDS: [&str; 3] = ["page", "reclaim", "writeback"];

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let root = plan.tree("linux")?;
    let program = plan.tool("rg")?;
    let work = Work::Search { root: root.clone(), request: SearchRequest::new(WORDS.join(" ")) };
    let (duel, ours, theirs) = Duel::fight(
        plan.rounds,
        || timing::run(&mut work.command()?),
        || {
            let mut command = Command::new(&program);
            command.args(["--fixed-strings", "--ignore-case", "--line-number", "--no-heading"]);
            timing::run(command.args(WORDS.iter().flat_map(|word| ["-e", word])).arg(".").current_dir(&root))
        },
    )?;
    let (hits, tail) = work::hits(&ours)?;
    let lines = theirs.iter().filter(|byte| **byte == b'\n').count();
    let row = |what: &str, found: String, seconds: f64, ratio: f64, memory: String| {
        vec![what.to_owned(), found, millis(seconds), format!("{ratio:.2}"), memory]
    };
    let rows = [
        row("ripgrep, any of the words", format!("{lines} lines"), duel.theirs(), 1.0, "–".to_owned()),
        row(
            "ours, ranked blocks",
            format!("{} of {} blocks", hits.len(), tail.total),
            duel.ours(),
            duel.ratio(),
            table::megabytes(tail.peak_kib as f64),
        ),
    ];
    let title = format!("Ranked search over the kernel: {}", WORDS.join(" "));
    table::print(&title, &["", "found", "ms", "times ripgrep's", "peak MB"], &rows);
    for hit in &hits {
        eprintln!("  {:.2} {}:{}-{} {}", hit.score, hit.file, hit.lines[0], hit.lines[1], hit.kind);
    }
    let megabytes = tail.peak_kib as f64 * 1024.0 / 1e6;
    Ok(vec![
        Bar::new("ranked search of three words, times ripgrep's", Wanted::AtMost(5.0), Some(duel.ratio())),
        Bar::new("peak memory of that search, MB", Wanted::AtMost(400.0), Some(megabytes)),
    ])
}
