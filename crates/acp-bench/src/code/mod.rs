//! The code engine beside `ast-grep`, `ripgrep` and a line-based BM25, over trees that `scripts/code-trees` fetches.

mod baseline;
mod extract;
mod lines;
mod query;
mod relevance;
mod same;
mod timing;
mod words;
mod work;

pub(crate) use work::Work;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::rows::{Bar, print_bars};

/// Measures the code engine side by side with `ast-grep`, `ripgrep` and a line-based BM25.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that `scripts/code-trees` filled.
    #[arg(long, value_name = "DIR")]
    trees: PathBuf,
    /// Rounds; each contestant runs once per round, and medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only the groups whose name contains this: query, exact, ranked, relevance, extract, same.
    #[arg(long, default_value = "")]
    only: String,
    /// In the group "query", only the patterns whose id contains this.
    #[arg(long, default_value = "")]
    pattern: String,
    /// In the group "relevance", name the questions of the tuning half that were not answered.
    #[arg(long)]
    misses: bool,
}

/// What every group needs to know.
#[derive(Debug)]
pub(crate) struct Plan {
    trees: PathBuf,
    rounds: usize,
    pattern: String,
    misses: bool,
}

impl Plan {
    fn tree(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.trees.join(name);
        anyhow::ensure!(path.is_dir(), "there is no {}; run scripts/code-trees", path.display());
        Ok(path)
    }

    fn tool(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.trees.join("tools").join(name);
        anyhow::ensure!(path.is_file(), "there is no {}; run scripts/code-trees", path.display());
        Ok(path)
    }
}

type Group = fn(&Plan) -> anyhow::Result<Vec<Bar>>;

/// Runs every group that is wanted and prints what came out.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let groups: [(&str, Group); 6] = [
        ("query", query::run),
        ("exact", lines::run),
        ("ranked", words::run),
        ("relevance", relevance::run),
        ("extract", extract::run),
        ("same", same::run),
    ];
    let trees = args.trees.canonicalize().with_context(|| format!("opening {}", args.trees.display()))?;
    let plan = Plan { trees, rounds: args.rounds.max(1), pattern: args.pattern.clone(), misses: args.misses };
    let known = groups.map(|(name, _)| name).join(", ");
    let wanted: Vec<_> = groups.into_iter().filter(|(name, _)| name.contains(&args.only)).collect();
    anyhow::ensure!(!wanted.is_empty(), "no such group; there are: {known}");
    let mut bars = Vec::new();
    for (name, run) in wanted {
        bars.extend(run(&plan).with_context(|| format!("measuring {name}"))?);
    }
    print_bars("What the code engine promises", &bars);
    Ok(())
}

/// A file of this repository's data.
fn data<T: serde::de::DeserializeOwned>(path: &str) -> anyhow::Result<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))
}
