//! `acp explain`: what a test does and claims, or what a requirement asks and who looks for it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_campaign::suite;
use acp_comply::{ClaimId, Program, TestSource, did_you_mean};
use acp_rules::{Requirement, RuleInfo, registry, rules};
use acp_text::CommandGuard;
use serde_json::{Value, json};

use crate::outputs::FormatArgs;
use crate::{exit, out};

/// Arguments of `acp explain`.
#[derive(clap::Args)]
#[command(after_help = crate::help::EXPLAIN)]
pub struct ExplainArgs {
    /// A test by its id or its file, or a requirement such as `CAN-01` or `RPC-15/code`
    #[arg(value_name = "TEST|ID", required = true)]
    names: Vec<String>,
    /// How to print.
    #[command(flatten)]
    format: FormatArgs,
}

/// A test and where it comes from.
struct Found {
    program: Program,
    /// What to name on the command line to run it: nothing for the default suite.
    flag: String,
}

/// Runs the command.
pub fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let tests = built_in()?;
    let (mut text, mut values) = (String::new(), Vec::new());
    for (index, name) in args.names.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let Some((words, value)) = explained(name, &tests)? else {
            let ids = registry().all().iter().map(|row| row.id.as_str());
            let hint = did_you_mean(name, ids.chain(tests.iter().map(|found| found.program.id.as_str())));
            eprintln!(
                "acp explain: there is no test and no requirement {name:?}{hint} (`acp comply --list-tests` and \
                 `acp requirements` list them)"
            );
            return Ok(ExitCode::from(exit::USAGE));
        };
        text.push_str(&words);
        values.push(value);
    }
    if args.format.is_json() {
        out::print(serde_json::to_string_pretty(&values)? + "\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    out::print(CommandGuard::default().pass(&acp_text::block(&text)))?;
    Ok(ExitCode::SUCCESS)
}

/// What there is to say, for people and for programs.
fn explained(name: &str, tests: &[Found]) -> anyhow::Result<Option<(String, Value)>> {
    if let Ok(claim) = name.to_uppercase().split('/').next().unwrap_or(name).parse::<ClaimId>() {
        return Ok(registry()
            .get(claim.row())
            .map(|row| (requirement(row, tests), requirement_json(row, tests))));
    }
    if let Some(found) = tests.iter().find(|found| found.program.id == name) {
        return Ok(Some((test(found), test_json(&found.program))));
    }
    if !Path::new(name).is_file() {
        return Ok(None);
    }
    let sources = suite::from_paths(&[PathBuf::from(name)])?;
    let programs = read(&sources);
    let found = programs.into_iter().next().map(|program| Found { program, flag: format!(" {name}") });
    Ok(found.map(|found| (test(&found), test_json(&found.program))))
}

/// Every test in the box, those of the default suite first.
fn built_in() -> anyhow::Result<Vec<Found>> {
    let mut names = suite::names();
    names.sort_by_key(|name| name != "v1");
    let mut found = Vec::new();
    for name in names {
        let flag = if name == "v1" { String::new() } else { format!(" --suite {name}") };
        let programs = read(&suite::embedded(&name)?);
        found.extend(programs.into_iter().map(|program| Found { program, flag: flag.clone() }));
    }
    Ok(found)
}

fn read(sources: &[TestSource]) -> Vec<Program> {
    acp_comply::read_all(sources, &super::comply::defaults()).0
}

fn test(found: &Found) -> String {
    let Found { program, flag } = found;
    let start = match program.client.is_some() {
        true => format!("acp comply-client{} --driver YOUR-DRIVER", flag.trim_end_matches(" --suite client")),
        false => format!("acp comply{flag} --command 'YOUR AGENT'"),
    };
    let mut text = format!("{}\n  {}\n", program.id, program.title);
    if let Some(description) = &program.description {
        let _ = writeln!(text, "  {description}");
    }
    text.push_str("\nWhat it does:\n");
    for line in program.outline() {
        let _ = writeln!(text, "  {line}");
    }
    if program.claims.is_empty() {
        let _ = writeln!(
            text,
            "\nIt claims no requirement: an unmet step counts by the test's severity, {}.",
            program.severity.as_str()
        );
    } else {
        text.push_str("\nWhat it claims:\n");
    }
    for claim in &program.claims {
        let Some(row) = registry().get(claim.row()) else { continue };
        let clause = claim.clause().and_then(|name| row.clauses.get(name));
        let words = clause.map_or(row.text.as_str(), |clause| clause.text.as_str());
        let _ = writeln!(
            text,
            "  {claim}  {words} ({}; source: {}; if broken: {})",
            row.level,
            row.page,
            claim.grade()
        );
    }
    for link in &program.docs {
        let _ = writeln!(text, "\n{link}");
    }
    let _ = writeln!(text, "\nReproduce it:\n  {start} --test {} --verbose", program.id);
    text
}

fn test_json(program: &Program) -> Value {
    json!({
        "test": program.id,
        "title": program.title,
        "description": program.description,
        "area": program.area,
        "severity": program.severity.as_str(),
        "requirements": program.requirements,
        "steps": program.outline(),
        "docs": program.docs,
    })
}

fn requirement_json(row: &Requirement, tests: &[Found]) -> Value {
    let mut value = serde_json::to_value(row).unwrap_or_default();
    value["grade"] = row.grade(None).as_str().into();
    value["rules"] = rules_for(row).into();
    value["tests"] = claiming(row, tests).map(|found| Value::from(found.program.id.as_str())).collect();
    value
}

/// The rules that look for a requirement.
fn rules_for(row: &Requirement) -> Vec<&'static str> {
    let looks = |info: &&RuleInfo| info.requirements(row.binds).contains(&row.id.as_str());
    rules().iter().filter(looks).map(|info| info.name).collect()
}

/// The tests that claim a requirement.
fn claiming<'a>(row: &'a Requirement, tests: &'a [Found]) -> impl Iterator<Item = &'a Found> {
    tests.iter().filter(move |found| found.program.claims.iter().any(|claim| claim.row() == row.id))
}

fn requirement(row: &Requirement, tests: &[Found]) -> String {
    let mut text = format!("{}  {}\n", row.id, row.text);
    let _ = writeln!(text, "  Applies to the {}. Level: {}. Source: {}", row.binds, row.level, row.page);
    let why = row.broken_why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let _ = writeln!(text, "  If broken: {}{why}", row.grade(None));
    for (name, clause) in &row.clauses {
        let _ = writeln!(text, "  {}/{name}  {} (if broken: {})", row.id, clause.text, clause.broken);
    }
    let _ = writeln!(text, "  How it is checked: {}", row.how);
    if let Some(who) = row.seen_by {
        let _ = writeln!(text, "  It {who}.");
    }
    let judged = rules_for(row);
    if !judged.is_empty() {
        let _ = writeln!(text, "  Rules that look for it in every conversation: {}", judged.join(", "));
    }
    let claiming: Vec<&Found> = claiming(row, tests).collect();
    if claiming.is_empty() {
        text.push_str("\nNo test in the box claims it.\n");
        return text;
    }
    text.push_str("\nTests that claim it:\n");
    for found in claiming {
        let _ = writeln!(text, "  {}  {}", found.program.id, found.program.title);
    }
    let start = match row.binds {
        acp_rules::Side::Client => "acp comply-client --driver YOUR-DRIVER",
        acp_rules::Side::Agent => "acp comply --command 'YOUR AGENT'",
    };
    let _ = writeln!(text, "\nReproduce it:\n  {start} --requirement {} --verbose", row.id);
    text
}
