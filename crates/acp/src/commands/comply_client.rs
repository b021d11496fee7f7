//! `acp comply-client`: the compliance runner for clients.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_campaign::install::{Installed, cache_folder};
use acp_campaign::{Selection, suite};
use acp_comply::{
    ConformancePolicy, ExpectedFailures, Program, RESULTS_VERSION, ReportingTool, Results, RunStanding,
    TestSource, UnmetSeverity, did_you_mean,
};
use acp_exam::{ClientDriver, ClientUnderTest, DriverCatalogue, Exam, ExamConditions, driver};
use acp_report::ReportFormat;
use acp_rules::registry;
use anyhow::Context;
use tokio::sync::watch;

use super::comply;
use super::reports::Reports;
use crate::outputs::Outputs;
use crate::{exit, out, progress};

/// The built-in suite of tests of clients.
const SUITE: &str = "client";
/// Stands for the list of known failures that comes with the driver.
const OF_DRIVER: &str = "driver";
/// How long a client may take for anything when it can be told (`${limit}`): no test takes so long.
const PATIENCE: Duration = Duration::from_secs(300);

/// Arguments of `acp comply-client`.
#[derive(Clone, clap::Args)]
#[command(after_help = crate::help::COMPLY_CLIENT)]
pub struct ComplyClientArgs {
    /// Test files or folders to run instead of the built-in suite
    #[arg(value_name = "FILE|DIR")]
    tests: Vec<PathBuf>,

    /// How to start and use the client: a built-in driver by name, or a driver file (several allowed)
    #[arg(long, value_name = "NAME|FILE", help_heading = "Which client")]
    driver: Vec<String>,
    /// List the built-in drivers and stop
    #[arg(long, help_heading = "Which client")]
    list_drivers: bool,

    /// Only tests whose id matches this glob (several allowed)
    #[arg(long, value_name = "GLOB", help_heading = "Selection")]
    test: Vec<String>,
    /// Only tests of this compliance area (several allowed)
    #[arg(long, help_heading = "Selection")]
    area: Vec<String>,
    /// Only tests that claim this requirement (several allowed)
    #[arg(long, value_name = "ID", help_heading = "Selection")]
    requirement: Vec<String>,
    /// Only tests of this severity (several allowed)
    #[arg(long, help_heading = "Selection", value_parser = ["required", "optional", "advice"])]
    severity: Vec<String>,
    /// Leave out requirements that come from an RFD, not from the protocol's own pages
    #[arg(long, help_heading = "Selection")]
    no_rfd: bool,
    /// List the tests and stop; with --format json, for programs
    #[arg(long, help_heading = "Selection")]
    list_tests: bool,

    /// How many tests run at once
    #[arg(short, long, value_name = "N", env = "ACP_JOBS", help_heading = "Running")]
    jobs: Option<usize>,
    /// Run each test N times; a test with different verdicts is flaky
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Running")]
    repeat: usize,
    /// Stop after the first required test that fails
    #[arg(long, help_heading = "Running")]
    fail_fast: bool,
    /// Multiply every timeout, for slow clients
    #[arg(long, value_name = "X", env = "ACP_TIMEOUT_FACTOR", default_value_t = 1.0, help_heading = "Running", value_parser = comply::factor)]
    timeout_factor: f64,
    /// Show frames on standard error as they pass (with -j 1, one test after the other), and in reports every test that did
    /// not pass, with expected patterns
    #[arg(short, long, help_heading = "Running")]
    verbose: bool,
    /// Show no progress and print only the verdict
    #[arg(short, long, help_heading = "Running", conflicts_with = "verbose")]
    quiet: bool,
    /// Keep the folders and transcripts of tests in this folder
    #[arg(long, value_name = "DIR", help_heading = "Running")]
    keep: Option<PathBuf>,

    /// Do not exit with 3 because a requirement was not reached or a test was inconclusive
    #[arg(long, help_heading = "Verdicts")]
    allow_incomplete: bool,
    /// A file of known failures, one per line with its reason; a stale entry fails the run. `driver` takes the built-in list
    /// of the driver
    #[arg(long, value_name = "FILE|driver", help_heading = "Verdicts")]
    expected: Option<PathBuf>,
    /// Write what this run found broken as a list for --expected
    #[arg(long, value_name = "FILE", help_heading = "Verdicts")]
    write_expected: Option<PathBuf>,

    #[command(flatten)]
    outputs: Outputs,
    /// Show secrets and home folders in reports
    #[arg(long, help_heading = "Reports")]
    no_redact: bool,
}

