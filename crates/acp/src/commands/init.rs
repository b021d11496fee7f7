//! `acp init`: settings, a list of known failures and a CI job for an agent's repository.

use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_comply::{ConformancePolicy, ExpectedFailures, Results, RunStanding};
use acp_report::{ReportFormat, ReportOptions};
use anyhow::{Context, bail, ensure};
use clap::{Args as _, FromArgMatches};

use crate::settings::{FILE, FileSettings};
use crate::{exit, out, progress, target};

const EXPECTED: &str = "acp-expected.txt";
const WORKFLOW: &str = ".github/workflows/acp.yml";
const SCRIPT: &str = "acp-check.sh";
/// Where the script puts its reports.
const REPORTS: &str = "acp-reports";
/// The action of this release. OWNER stands for the account that hosts it.
const ACTION: &str = concat!("OWNER/acp-workbench@v", env!("CARGO_PKG_VERSION"));
const EXPECTED_HEAD: &str = "\
# Known failures: a requirement or a test, then the reason. `acp comply` passes as long as nothing else fails, and exits
# with 4 when an entry no longer applies.
";

/// Arguments of `acp init`.
#[derive(clap::Args)]
#[command(after_help = crate::help::INIT)]
pub struct InitArgs {
    /// The agent's repository
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The command that starts the agent, from DIR
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// What to call the agent; without it, the name of DIR
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The CI job: github (a workflow), shell (a script that runs anywhere) or none
    #[arg(long, value_name = "KIND", value_enum, default_value_t, hide_possible_values = true)]
    ci: Ci,
    /// The action for the workflow
    #[arg(long, value_name = "OWNER/REPO@REF", default_value = ACTION, value_parser = action)]
    action: String,
    /// Do not run the compliance suite; the list of known failures starts empty
    #[arg(long)]
    no_run: bool,
    /// Overwrite files that exist
    #[arg(long)]
    force: bool,
}

/// Where the check runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Ci {
    #[default]
    Github,
    Shell,
    None,
}

