//! Structural queries beside the `ast-grep` command: the same set, and how long it takes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use acp_code::query::{QueryMatch, QueryRequest};
use ast_grep_language::{Language as _, SupportLang};
use serde::Deserialize;

use super::timing::{self, Duel, millis};
use super::work::{ALL, Place, Work};
use super::{Plan, data};
use crate::rows::{Bar, Wanted};
use crate::table;

/// A literal in a smaller share of the files than this is rare. Only files of the pattern's language count: the
/// others are opened by neither side.
const RARE: f64 = 0.05;
/// A tree with fewer such files than this is not big: starting a process weighs too much.
const BIG: usize = 1_000;

#[derive(Debug, Deserialize)]
struct Pattern {
    id: String,
    language: String,
    pattern: String,
    literal: String,
    tree: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Theirs {
    file: String,
    range: Range,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Range {
    byte_offset: Offset,
}

#[derive(Debug, Deserialize)]
struct Offset {
    start: usize,
    end: usize,
}

pub(super) fn run(plan: &Plan) -> anyhow::Result<Vec<Bar>> {
    let program = plan.tool("ast-grep")?;
    let patterns: Vec<Pattern> = data("acp-code/tests/query-golden/patterns.json")?;
    let (mut rows, mut equal, mut rare, mut slowdowns) = (Vec::new(), 0, Vec::new(), Vec::new());
    let wanted: Vec<_> = patterns.iter().filter(|entry| entry.id.contains(&plan.pattern)).collect();
    for (number, entry) in wanted.iter().enumerate() {
        eprint!("\r\x1b[K  {} of {}: {}", number + 1, wanted.len(), entry.id);
        let root = plan.tree(&entry.tree)?;
        let (files, holding) = spread(plan, &root, entry)?;
        let request = QueryRequest {
            language: Some(entry.language.clone()),
            max_results: ALL,
            ..QueryRequest::new(&entry.pattern)
        };
        let work = Work::Query { root: root.clone(), request };
        let (duel, ours, theirs) = Duel::fight(
            plan.rounds,
            || timing::run(&mut work.command()?),
            || {
                let arguments =
                    ["run", "--pattern", &entry.pattern, "--lang", &entry.language, "--json=stream", "."];
                timing::run(Command::new(&program).args(arguments).current_dir(&root))
            },
        )?;
        let (ours, theirs) = (our_places(&ours)?, their_places(&theirs)?);
        let share = holding as f64 / files.max(1) as f64;
        let marked = share < RARE && files >= BIG;
        equal += usize::from(ours == theirs);
        slowdowns.push(duel.ratio());
        if marked {
            rare.push(1.0 / duel.ratio());
        }
        rows.push(vec![
            entry.id.clone(),
            entry.tree.clone(),
            files.to_string(),
            format!("{:.1} %{}", share * 100.0, if marked { " rare" } else { "" }),
            if ours == theirs { ours.len().to_string() } else { differing(&ours, &theirs) },
            millis(duel.ours()),
            millis(duel.theirs()),
            format!("{:.2}", 1.0 / duel.ratio()),
        ]);
    }
    eprint!("\r\x1b[K");
    let header = [
        "pattern",
        "tree",
        "files of its language",
        "with the literal",
        "matches",
        "ours, ms",
        "ast-grep, ms",
        "times as fast",
    ];
    table::print(&format!("Query: {} patterns, ours beside ast-grep", rows.len()), &header, &rows);
    let different = Some((rows.len() - equal) as f64);
    let slowest = slowdowns.into_iter().reduce(f64::max);
    let least = rare.into_iter().reduce(f64::min);
    Ok(vec![
        Bar::new("patterns whose matches differ from ast-grep's", Wanted::AtMost(0.0), different),
        Bar::new("rare literals on a big tree: the least gain over ast-grep", Wanted::AtLeast(10.0), least),
        Bar::new("all patterns: the worst time, times ast-grep's", Wanted::AtMost(1.2), slowest),
    ])
}

/// How many files of the pattern's language the tree has, and how many of them hold the literal.
fn spread(plan: &Plan, root: &Path, entry: &Pattern) -> anyhow::Result<(usize, usize)> {
    let program = plan.tool("rg")?;
    let language: SupportLang = entry.language.parse()?;
    let count = |arguments: &[&str]| -> anyhow::Result<usize> {
        let run = timing::run(Command::new(&program).args(arguments).current_dir(root))?;
        let names = String::from_utf8_lossy(&run.output);
        Ok(names.lines().filter(|name| SupportLang::from_path(name) == Some(language)).count())
    };
    let holding = ["--files-with-matches", "--fixed-strings", "-e", &entry.literal, "."];
    Ok((count(&["--files"])?, count(&holding)?))
}

fn our_places(output: &[u8]) -> anyhow::Result<BTreeSet<Place>> {
    let lines = std::str::from_utf8(output)?.lines();
    let found = lines.map(serde_json::from_str::<QueryMatch>).collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().map(|found| (found.file, found.bytes[0], found.bytes[1])).collect())
}

fn their_places(output: &[u8]) -> anyhow::Result<BTreeSet<Place>> {
    let lines = std::str::from_utf8(output)?.lines();
    let found = lines.map(serde_json::from_str::<Theirs>).collect::<Result<Vec<_>, _>>()?;
    let place = |found: Theirs| {
        let file = found.file.strip_prefix("./").map(str::to_owned).unwrap_or(found.file);
        (file, found.range.byte_offset.start, found.range.byte_offset.end)
    };
    Ok(found.into_iter().map(place).collect())
}

/// How the sets differ, with the first difference on standard error.
fn differing(ours: &BTreeSet<Place>, theirs: &BTreeSet<Place>) -> String {
    let (more, fewer) = (ours.difference(theirs).count(), theirs.difference(ours).count());
    eprintln!("\n  only ours: {:?}", ours.difference(theirs).next());
    eprintln!("  only ast-grep's: {:?}", theirs.difference(ours).next());
    format!("{} DIFFER: {more} more, {fewer} fewer", theirs.len())
}