/// Runs the command.
pub fn run(args: &ComplyClientArgs) -> anyhow::Result<ExitCode> {
    let wrong = |error: &dyn std::fmt::Display| {
        eprintln!("acp comply-client: {error:#}");
        Ok(ExitCode::from(exit::USAGE))
    };
    if args.list_drivers {
        return list_drivers();
    }
    let (sources, name) = match sources(args) {
        Ok(found) => found,
        Err(error) => return wrong(&error),
    };
    let Some((all, warnings)) = comply::read(&sources) else { return Ok(ExitCode::from(exit::USAGE)) };
    let chosen = match choose(args, &all) {
        Ok(chosen) => chosen,
        Err(error) => return wrong(&error),
    };
    if args.list_tests {
        return comply::list(&chosen, args.outputs.has(ReportFormat::Json));
    }
    let folder = tempfile::tempdir().context("cannot make a folder for the drivers' files")?;
    let writable = args.write_expected.as_deref().map_or(Ok(()), out::check);
    let prepared = writable.and_then(|()| args.outputs.check()).and_then(|()| clients(args, folder.path()));
    let clients = match prepared {
        Ok(clients) => clients,
        Err(error) => return wrong(&error),
    };
    let expected = match expected(args, &clients, &all) {
        Ok(expected) => expected,
        Err(error) => return wrong(&error),
    };
    let suite = acp_comply::Suite { name, files: all.len(), filtered: all.len() - chosen.len() };
    let mut results = examine(args, chosen, all, &clients, suite)?;
    results.warnings = warnings;
    if let Some(expected) = &expected {
        expected.apply(&mut results);
    }
    results.conclude(ConformancePolicy { strict: false, allow_incomplete: args.allow_incomplete });
    if let Some(expected) = &expected {
        expected.settle(&mut results);
    }
    if let Some(path) = &args.write_expected {
        out::write(Some(path), ExpectedFailures::of_run(&results))?;
    }
    reports(args).write(&results)?;
    Ok(ExitCode::from(match results.standing() {
        RunStanding::Conformant => exit::OK,
        RunStanding::NotConformant => exit::FAILED,
        RunStanding::Incomplete => exit::FAULT,
        RunStanding::Stale => exit::STALE,
    }))
}

fn reports(args: &ComplyClientArgs) -> Reports<'_> {
    Reports {
        outputs: &args.outputs,
        always_markdown: false,
        quiet: args.quiet,
        verbose: args.verbose,
        redact: !args.no_redact,
        page: "comply-client.html",
    }
}

