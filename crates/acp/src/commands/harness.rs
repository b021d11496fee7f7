//! `acp harness`: scenarios against a running agent (also installed as `acp-harness`).

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_campaign::scenario::{self, Scenario, Summary};
use acp_campaign::{Campaign, Conditions, Target};
use acp_comply::{Program, RESULTS_VERSION, ReportingTool, Results, Suite, Verdict};
use acp_dialect::Dialect;
use acp_report::{ReportFormat, ReportOptions};
use acp_script::faults::Time;
use anyhow::Context;
use tokio::sync::watch;

use crate::settings::FileSettings;
use crate::target::ConnectToken;
use crate::{exit, out, progress};

/// The waits in the scenarios' files are written for this `--timeout`.
const WRITTEN_FOR: Duration = Duration::from_secs(30);

/// Arguments of `acp harness`.
#[derive(clap::Args)]
#[command(after_help = crate::help::HARNESS)]
pub struct HarnessArgs {
    /// The agent's address as HOST:PORT; ACP_TARGET does the same
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["connect", "command"], help_heading = "Which agent")]
    target: Option<String>,
    /// Connect to a running agent: tcp://HOST:PORT or ws://HOST:PORT/acp
    #[arg(long, value_name = "ADDRESS", conflicts_with = "command", help_heading = "Which agent")]
    connect: Option<String>,
    /// The token that a listening agent or proxy demands
    #[command(flatten)]
    token: ConnectToken,
    /// Start this command line as the agent (needed for scenarios that restart it)
    #[arg(long, value_name = "COMMAND", help_heading = "Which agent")]
    command: Option<String>,
    /// Start an agent by its name: `mock`, one of acp.toml, or one of `acp profiles` that is installed
    #[arg(long, value_name = "NAME", conflicts_with_all = ["target", "connect", "command"], help_heading = "Which agent")]
    agent: Option<String>,
    /// Start the agent of --agent on a port and speak to it over TCP
    #[arg(long, requires = "agent", conflicts_with_all = ["target", "connect", "command"], help_heading = "Which agent")]
    tcp: bool,
    /// Run without network access (loopback only; Linux); the results list connection attempts
    #[arg(long, help_heading = "Which agent")]
    isolate: bool,
    /// What to call the agent in reports, and its column in `acp matrix`
    #[arg(long, value_name = "NAME", help_heading = "Which agent")]
    name: Option<String>,
    #[arg(long, value_name = "DIALECT", help_heading = "Which agent")]
    #[arg(help = format!("The agent's protocol dialect: {} (default: v1)", Dialect::choices()))]
    dialect: Option<Dialect>,
    /// Only these scenarios, separated by commas; --list names them
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// List the scenarios and stop
    #[arg(long)]
    list: bool,
    /// Give up after this long without an answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    timeout: Duration,
    /// Show frames on standard error as they pass
    #[arg(short, long)]
    verbose: bool,
    /// How to report
    #[arg(long, default_value = "text", value_parser = ["text", "json", "junit"])]
    format: String,
    /// Write the report to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &HarnessArgs) -> anyhow::Result<ExitCode> {
    let prepared = match prepare(args) {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("acp harness: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let Some((scenarios, programs, target)) = prepared else {
        list()?;
        return Ok(ExitCode::SUCCESS);
    };
    if args.isolate {
        acp_campaign::isolate::enter()?;
    }
    let results = run_scenarios(args, programs, &target)?;
    let Some(agent) = results.agents.first() else { anyhow::bail!("nothing was run") };
    let summaries = scenario::summarise(&scenarios, agent);
    let report = match args.format.as_str() {
        "json" => acp_report::render(&results, ReportFormat::Json, ReportOptions::default())?,
        "junit" => acp_report::render(&results, ReportFormat::Junit, ReportOptions::default())?,
        _ => text(&summaries, &results, args.out.is_none() && progress::colour(&std::io::stdout())),
    };
    if let Err(error) = out::write(args.out.as_deref(), report) {
        // What was found out is not lost with the file.
        eprint!("{}", text(&summaries, &results, progress::colour(&std::io::stderr())));
        return Err(error);
    }
    let has = |verdict: Verdict| summaries.iter().any(|summary| summary.verdict == verdict);
    Ok(ExitCode::from(if has(Verdict::Fail) {
        exit::FAILED
    } else if has(Verdict::Error) || agent.fault.is_some() || results.interrupted {
        exit::FAULT
    } else {
        exit::OK
    }))
}

