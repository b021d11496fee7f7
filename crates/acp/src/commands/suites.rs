//! `acp suites list|check|copy`

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_campaign::suite;

use crate::exit;

/// Arguments of `acp suites`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List the built-in suites
    List,
    /// Check test files without running them
    Check {
        /// Files or folders; the built-in suites when none is given
        #[arg(value_name = "FILE|DIR")]
        paths: Vec<PathBuf>,
    },
    /// Write the built-in suites into a folder, to read or to change them
    Copy {
        /// The folder
        dir: PathBuf,
        /// Overwrite files that were changed
        #[arg(long)]
        force: bool,
    },
    /// Print the JSON Schema of test files, for editors
    Schema,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let outcome = match &args.action {
        Action::List => list(),
        Action::Check { paths } => check(paths),
        Action::Copy { dir, force } => copy(dir, *force),
        Action::Schema => {
            print!("{}", include_str!("../../../../schemas/jsont.schema.json"));
            Ok(exit::OK)
        }
    };
    Ok(ExitCode::from(outcome.unwrap_or_else(|error| {
        eprintln!("acp suites: {error}");
        exit::USAGE
    })))
}

fn list() -> Result<u8, acp_campaign::SuiteError> {
    let names = suite::names();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for name in names {
        println!("{name:<width$}  {} tests", suite::embedded(&name)?.len());
    }
    Ok(exit::OK)
}

/// Files that a person changed are named and left alone.
fn copy(dir: &Path, force: bool) -> Result<u8, acp_campaign::SuiteError> {
    let copied = suite::copy(dir, force)?;
    eprintln!("wrote {} files into {}", copied.written, dir.display());
    for path in &copied.left {
        eprintln!("acp suites: {} was changed and stays as it is", path.display());
    }
    if copied.left.is_empty() {
        return Ok(exit::OK);
    }
    eprintln!("acp suites: --force overwrites what was changed");
    Ok(exit::USAGE)
}

fn check(paths: &[PathBuf]) -> Result<u8, acp_campaign::SuiteError> {
    // Built-in suites are read one by one: two of them may have tests of the same id.
    let suites = if paths.is_empty() {
        suite::names().iter().map(|name| suite::embedded(name)).collect::<Result<Vec<_>, _>>()?
    } else {
        vec![suite::from_paths(paths)?]
    };
    let (mut count, mut bad) = (0, false);
    for sources in &suites {
        let (programs, diagnostics) = acp_comply::read_all(sources, &super::comply::defaults());
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        if !diagnostics.is_empty() {
            eprint!("{}", acp_comply::render_all(&diagnostics, sources, colour));
        }
        bad |= diagnostics.iter().any(acp_comply::Diagnostic::is_error);
        for program in &programs {
            for id in program.requirements.iter().filter(|id| id.parse::<acp_rules::ClaimId>().is_err()) {
                bad = true;
                eprintln!(
                    "error: {}: there is no requirement {id}; `acp requirements` lists them",
                    program.file
                );
            }
        }
        count += programs.len();
    }
    if !bad {
        println!("{count} test files are sound");
    }
    Ok(if bad { exit::USAGE } else { exit::OK })
}
