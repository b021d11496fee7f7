//! `acp diff OLD.json NEW.json`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_comply::Results;
use acp_report::diff::Diff;
use anyhow::Context;

use crate::exit;

/// Arguments of `acp diff`.
#[derive(clap::Args)]
#[command(after_help = crate::help::DIFF)]
pub struct DiffArgs {
    /// Results of the earlier run (--format json)
    old: PathBuf,
    /// Results of the later run
    new: PathBuf,
    /// How to print the difference
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
}

/// Runs the command.
pub fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let (old, new) = match (read(&args.old), read(&args.new)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("acp diff: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let diff = Diff::between(&old, &new);
    if args.format == "json" {
        println!("{}", serde_json::to_string_pretty(&diff)?);
    } else {
        print!("{}", diff.to_text());
    }
    Ok(ExitCode::from(if diff.has_regressions() { exit::FAILED } else { exit::OK }))
}

fn read(path: &Path) -> anyhow::Result<Results> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Results::from_json(&text).with_context(|| path.display().to_string())
}
