//! The same output in every run: ten processes for each kind of call.

use std::path::PathBuf;

use acp_code::{query, search};

use super::work::Work;
use super::{Plan, timing, words};
use crate::rows::{Bar, Wanted};
use crate::table;

const RUNS: usize = 10;

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let (go, linux) = (plan.tree("go")?, plan.tree("linux")?);
    let ranked = |root: &PathBuf, words: String| Work::Search {
        root: root.clone(),
        request: search::SearchRequest::new(words),
    };
    let calls = [
        ("ranked search over the kernel", ranked(&linux, words::WORDS.join(" "))),
        ("ranked search over Go's sources", ranked(&go, "connection timeout retry".to_owned())),
        (
            "exact search over Go's sources",
            Work::Search {
                root: go.clone(),
                request: search::SearchRequest {
                    exact: true,
                    ..search::SearchRequest::new("context.Context")
                },
            },
        ),
        (
            "query over Go's sources",
            Work::Query {
                root: go.clone(),
                request: query::QueryRequest {
                    language: Some("go".to_owned()),
                    ..query::QueryRequest::new("defer $X.Unlock()")
                },
            },
        ),
    ];
    let (mut rows, mut most) = (Vec::new(), 0);
    for (what, work) in calls {
        let mut outputs = Vec::new();
        for number in 0..RUNS {
            eprint!("\r\x1b[K  {what}: {} of {RUNS}", number + 1);
            outputs.push(without_memory(&timing::run(&mut work.command()?)?.output));
        }
        outputs.sort();
        outputs.dedup();
        let bytes = outputs.first().map_or(0, String::len);
        anyhow::ensure!(bytes > 100, "{what}: there was nothing to compare");
        most = most.max(outputs.len());
        rows.push(vec![what.to_owned(), bytes.to_string(), outputs.len().to_string()]);
    }
    eprint!("\r\x1b[K");
    table::print(
        &format!("The same output: {RUNS} processes each"),
        &["", "bytes", "different outputs"],
        &rows,
    );
    Ok(vec![Bar::new("different outputs over ten runs", Wanted::AtMost(1.0), Some(most as f64))])
}

/// The output without the one figure that is meant to differ.
fn without_memory(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.split("\"peak_kib\"").next().unwrap_or_default().to_owned()
}
