//! `acp matrix RESULTS.json…`, and `acp matrix --agent NAME`, which makes the results first.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_comply::Results;
use acp_report::matrix::{AGENT_ROWS, DEFAULT_ROWS, Matrix, MatrixFormat, MatrixRow};
use anyhow::Context;
use clap::{Args as _, FromArgMatches};

use crate::exit;
use crate::target::ConnectToken;

/// Arguments of `acp matrix`.
#[derive(clap::Args)]
#[command(after_help = crate::help::MATRIX)]
pub struct MatrixArgs {
    /// Results of `acp comply` or `acp harness` (--format json); agents of one name share a column
    #[arg(value_name = "RESULTS", required_unless_present_any = ["agent", "command", "connect"])]
    results: Vec<PathBuf>,
    /// Test this agent first: `mock`, one of acp.toml, or one of `acp profiles` that is installed (several allowed)
    #[arg(long, value_name = "NAME", help_heading = "Which agent")]
    agent: Vec<String>,
    /// Test the agent of this command line first (several allowed)
    #[arg(long, value_name = "COMMAND", help_heading = "Which agent")]
    command: Vec<String>,
    /// Test the running agent at this address first: tcp://HOST:PORT or ws://HOST:PORT/acp (several allowed)
    #[arg(long, value_name = "ADDRESS", help_heading = "Which agent")]
    connect: Vec<String>,
    /// The token that a listening agent or proxy demands
    #[command(flatten)]
    token: ConnectToken,
    /// Run without network access (loopback only; Linux)
    #[arg(long, help_heading = "Which agent")]
    isolate: bool,
    /// How to write the matrix
    #[arg(long, default_value = "markdown", value_parser = ["markdown", "html", "json"])]
    format: String,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Show these rows instead: a JSON file with names, places of declaration and tests
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// Show secrets and home folders in excerpts
    #[arg(long)]
    no_redact: bool,
}

/// Runs the command.
pub fn run(args: &MatrixArgs) -> anyhow::Result<ExitCode> {
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

fn read_all(args: &MatrixArgs) -> anyhow::Result<(Vec<Results>, Vec<MatrixRow>)> {
    if let Some(path) = &args.out {
        crate::out::check_not_among(path, &args.results)?;
    }
    let asks = !(args.agent.is_empty() && args.command.is_empty() && args.connect.is_empty());
    let rows = match &args.rows {
        None => Matrix::rows(if asks { AGENT_ROWS } else { DEFAULT_ROWS })?,
        Some(path) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Matrix::rows(&text).with_context(|| format!("{} holds no rows of a matrix", path.display()))?
        }
    };
    let mut all = args.results.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    if asks {
        all.push(ask(args, &rows)?);
    }
    let redacted = |results: Results| match args.no_redact {
        true => Ok(results),
        false => acp_report::redact_results(&results).map_err(anyhow::Error::from),
    };
    Ok((all.into_iter().map(redacted).collect::<anyhow::Result<_>>()?, rows))
}

/// Runs the tests that speak for the rows.
fn ask(args: &MatrixArgs, rows: &[MatrixRow]) -> anyhow::Result<Results> {
    let mut line: Vec<&str> = vec!["comply", "--suite", "v1", "--suite", "questions"];
    let tests = rows.iter().flat_map(|row| &row.tests).map(|test| ("--test", test));
    let agents = args.agent.iter().map(|name| ("--agent", name));
    let commands = args.command.iter().map(|command| ("--command", command));
    let addresses = args.connect.iter().map(|address| ("--connect", address));
    for (flag, value) in tests.chain(agents).chain(commands).chain(addresses) {
        line.extend([flag, value]);
    }
    line.extend(args.isolate.then_some("--isolate"));
    let token = args.token.get();
    line.extend(token.iter().flat_map(|token| ["--connect-token", token]));
    let command = super::comply::ComplyArgs::augment_args(clap::Command::new("comply"));
    let chosen = super::comply::ComplyArgs::from_arg_matches(&command.try_get_matches_from(line)?)?;
    super::comply::results(&chosen)
}

fn read(path: &Path) -> anyhow::Result<Results> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Results::from_json(&text).with_context(|| path.display().to_string())
}