/// Writes the files, runs the suite once, and says what to do next.
pub fn run(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let prepared = prepare(args);
    let (name, command) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("acp init: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    put(args, FILE, &config(&name, command.as_deref()))?;
    let has_agent = match FileSettings::load() {
        Ok(settings) => settings.agent_names().next().is_some(),
        Err(error) => {
            eprintln!("acp init: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let ran = known_failures(args, has_agent)?;
    if matches!(ran, Ran::Interrupted) {
        return Ok(ExitCode::from(exit::FAULT));
    }
    match args.ci {
        Ci::Github => {
            let text = include_str!("init/workflow.yml").replace("@ACTION@", &args.action);
            put(args, WORKFLOW, &text)?;
        }
        Ci::Shell => put(args, SCRIPT, include_str!("init/check.sh"))?,
        Ci::None => {}
    }
    if args.ci == Ci::Shell {
        ignore_reports()?;
    }
    next_steps(args, has_agent, &ran);
    Ok(ExitCode::from(if matches!(ran, Ran::Fault) { exit::FAULT } else { exit::OK }))
}

/// The agent's name and command; from here on, the working folder is DIR.
fn prepare(args: &InitArgs) -> anyhow::Result<(String, Option<String>)> {
    let dir =
        args.dir.canonicalize().with_context(|| format!("cannot use the folder {}", args.dir.display()))?;
    std::env::set_current_dir(&dir).with_context(|| format!("cannot use the folder {}", dir.display()))?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => plain_name(&dir.file_name().unwrap_or_default().to_string_lossy()),
    };
    let is_key = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    ensure!(
        !name.is_empty() && name.chars().all(is_key),
        "--name {name:?}: use letters, digits, - and _ only"
    );
    ensure!(
        !target::is_built_in(&name),
        "--name {name:?}: this is the name of a built-in agent; use another one"
    );
    if let Some(line) = &args.command {
        let words = shlex::split(line)
            .with_context(|| format!("--command {line:?} has a quote that does not end"))?;
        ensure!(!words.is_empty(), "--command is empty");
    }
    Ok((name, args.command.clone()))
}

/// A folder's name as the name of an agent.
fn plain_name(folder: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
    let name: String = folder.chars().map(plain).collect();
    match name.trim_matches('-') {
        "" => "agent".to_owned(),
        name if target::is_built_in(name) => format!("my-{name}"),
        name => name.to_owned(),
    }
}

fn config(name: &str, command: Option<&str>) -> String {
    let agent = match command {
        Some(command) => format!("[agents.{name}]\ncommand = {}\n", toml::Value::from(command)),
        None => {
            format!("# Say how to start your agent:\n# [agents.{name}]\n# command = \"python3 agent.py\"\n")
        }
    };
    format!(
        "# Settings of acp for this folder; `acp doctor config` checks them. Paths and commands are relative to it.\n\n\
         {agent}# env = {{ LOG_LEVEL = \"debug\" }}\n\n\
         [comply]\nexpected = \"{EXPECTED}\"\n# timeout-factor = 2.0    # for slow agents\n\
         # allow-incomplete = true # do not fail because a requirement could not be tested\n"
    )
}

/// How the first run went.
enum Ran {
    No,
    Yes(RunStanding, usize),
    Fault,
    Interrupted,
}

/// Writes the list of known failures, from a run of the suite if the agent can be started.
fn known_failures(args: &InitArgs, has_agent: bool) -> anyhow::Result<Ran> {
    let keeps = Path::new(EXPECTED).exists() && !args.force;
    if keeps || args.no_run || !has_agent {
        put(args, EXPECTED, EXPECTED_HEAD)?;
        return Ok(Ran::No);
    }
    println!("running the compliance suite once; this takes a minute or more …");
    let line = clap::Command::new("comply");
    // On a terminal a bar shows that the run goes on.
    let quiet = (!std::io::stderr().is_terminal()).then_some("--quiet");
    let words = std::iter::once("comply").chain(quiet);
    let matches = super::comply::ComplyArgs::augment_args(line).try_get_matches_from(words)?;
    let mut results = super::comply::results(&super::comply::ComplyArgs::from_arg_matches(&matches)?)?;
    if let Some(fault) = results.agents.iter().find_map(|agent| agent.fault.as_ref()) {
        eprintln!("acp init: the agent could not be tested: {fault}");
        put(args, EXPECTED, EXPECTED_HEAD)?;
        return Ok(Ran::Fault);
    }
    if results.interrupted {
        eprintln!("acp init: interrupted: {EXPECTED} was not written; run acp init again, or with --no-run");
        return Ok(Ran::Interrupted);
    }
    let list = format!("{EXPECTED_HEAD}{}", open_list(&ExpectedFailures::of_run(&results)));
    put(args, EXPECTED, &list)?;
    summarise(&results)?;
    let expected = ExpectedFailures::parse(&list)?;
    expected.apply(&mut results);
    results.conclude(ConformancePolicy::default());
    expected.settle(&mut results);
    let entries = list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).count();
    Ok(Ran::Yes(results.standing(), entries))
}

fn summarise(results: &Results) -> anyhow::Result<()> {
    let stdout = std::io::stdout();
    let options = ReportOptions {
        redact: true,
        colour: progress::colour(&stdout),
        verbose: false,
        quiet: true,
        width: progress::columns(&stdout),
        height: None,
    };
    out::print(acp_report::render(results, ReportFormat::Terminal, options)?)
}

/// A generated list with what the run found as comments, and the reasons left for a person to write.
fn open_list(list: &str) -> String {
    let mut text = String::new();
    for line in list.lines() {
        match line.split_once(char::is_whitespace) {
            Some((id, found)) if id != "#" => {
                text += &format!("\n# {}\n{id}  TODO: why is this accepted?\n", found.trim());
            }
            _ => text += &format!("{line}\n"),
        }
    }
    text
}

/// Keeps the reports of the script out of the repository.
fn ignore_reports() -> anyhow::Result<()> {
    let (name, line) = (".gitignore", format!("/{REPORTS}/"));
    if Path::new(name).is_symlink() {
        println!("unchanged {name}: it is a link; add {line} to it yourself");
        return Ok(());
    }
    let old = match std::fs::read_to_string(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read {name}"))?,
    };
    let is_ignored = |entry: &str| entry.trim().trim_matches('/') == REPORTS;
    if old.lines().any(is_ignored) {
        println!("unchanged {name}");
        return Ok(());
    }
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    let opened = OpenOptions::new().append(true).create(true).open(name);
    opened
        .and_then(|mut file| file.write_all(format!("{gap}{line}\n").as_bytes()))
        .with_context(|| format!("cannot write {name}"))?;
    println!("added {line} to {name}");
    Ok(())
}

/// Writes a file and says so. What exists stays as it is unless the person wants it overwritten; links are not followed.
fn put(args: &InitArgs, name: &str, text: &str) -> anyhow::Result<()> {
    let (path, cannot) = (Path::new(name), || format!("cannot write {name}"));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        if let Some(link) = folder.ancestors().find(|folder| folder.is_symlink()) {
            bail!("cannot write {name}: {} is a link; put a folder in its place", link.display());
        }
        std::fs::create_dir_all(folder).with_context(cannot)?;
    }
    if args.force && (path.is_file() || path.is_symlink()) {
        std::fs::remove_file(path).with_context(cannot)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).with_context(cannot)?;
            if name == SCRIPT {
                use std::os::unix::fs::PermissionsExt;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
                    .with_context(cannot)?;
            }
            println!("wrote {name}");
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match std::fs::read_to_string(path) {
            Ok(there) if there == text => println!("unchanged {name}"),
            _ => println!("kept {name}: it exists (--force overwrites it)"),
        },
        Err(error) => return Err(error).with_context(cannot),
    }
    Ok(())
}