fn list_drivers() -> anyhow::Result<ExitCode> {
    let catalogue = DriverCatalogue::built_in();
    let width = catalogue.drivers().iter().map(|driver| driver.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for driver in catalogue.drivers() {
        let version = driver.version().unwrap_or("-");
        text.push_str(&format!("{:<width$}  {version:<9}  {}\n", driver.name, driver.title));
    }
    for left_out in catalogue.unusable() {
        eprintln!("left out: {left_out}");
    }
    out::print(acp_text::block(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// The tests: the user's own, or the built-in suite. Tests of agents among them are an error.
fn sources(args: &ComplyClientArgs) -> Result<(Vec<TestSource>, String), acp_campaign::SuiteError> {
    if args.tests.is_empty() {
        return Ok((suite::embedded(SUITE)?, SUITE.to_owned()));
    }
    let name = args.tests.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    Ok((suite::from_paths(&args.tests)?, name))
}

fn choose(args: &ComplyClientArgs, all: &[Arc<Program>]) -> anyhow::Result<Vec<Arc<Program>>> {
    if let Some(other) = all.iter().find(|program| program.client.is_none()) {
        anyhow::bail!(
            "{} is a test for agents (a test for clients has \"side\": \"client\"); run it with acp comply",
            other.file
        );
    }
    for id in &args.requirement {
        let ids = all.iter().flat_map(|program| &program.requirements).map(String::as_str);
        let is_claimed = ids.clone().any(|known| known.eq_ignore_ascii_case(id));
        anyhow::ensure!(is_claimed, "no test claims --requirement {id}{}", did_you_mean(id, ids));
    }
    for glob in &args.test {
        let found = Selection::default().ids(std::slice::from_ref(glob))?.choose(all);
        let ids = all.iter().map(|program| program.id.as_str());
        anyhow::ensure!(!found.is_empty(), "--test {glob:?} matches none{}", did_you_mean(glob, ids));
    }
    let severities: Vec<UnmetSeverity> = args
        .severity
        .iter()
        .map(|word| match word.as_str() {
            "required" => UnmetSeverity::Required,
            "optional" => UnmetSeverity::Optional,
            _ => UnmetSeverity::Advice,
        })
        .collect();
    let selection = Selection::default()
        .areas(&args.area)
        .requirements(&args.requirement)
        .severities(&severities)
        .ids(&args.test)?;
    let mut chosen = selection.choose(all);
    if args.no_rfd {
        chosen = chosen.into_iter().filter_map(without_rfd).collect();
    }
    anyhow::ensure!(
        !chosen.is_empty(),
        "no test is left by the selection; `acp comply-client --list-tests` shows what there is"
    );
    Ok(chosen)
}

/// The test without its claims on requirements that come from an RFD; nothing if it has no other.
fn without_rfd(program: Arc<Program>) -> Option<Arc<Program>> {
    let is_rfd = |row: &str| registry().get(row).is_some_and(|row| row.page.starts_with("rfd"));
    if !program.claims.iter().any(|claim| is_rfd(claim.row())) {
        return Some(program);
    }
    let mut program = Arc::unwrap_or_clone(program);
    program.claims.retain(|claim| !is_rfd(claim.row()));
    program.requirements.retain(|id| !is_rfd(id.split('/').next().unwrap_or(id)));
    (!program.claims.is_empty()).then(|| Arc::new(program))
}

/// The clients to test, each with its driver's files in a folder of its own below `folder`.
fn clients(args: &ComplyClientArgs, folder: &Path) -> anyhow::Result<Vec<ClientUnderTest>> {
    anyhow::ensure!(
        !args.driver.is_empty(),
        "say which client to test: --driver NAME or --driver FILE; --list-drivers names the built-in ones"
    );
    let catalogue = DriverCatalogue::built_in();
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let client = |name: &String| -> anyhow::Result<ClientUnderTest> {
        let path = Path::new(name);
        let is_file = path.extension().is_some_and(|it| it == "json") || name.contains('/');
        let (driver, files) = if is_file {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
            (ClientDriver::parse(name, &text)?, path.canonicalize()?.with_extension(""))
        } else {
            let driver = catalogue.find(name)?.clone();
            let files = folder.join(&driver.name);
            driver::unpack(&driver.name, &files)
                .with_context(|| format!("cannot write the files of driver {name}"))?;
            (driver, files)
        };
        let (bin, packages) = programs(&driver)?;
        Ok(ClientUnderTest {
            driver: Arc::new(driver),
            folder: files,
            bin,
            packages,
            program: program.clone(),
            patience: PATIENCE.mul_f64(args.timeout_factor),
        })
    };
    args.driver.iter().map(client).collect()
}

/// Where the client's programs and packages are.
fn programs(driver: &ClientDriver) -> anyhow::Result<(PathBuf, PathBuf)> {
    if !driver.has_packages() {
        return Ok((PathBuf::from("/usr/bin"), PathBuf::from("/usr/lib")));
    }
    let installed = Installed::find(&driver.as_profile(), &cache_folder()?).with_context(|| {
        format!("{} is not installed; install it with acp profiles install {0}", driver.name)
    })?;
    Ok((installed.bin, installed.folder))
}

fn expected(
    args: &ComplyClientArgs,
    clients: &[ClientUnderTest],
    programs: &[Arc<Program>],
) -> anyhow::Result<Option<ExpectedFailures>> {
    let Some(path) = &args.expected else { return Ok(None) };
    if path.as_os_str() != OF_DRIVER || path.exists() {
        return super::expected::read(Some(path), &[], programs);
    }
    let mut text = String::new();
    for client in clients {
        let list = driver::expected(client.name());
        text.push_str(list.with_context(|| {
            format!("no list of known failures comes with the driver {:?}", client.name())
        })?);
    }
    Ok(Some(ExpectedFailures::parse(&text).context("the lists of the drivers")?))
}

fn examine(
    args: &ComplyClientArgs,
    programs: Vec<Arc<Program>>,
    all: Vec<Arc<Program>>,
    clients: &[ClientUnderTest],
    suite: acp_comply::Suite,
) -> anyhow::Result<Results> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (stop, stopped) = watch::channel(false);
    let exam = Exam {
        programs,
        all,
        conditions: ExamConditions { timeout_factor: args.timeout_factor, keep: args.keep.clone() },
        jobs: args.jobs.unwrap_or_else(default_jobs),
        repeat: args.repeat,
        fail_fast: args.fail_fast,
        watch: args.verbose.then(progress::frames),
        stop: stopped,
    };
    let started = jiff::Timestamp::now().to_string();
    let began = Instant::now();
    let shown = if args.quiet { progress::Shown::none() } else { progress::Shown::new(args.verbose) };
    let listener = shown.listener();
    let (agents, interrupted) = runtime.block_on(async {
        progress::interrupt(stop);
        let mut agents = Vec::new();
        for client in clients {
            agents.push(exam.run(client, &listener).await);
        }
        (agents, *exam.stop.borrow())
    });
    shown.finish();
    runtime.shutdown_timeout(Duration::from_secs(2));
    Ok(Results {
        version: RESULTS_VERSION,
        tool: ReportingTool { name: "acp".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        started,
        duration_ms: began.elapsed().as_secs_f64() * 1000.0,
        suite,
        agents,
        interrupted,
        warnings: Vec::new(),
        stale: Vec::new(),
    })
}

/// Clients are heavier than agents that wait: fewer at once.
fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(4, |cores| cores.get() * 2)
}
