//! One call of the engine in a process of its own, like the programs it is compared with.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use acp_code::{Engine, StopSignal, query, search};
use serde::{Deserialize, Serialize};

use crate::probe;

/// More results than there are.
pub(super) const ALL: usize = 1_000_000_000;

/// What the process does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// All matches: a line of JSON for each.
    Query { root: PathBuf, request: query::QueryRequest },
    /// The hits: a line of JSON for each, and a last one with the total and the peak of memory in KiB.
    Search { root: PathBuf, request: search::SearchRequest },
}

/// The last line of a search.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tail {
    pub(super) total: usize,
    /// The only figure that differs from run to run.
    pub(super) peak_kib: u64,
}

/// A match as both contestants describe it: file, first byte, end byte.
pub(super) type Place = (String, usize, usize);

impl Work {
    /// The process that does it.
    pub(super) fn command(&self) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["code-work", &serde_json::to_string(self)?]);
        Ok(command)
    }

    /// Does it, and writes to standard output.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let engine = |root: &Path| Engine::new(root);
        match self {
            Self::Query { root, request } => {
                for found in engine(root)?.query(request, &StopSignal::never())?.results {
                    serde_json::to_writer(&mut out, &found)?;
                    out.write_all(b"\n")?;
                }
            }
            Self::Search { root, request } => {
                let results = engine(root)?.search(request, &StopSignal::never())?;
                for hit in &results.results {
                    serde_json::to_writer(&mut out, hit)?;
                    out.write_all(b"\n")?;
                }
                let tail = Tail { total: results.total, peak_kib: probe::kib("self", probe::PEAK) };
                serde_json::to_writer(&mut out, &tail)?;
                out.write_all(b"\n")?;
            }
        }
        out.flush()?;
        Ok(())
    }
}

/// What a search wrote: its hits, and its last line.
pub(super) fn hits(output: &[u8]) -> anyhow::Result<(Vec<search::Hit>, Tail)> {
    let text = std::str::from_utf8(output)?;
    let (hits, tail) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
    let hits = hits.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok((hits, serde_json::from_str(tail)?))
}