fn next_steps(args: &InitArgs, has_agent: bool, ran: &Ran) {
    let mut steps = Vec::new();
    match ran {
        Ran::Fault => {
            steps.push(format!("fix `command` in {FILE}, delete {EXPECTED}, and run acp init again"));
        }
        Ran::No if !has_agent => steps.push(format!("say in {FILE} how to start your agent")),
        Ran::No | Ran::Interrupted | Ran::Yes(_, 0) => {}
        Ran::Yes(_, entries) => {
            let failures = if *entries == 1 { "failure" } else { "failures" };
            steps.push(format!(
                "replace each TODO in {EXPECTED} ({entries} known {failures}) by your reason; acp explain ID says what \
                 each asks for"
            ));
        }
    }
    if let Ran::Yes(RunStanding::Incomplete, _) = ran {
        steps.push(format!(
            "some requirements could not be tested, so acp comply exits with 3: set allow-incomplete in {FILE} to accept that"
        ));
    }
    steps.push("run acp comply: it must pass from now on".to_owned());
    if args.ci == Ci::Github && args.action.starts_with("OWNER/") {
        steps.push(format!("replace OWNER in {WORKFLOW} with the account that hosts acp-workbench"));
    }
    steps.push("commit the files".to_owned());
    println!("\nNext:");
    for (number, step) in steps.iter().enumerate() {
        println!("  {}. {step}", number + 1);
    }
}

fn action(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_name = |part: &str| !part.is_empty() && part.chars().all(is_plain);
    match text.split_once('@') {
        Some((place, version)) if place.contains('/') && is_name(place) && is_name(version) => {
            Ok(text.to_owned())
        }
        _ => Err("write it as OWNER/REPO@REF, such as acme/acp-workbench@v1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_become_names() {
        assert_eq!(plain_name("My Agent!"), "my-agent");
        assert_eq!(plain_name("…"), "agent");
        assert_eq!(plain_name("mock"), "my-mock");
    }

    #[test]
    fn a_command_is_quoted_for_toml() {
        let text = config("a", Some(r#"sh -c 'echo "x" \ y'"#));
        let table: toml::Table = text.parse().expect("TOML");
        assert_eq!(table["agents"]["a"]["command"].as_str(), Some(r#"sh -c 'echo "x" \ y'"#));
        assert!(config("a", None).parse::<toml::Table>().is_ok());
    }

    #[test]
    fn an_action_is_named_in_one_way() {
        assert!(action(ACTION).is_ok() && action("acme/x@main").is_ok());
        for wrong in ["acme/x", "x@v1", "acme/x@v1\nrun: evil", "acme/x@"] {
            assert!(action(wrong).is_err(), "{wrong}");
        }
    }
}
