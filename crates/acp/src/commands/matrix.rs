//! `acp matrix RESULTS.json…`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_comply::Results;
use acp_report::matrix::{DEFAULT_ROWS, Matrix, MatrixFormat, Row};
use anyhow::Context;

use crate::exit;

/// Arguments of `acp matrix`.
#[derive(clap::Args)]
#[command(after_help = "Exits with 2 when a file cannot be read.")]
pub struct Args {
    /// Results of `acp comply` or `acp harness` (--format json); agents of one name share a column
    #[arg(value_name = "RESULTS", required = true)]
    results: Vec<PathBuf>,
    /// How to write the matrix
    #[arg(long, default_value = "markdown", value_parser = ["markdown", "html", "json"])]
    format: String,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Other rows: a JSON file with names, places of declaration and tests
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// Show secrets and home folders in excerpts
    #[arg(long)]
    no_redact: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (results, rows) = match read_all(args) {
        Ok(read) => read,
        Err(error) => {
            eprintln!("acp matrix: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let format = match args.format.as_str() {
        "html" => MatrixFormat::Html,
        "json" => MatrixFormat::Json,
        _ => MatrixFormat::Markdown,
    };
    let text = Matrix::of(&results, rows).render(format)?;
    crate::out::write(args.out.as_deref(), text)?;
    Ok(ExitCode::SUCCESS)
}

fn read_all(args: &Args) -> anyhow::Result<(Vec<Results>, Vec<Row>)> {
    if let Some(path) = &args.out {
        crate::out::check_not_among(path, &args.results)?;
    }
    let mut results = Vec::new();
    for path in &args.results {
        let read = read(path)?;
        results.push(if args.no_redact { read } else { acp_report::redact_results(&read)? });
    }
    let rows = match &args.rows {
        None => Matrix::rows(DEFAULT_ROWS)?,
        Some(path) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Matrix::rows(&text).with_context(|| format!("{} holds no rows of a matrix", path.display()))?
        }
    };
    Ok((results, rows))
}

fn read(path: &Path) -> anyhow::Result<Results> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Results::from_json(&text).with_context(|| path.display().to_string())
}