type Prepared = (Vec<Scenario>, Vec<Arc<Program>>, Target);

/// Everything that can be wrong with the arguments; `None` when only the list is wanted.
fn prepare(args: &HarnessArgs) -> anyhow::Result<Option<Prepared>> {
    if let Some(path) = &args.out {
        out::check(path)?;
    }
    let names: Vec<String> = args.scenarios.iter().map(|name| name.trim().to_owned()).collect();
    let scenarios = scenario::choose(&names)?;
    if args.list {
        return Ok(None);
    }
    let (named, dialect) = agent(args)?;
    let own_words = (!dialect.is_canonical()).then(|| dialect.as_str());
    let sources = match scenario::sources(&scenarios, own_words)? {
        Some(sources) => sources,
        // No scenario is written in this dialect: those in v1 are translated on the way.
        None => scenario::sources(&scenarios, None)?.unwrap_or_default(),
    };
    let (programs, diagnostics) = acp_comply::read_all(&sources, &super::comply::defaults());
    if diagnostics.iter().any(acp_comply::Diagnostic::is_error) {
        let colour = progress::colour(&std::io::stderr());
        anyhow::bail!("{}", acp_comply::render_all(&diagnostics, &sources, colour));
    }
    let mut target = target(args, named.as_deref(), dialect)?;
    if let Some(name) = &args.name {
        target.name.clone_from(name);
    }
    Ok(Some((scenarios, programs.into_iter().map(Arc::new).collect(), target)))
}

/// The agent to start by its name, and the form that it speaks.
fn agent(args: &HarnessArgs) -> anyhow::Result<(Option<String>, Dialect)> {
    let addressed =
        args.target.is_some() || args.connect.is_some() || args.command.is_some() || from_env().is_some();
    let name = match &args.agent {
        None if addressed => None,
        None => FileSettings::load()?.default_agent(),
        named => named.clone(),
    };
    let dialect = match &name {
        Some(name) => crate::builtin::dialect_of(name, args.dialect)?,
        None => args.dialect.unwrap_or(Dialect::V1),
    };
    Ok((name, dialect))
}

fn from_env() -> Option<String> {
    std::env::var("ACP_TARGET").ok().filter(|value| !value.is_empty())
}

fn target(args: &HarnessArgs, named: Option<&str>, dialect: Dialect) -> anyhow::Result<Target> {
    if let Some(name) = named {
        let target = crate::builtin::target(name, None, dialect)?;
        return if args.tcp { crate::builtin::over_tcp(target) } else { Ok(target) };
    }
    if let Some(line) = &args.command {
        return crate::builtin::command(line, dialect);
    }
    let address = args.connect.clone().or_else(|| args.target.clone()).or_else(from_env).context(
        "which agent? give --agent NAME, --target HOST:PORT, --connect ADDRESS or --command COMMAND, or set ACP_TARGET=HOST:PORT",
    )?;
    crate::builtin::connect(&address, &args.token, dialect)
}

