//! `acp suites list|show|check|copy|schema`

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_campaign::suite;

use crate::exit;
use crate::outputs::FormatArgs;

/// Arguments of `acp suites`.
#[derive(clap::Args)]
#[command(after_help = crate::help::SUITES)]
pub struct SuitesArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List the built-in suites
    List {
        /// How to print.
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Print the file of a built-in test
    Show {
        /// The test's id (`acp comply --list-tests` names them; several allowed)
        #[arg(value_name = "TEST", required = true)]
        tests: Vec<String>,
        /// Look in this suite only
        #[arg(long, value_name = "NAME")]
        suite: Option<String>,
    },
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
pub fn run(args: &SuitesArgs) -> anyhow::Result<ExitCode> {
    let outcome = match &args.action {
        Action::List { format } => list(format.is_json()),
        Action::Show { tests, suite } => show(tests, suite.as_deref()),
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

fn list(is_json: bool) -> Result<u8, acp_campaign::SuiteError> {
    let names = suite::names();
    if is_json {
        let tests =
            |name: &String| Ok(serde_json::json!({"name": name, "tests": suite::embedded(name)?.len()}));
        let list =
            names.iter().map(tests).collect::<Result<serde_json::Value, acp_campaign::SuiteError>>()?;
        println!("{list:#}");
        return Ok(exit::OK);
    }
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for name in names {
        println!("{name:<width$}  {} tests", suite::embedded(&name)?.len());
    }
    Ok(exit::OK)
}

/// Prints tests as they are in their files; what they are and where they belong goes to standard error.
fn show(tests: &[String], suite: Option<&str>) -> Result<u8, acp_campaign::SuiteError> {
    let suites = match suite {
        Some(name) => vec![name.to_owned()],
        // The default suite first: another one may have tests of the same id.
        None => {
            let mut names = suite::names();
            names.sort_by_key(|name| name != "v1");
            names
        }
    };
    let mut sources = Vec::new();
    for name in &suites {
        sources.extend(suite::embedded(name)?.into_iter().map(|source| (name, source)));
    }
    for test in tests {
        let found: Vec<_> = sources.iter().filter(|(_, source)| id_of(&source.name) == test).collect();
        let Some((name, source)) = found.first() else {
            eprintln!("acp suites: there is no test {test:?}{}", nearest(test, &sources));
            return Ok(exit::USAGE);
        };
        eprintln!("{} (suite {name})", source.name);
        for (other, _) in &found[1..] {
            eprintln!("another test of this id is in the suite {other}: --suite {other} shows it");
        }
        print!("{}", acp_text::block(&source.text));
    }
    Ok(exit::OK)
}

/// A test's id is its file's name.
fn id_of(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".jsont").unwrap_or(name)
}

/// Words about tests whose ids contain the one that was asked for, or about how to list all.
fn nearest(test: &str, sources: &[(&String, acp_comply::TestSource)]) -> String {
    let ids = sources.iter().map(|(_, source)| id_of(&source.name));
    let similar: Vec<&str> = ids.filter(|id| id.contains(test)).take(5).collect();
    match similar.is_empty() {
        true => "; acp comply --list-tests lists those of the default suite".to_owned(),
        false => format!("; there is {}", similar.join(", ")),
    }
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
