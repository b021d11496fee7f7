//! `acp requirements`

use std::process::ExitCode;

use acp_rules::{Requirement, Side, registry, rules};
use anyhow::Context as _;

use crate::exit;
use crate::outputs::FormatArgs;

/// Arguments of `acp requirements`.
#[derive(clap::Args)]
#[command(after_help = crate::help::REQUIREMENTS)]
pub struct RequirementsArgs {
    /// Only these requirements, for instance `PT-07`
    ids: Vec<String>,
    /// Only this area, for instance `TC` or `C-SES`
    #[arg(long, value_name = "AREA")]
    area: Vec<String>,
    /// Only what binds this side: `agent` or `client`
    #[arg(long, value_name = "SIDE", value_parser = ["agent", "client"])]
    side: Option<String>,
    /// Only this level: `MUST`, `MUST NOT`, `SHOULD`, `SHOULD NOT`, `MAY`, `doc`, `drv`
    #[arg(long, value_name = "LEVEL")]
    level: Vec<String>,
    /// Only requirements of this grade (what breaking them means): `fail`, `warn` or `note`
    #[arg(long, value_name = "GRADE", value_parser = ["fail", "warn", "note"])]
    grade: Option<String>,
    /// Only requirements that can be checked from recorded frames alone
    #[arg(long)]
    passive: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// Prints the requirements of the protocol.
pub fn run(args: &RequirementsArgs) -> anyhow::Result<ExitCode> {
    if let Some(problem) = unknown(args) {
        eprintln!("acp requirements: {problem}");
        return Ok(ExitCode::from(exit::USAGE));
    }
    let rows: Vec<&Requirement> = registry().all().iter().filter(|row| wanted(args, row)).collect();
    let mut out = std::io::stdout().lock();
    let written = if args.format.is_json() { json(&mut out, &rows) } else { text(&mut out, args, &rows) };
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        other => other.context("cannot write to standard output").map(|()| ExitCode::SUCCESS),
    }
}

/// A name in the arguments that does not exist, with what does.
fn unknown(args: &RequirementsArgs) -> Option<String> {
    let areas = registry().areas();
    if let Some(area) = args.area.iter().find(|area| !areas.contains(&area.to_uppercase().as_str())) {
        return Some(format!("there is no area {area:?}; there are {}", areas.join(", ")));
    }
    if let Some(id) = args.ids.iter().find(|id| registry().get(&id.to_uppercase()).is_none()) {
        return Some(format!("there is no requirement {id:?}; `acp requirements` lists them"));
    }
    let levels = ["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "doc", "drv"];
    let level =
        args.level.iter().find(|level| !levels.iter().any(|known| known.eq_ignore_ascii_case(level)))?;
    Some(format!("there is no level {level:?}; there are {}", levels.join(", ")))
}

fn wanted(args: &RequirementsArgs, row: &Requirement) -> bool {
    let in_list = |list: &[String], value: &str| {
        list.is_empty() || list.iter().any(|item| item.eq_ignore_ascii_case(value))
    };
    in_list(&args.ids, &row.id)
        && in_list(&args.area, &row.area)
        && in_list(&args.level, row.level.as_str())
        && args.side.as_deref().is_none_or(|side| side == row.binds.as_str())
        && args.grade.as_deref().is_none_or(|grade| grade == row.grade(None).as_str())
        && (!args.passive || acp_rules::is_passive(&row.id))
}

/// The rules that name a requirement.
fn judged_by(row: &Requirement) -> Vec<&'static str> {
    let ids = |side: Side, info: &'static acp_rules::RuleInfo| {
        info.requirements(side).iter().any(|claim| names(claim, &row.id))
    };
    rules().iter().filter(|info| ids(row.binds, info)).map(|info| info.name).collect()
}

/// Whether a claim is that requirement or a clause of it.
fn names(claim: &str, id: &str) -> bool {
    claim.split('/').next() == Some(id)
}

fn json(out: &mut impl std::io::Write, rows: &[&Requirement]) -> std::io::Result<()> {
    let list: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            let mut value = serde_json::to_value(row).unwrap_or_default();
            value["grade"] = row.grade(None).as_str().into();
            value["passive"] = acp_rules::is_passive(&row.id).into();
            value["rules"] = judged_by(row).into();
            value
        })
        .collect();
    serde_json::to_writer_pretty(&mut *out, &list)?;
    writeln!(out)
}

fn text(
    out: &mut impl std::io::Write,
    args: &RequirementsArgs,
    rows: &[&Requirement],
) -> std::io::Result<()> {
    if !args.ids.is_empty() {
        return rows.iter().try_for_each(|row| one(out, row));
    }
    let mut area = "";
    for row in rows {
        if row.area != area {
            let gap = if area.is_empty() { "" } else { "\n" };
            writeln!(out, "{gap}{} (binds the {})", row.area, row.binds)?;
            area = &row.area;
        }
        let mark = if acp_rules::is_passive(&row.id) { '*' } else { ' ' };
        writeln!(out, "  {mark} {:10} {:10} {:5} {}", row.id, row.level, row.grade(None), row.text)?;
    }
    let passive = rows.iter().filter(|row| acp_rules::is_passive(&row.id)).count();
    writeln!(
        out,
        "\n{} requirements; fail, warn, note = what breaking it means; * = the judge sees it in frames alone ({passive})",
        rows.len()
    )
}

fn one(out: &mut impl std::io::Write, row: &Requirement) -> std::io::Result<()> {
    writeln!(out, "{}  {}  binds the {}", row.id, row.level, row.binds)?;
    writeln!(out, "  {}", row.text)?;
    writeln!(out, "  page:   {}", row.page)?;
    writeln!(out, "  class:  {}", row.class)?;
    writeln!(out, "  check:  {}", row.how)?;
    if let Some(who) = row.seen_by {
        writeln!(out, "  seen:   {who}")?;
    }
    let why = row.broken_why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
    writeln!(out, "  broken: {}{why}", row.grade(None))?;
    for (name, clause) in &row.clauses {
        writeln!(out, "          {} for {}/{name}: {}", clause.broken, row.id, clause.text)?;
    }
    if let Some(when) = row.condition() {
        writeln!(out, "  when:   {when}")?;
    }
    let rules = judged_by(row);
    if !rules.is_empty() {
        writeln!(out, "  rules:  {}", rules.join(", "))?;
    }
    Ok(())
}
