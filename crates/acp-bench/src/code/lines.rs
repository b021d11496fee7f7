//! Literal search beside `ripgrep`.

use std::process::Command;

use acp_code::search::SearchRequest;

use super::Plan;
use super::timing::{self, Duel, millis};
use super::work::{self, ALL, Work};
use crate::rows::{Bar, Wanted};
use crate::table;

/// From rare to common in a kernel.
const LITERALS: [&str; 3] = ["rcu_dereference_protected", "EXPORT_SYMBOL_GPL", "mutex_lock"];

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let root = plan.tree("linux")?;
    let program = plan.tool("rg")?;
    let (mut rows, mut worst) = (Vec::new(), Vec::new());
    for literal in LITERALS {
        for (what, max_results, shown) in [("count", 10, "--count"), ("every line", ALL, "--line-number")] {
            eprint!("\r\x1b[K  {literal}: {what}");
            let request = SearchRequest { exact: true, max_results, ..SearchRequest::new(literal) };
            let work = Work::Search { root: root.clone(), request };
            let (duel, ours, theirs) = Duel::fight(
                plan.rounds,
                || timing::run(&mut work.command()?),
                || {
                    timing::run(
                        Command::new(&program).args([shown, "-F", "-e", literal, "."]).current_dir(&root),
                    )
                },
            )?;
            let (hits, tail) = work::hits(&ours)?;
            let theirs = count(&theirs, max_results == ALL);
            anyhow::ensure!(
                max_results != ALL || hits.len() == tail.total,
                "{} of {} lines shown",
                hits.len(),
                tail.total
            );
            let lines = if tail.total == theirs {
                theirs.to_string()
            } else {
                format!("{}, ripgrep {theirs}", tail.total)
            };
            worst.push(duel.ratio());
            rows.push(vec![
                format!("{literal}, {what}"),
                lines,
                millis(duel.ours()),
                millis(duel.theirs()),
                format!("{:.2}", duel.ratio()),
                table::megabytes(tail.peak_kib as f64),
            ]);
        }
    }
    eprint!("\r\x1b[K");
    let header = ["", "lines", "ours, ms", "ripgrep, ms", "times ripgrep's", "ours, MB"];
    table::print("Exact search over the kernel, ours beside ripgrep", &header, &rows);
    let worst = worst.into_iter().reduce(f64::max);
    Ok(vec![Bar::new("exact search, the worst time, times ripgrep's", Wanted::AtMost(1.3), worst)])
}

/// The number of lines that ripgrep found: one per line, or the sum of its counts.
fn count(output: &[u8], every: bool) -> usize {
    let text = String::from_utf8_lossy(output);
    if every {
        return text.lines().filter(|line| !line.starts_with("binary file matches")).count();
    }
    text.lines().filter_map(|line| line.rsplit_once(':')?.1.parse::<usize>().ok()).sum()
}