fn run_scenarios(
    args: &HarnessArgs,
    programs: Vec<Arc<Program>>,
    target: &Target,
) -> anyhow::Result<Results> {
    let own = std::env::current_exe().context("cannot find the program's own file")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (stop, stopped) = watch::channel(false);
    let suite = Suite { name: "scenarios".to_owned(), files: programs.len(), filtered: 0 };
    let campaign = Campaign {
        programs,
        calibration: Vec::new(),
        conditions: Conditions {
            supervisor: Some(own.clone()),
            wire: acp_link::LinkSettings { line_limit: 16 << 20, ..acp_link::LinkSettings::default() },
            timeout_factor: args.timeout.as_secs_f64() / WRITTEN_FOR.as_secs_f64(),
            patience: None,
            grace: Duration::from_millis(500),
            auth_method: None,
            mcp_stub: cfg!(feature = "mcp").then_some(own),
            keep: None,
            wordings: acp_campaign::suite::wishes().clone(),
            is_second_run: false,
        },
        // One after the other: a scenario measures the agent, not its neighbours.
        jobs: 1,
        light_jobs: 1,
        repeat: 1,
        fail_fast: false,
        watch: args.verbose.then(progress::frames),
        stop: stopped,
    };
    let started = jiff::Timestamp::now().to_string();
    let began = Instant::now();
    let shown = progress::Shown::quiet();
    let listener = shown.listener();
    let mut agent = runtime.block_on(async {
        progress::interrupt(stop);
        campaign.run(target, &listener).await
    });
    shown.finish();
    let interrupted = *campaign.stop.borrow();
    runtime.shutdown_timeout(Duration::from_secs(2));
    agent.tests.iter_mut().for_each(acp_comply::TestOutcome::require_exercised);
    Ok(Results {
        version: RESULTS_VERSION,
        tool: ReportingTool { name: "acp".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        started,
        duration_ms: began.elapsed().as_secs_f64() * 1000.0,
        suite,
        agents: vec![agent],
        interrupted,
        warnings: Vec::new(),
        stale: Vec::new(),
    })
}

fn text(summaries: &[Summary], results: &Results, colour: bool) -> String {
    let mut out = String::new();
    if let Some(agent) = results.agents.first() {
        let dialect = agent.dialect.as_deref().unwrap_or("v1");
        let _ = writeln!(out, "{} ({})", acp_text::line(&agent.target), acp_text::line(dialect));
        if let Some(fault) = &agent.fault {
            let _ = writeln!(out, "could not be run: {}", acp_text::line(fault));
        }
    }
    let width = summaries.iter().map(|summary| summary.name.len()).max().unwrap_or(0).max("scenario".len());
    let _ = writeln!(out, "{:<width$}  verdict  reason", "scenario");
    for summary in summaries {
        let word = format!("{:<7}", summary.verdict.as_str());
        let word = if colour { paint(&word, summary.verdict) } else { word };
        let line = format!("{:<width$}  {word}  {}", summary.name, acp_text::line(&summary.reason));
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let count = |verdict| summaries.iter().filter(|summary| summary.verdict == verdict).count();
    let parts: Vec<String> = Verdict::ALL
        .into_iter()
        .filter(|verdict| count(*verdict) > 0)
        .map(|verdict| format!("{} {verdict}", count(verdict)))
        .collect();
    if results.interrupted {
        let run = results.agents.iter().map(|agent| agent.tests.len()).sum::<usize>();
        let _ = writeln!(out, "interrupted: {run} of {} tests were run", results.suite.files);
    }
    let _ = writeln!(out, "{} in {:.1} s", parts.join(", "), results.duration_ms / 1000.0);
    out
}

fn paint(word: &str, verdict: Verdict) -> String {
    let colour = match verdict {
        Verdict::Pass => anstyle::AnsiColor::Green,
        Verdict::Fail | Verdict::Error => anstyle::AnsiColor::Red,
        Verdict::Warn | Verdict::Partial => anstyle::AnsiColor::Yellow,
        Verdict::Na => anstyle::AnsiColor::BrightBlack,
    };
    let style = anstyle::Style::new().fg_color(Some(colour.into()));
    format!("{style}{word}{style:#}")
}

fn list() -> anyhow::Result<()> {
    let scenarios = scenario::all()?;
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let mut lines = String::new();
    for scenario in &scenarios {
        let needs = if scenario.mock.is_empty() {
            String::new()
        } else {
            format!(" (mock: {})", scenario.mock.join(" "))
        };
        let _ = writeln!(lines, "{:<width$}  {}{needs}", scenario.name, scenario.shows);
    }
    out::print(&lines)
}

fn duration(text: &str) -> Result<Duration, String> {
    match Time::parse(text).map_err(|error| error.to_string())?.0 {
        time if time.is_zero() => Err("a timeout of nothing leaves no time to answer".to_owned()),
        time => Ok(time),
    }
}
