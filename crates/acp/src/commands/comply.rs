//! `acp comply`: the compliance runner (also installed as `acpcomply`).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_campaign::proof::Extent;
use acp_campaign::{Campaign, Conditions, Selection, Target, suite};
use acp_comply::{
    ConformancePolicy, Defaults, ExpectedFailures, Program, RESULTS_VERSION, ReportingTool, Results,
    RunStanding, TestSource, UnmetSeverity, did_you_mean,
};
use acp_dialect::Dialect;
use acp_report::ReportFormat;
use acp_text::CommandGuard;
use anyhow::Context;
use tokio::sync::watch;

use super::reports::Reports;
use crate::outputs::Outputs;
use crate::settings::FileSettings;
use crate::target::ConnectToken;
use crate::{builtin, exit, out, progress};

/// Arguments of `acp comply`.
#[derive(Clone, clap::Args)]
#[command(after_help = crate::help::COMPLY)]
pub struct ComplyArgs {
    /// Test files or folders to run instead of the built-in suite
    #[arg(value_name = "FILE|DIR")]
    tests: Vec<PathBuf>,
    /// A folder of test files, or a built-in suite such as `seed` (`acp suites list` names them)
    #[arg(long, value_name = "DIR|NAME")]
    suite: Vec<PathBuf>,

    /// An agent by name: `mock`, one of acp.toml, of --settings, or of `acp profiles` that is installed (several allowed)
    #[arg(long, value_name = "NAME", help_heading = "Which agent")]
    agent: Vec<String>,
    /// An editor's settings file with agent_servers; without --agent, its only entry
    #[arg(long, value_name = "FILE", help_heading = "Which agent")]
    settings: Option<PathBuf>,
    /// Start this command line as the agent (several allowed)
    #[arg(long, value_name = "COMMAND", help_heading = "Which agent")]
    command: Vec<String>,
    /// Connect to a running agent: tcp://HOST:PORT or ws://HOST:PORT/acp (several allowed)
    #[arg(long, value_name = "ADDRESS", help_heading = "Which agent")]
    connect: Vec<String>,
    /// The token that a listening agent or proxy demands
    #[command(flatten)]
    token: ConnectToken,
    #[arg(long, value_name = "DIALECT", help_heading = "Which agent", help = dialect_help())]
    dialect: Option<Dialect>,
    /// Start the agents of --agent on a port and speak to them over TCP
    #[arg(long, help_heading = "Which agent", requires = "agent", conflicts_with = "command")]
    tcp: bool,
    /// What to call the agent in reports; with several agents, one for each in the order --agent, --command, --connect
    #[arg(long, value_name = "NAME", help_heading = "Which agent")]
    name: Vec<String>,
    /// Authenticate with this method when the agent asks for it
    #[arg(long, value_name = "METHOD", help_heading = "Which agent")]
    auth: Option<String>,

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
    /// Run one part of the tests, for instance 2/4
    #[arg(long, value_name = "I/N", help_heading = "Selection")]
    shard: Option<String>,
    /// List the tests and stop; with --format json, for programs
    #[arg(long, help_heading = "Selection")]
    list_tests: bool,

    /// How many tests run at once
    #[arg(short, long, value_name = "N", env = "ACP_JOBS", help_heading = "Running")]
    jobs: Option<usize>,
    /// Run each test N times; a test with different verdicts is flaky
    #[arg(long, value_name = "N", help_heading = "Running")]
    repeat: Option<usize>,
    /// Stop after the first required test that fails
    #[arg(long, help_heading = "Running", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    fail_fast: Option<bool>,
    /// Multiply every timeout, for slow agents
    #[arg(long, value_name = "X", env = "ACP_TIMEOUT_FACTOR", help_heading = "Running", value_parser = factor)]
    timeout_factor: Option<f64>,
    /// A JSON file with your own wordings of what agents are asked to do: {"read": ["Show me {1}"]}
    #[arg(long, value_name = "FILE", help_heading = "Running")]
    wordings: Option<PathBuf>,
    /// Find out what the agents can be asked to do, print it and stop
    #[arg(long, help_heading = "Running")]
    calibrate: bool,
    /// Stop waiting once all requests are answered and the agent has been silent this long, for instance 5s
    #[arg(long, value_name = "TIME", help_heading = "Running", value_parser = crate::talk::duration)]
    patience: Option<Duration>,
    /// Run without network access (loopback only; Linux); the report lists connection attempts
    #[arg(long, help_heading = "Running", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    isolate: Option<bool>,
    /// Show frames on standard error as they pass (with -j 1, one test after the other), and in reports every test that did
    /// not pass, with expected patterns
    #[arg(short, long, help_heading = "Running")]
    verbose: bool,
    /// Show no progress and print only the verdict
    #[arg(short, long, help_heading = "Running", conflicts_with = "verbose")]
    quiet: bool,
    /// Keep sandboxes and transcripts in this folder
    #[arg(long, value_name = "DIR", help_heading = "Running")]
    keep: Option<PathBuf>,

    /// Fail on protocol violations even if no selected test names requirements (if one does, they always count)
    #[arg(long, help_heading = "Verdicts", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    strict: Option<bool>,
    /// In tests that name no requirements, count a pass as NA if the behaviour never occurred
    #[arg(long, help_heading = "Verdicts", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    require_exercised: Option<bool>,
    /// Do not exit with 3 because a requirement was not reached or a test was inconclusive
    #[arg(long, help_heading = "Verdicts", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    allow_incomplete: Option<bool>,
    /// A file of known failures, one per line with its reason; a stale entry fails the run. `profile` takes the built-in
    /// lists of the agents of --agent
    #[arg(long, value_name = "FILE|profile", help_heading = "Verdicts")]
    expected: Option<PathBuf>,
    /// Write what this run found broken as a list for --expected
    #[arg(long, value_name = "FILE", help_heading = "Verdicts")]
    write_expected: Option<PathBuf>,

    /// Check the suite: the built-in agent must pass it, and every known defect must be caught
    #[arg(long, help_heading = "The suite itself")]
    self_test: bool,
    /// With --self-test: try every change of the suite and every combination of two variants, not one in eight
    #[arg(long, requires = "self_test", help_heading = "The suite itself")]
    whole: bool,
    /// List each requirement with the tests that claim it and the defects that break it
    #[arg(long, help_heading = "The suite itself")]
    coverage: bool,

    #[command(flatten)]
    outputs: Outputs,
    /// Print the Markdown report on a terminal too, as `acpcomply` does
    #[arg(long, hide = true)]
    always_markdown: bool,
    /// Show secrets and home folders in reports
    #[arg(long, help_heading = "Reports")]
    no_redact: bool,
}

fn dialect_help() -> String {
    format!("The agents' protocol dialect: {} (default: v1); tests in v1 are translated", Dialect::choices())
}

impl ComplyArgs {
    /// Whether no agent is needed.
    fn is_about_the_suite(&self) -> bool {
        self.list_tests || self.coverage || self.self_test
    }
}

/// Runs the command.
pub fn run(args: &ComplyArgs) -> anyhow::Result<ExitCode> {
    let wrong = |error: &dyn std::fmt::Display| {
        eprintln!("acp comply: {error:#}");
        Ok(ExitCode::from(exit::USAGE))
    };
    let args = &match settled(args) {
        Ok(args) => args,
        Err(error) => return wrong(&error),
    };
    let (sources, name) = match sources(args) {
        Ok(found) => found,
        Err(error) => return wrong(&error),
    };
    let Some((programs, warnings)) = read_for_agents(&sources) else {
        return Ok(ExitCode::from(exit::USAGE));
    };
    let known = super::expected::read(args.expected.as_deref(), &args.agent, &programs);
    let expected = match known {
        Ok(expected) => expected,
        Err(error) => return wrong(&error),
    };
    let chosen = match choose(args, &programs) {
        Ok(chosen) => chosen,
        Err(error) => return wrong(&error),
    };
    if args.list_tests {
        return list(&chosen, args.outputs.has(ReportFormat::Json));
    }
    if args.coverage {
        return super::proof::coverage(&chosen);
    }
    if args.self_test {
        let campaign = campaign(args, chosen)?;
        let extent = if args.whole { Extent::Whole } else { Extent::Sample };
        return super::proof::self_test(campaign, extent, args.verbose);
    }
    let writable = args.write_expected.as_deref().map_or(Ok(()), out::check);
    let targets = match writable.and_then(|()| args.outputs.check()).and_then(|()| targets(args)) {
        Ok(targets) => targets,
        Err(error) => return wrong(&error),
    };
    if is_on(args.isolate) {
        acp_campaign::isolate::enter()?;
    }
    if args.calibrate {
        return calibrate(args, chosen, &targets);
    }
    let suite = acp_comply::Suite { name, files: programs.len(), filtered: programs.len() - chosen.len() };
    let mut results = run_campaign(args, chosen, &targets, suite)?;
    results.warnings = warnings;
    if is_on(args.require_exercised) {
        results
            .agents
            .iter_mut()
            .flat_map(|agent| &mut agent.tests)
            .for_each(acp_comply::TestOutcome::require_exercised);
    }
    if let Some(expected) = &expected {
        expected.apply(&mut results);
    }
    results.conclude(ConformancePolicy {
        strict: is_on(args.strict),
        allow_incomplete: is_on(args.allow_incomplete),
    });
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

/// Runs the tests and hands the results over instead of reporting them.
pub fn results(args: &ComplyArgs) -> anyhow::Result<Results> {
    let args = &settled(args)?;
    let (sources, name) = sources(args)?;
    let (programs, warnings) = read_for_agents(&sources).context("the test files cannot be read")?;
    let chosen = choose(args, &programs)?;
    let targets = targets(args)?;
    if is_on(args.isolate) {
        acp_campaign::isolate::enter()?;
    }
    let suite = acp_comply::Suite { name, files: programs.len(), filtered: programs.len() - chosen.len() };
    let mut results = run_campaign(args, chosen, &targets, suite)?;
    results.warnings = warnings;
    results.conclude(ConformancePolicy::default());
    Ok(results)
}

fn reports(args: &ComplyArgs) -> Reports<'_> {
    Reports {
        outputs: &args.outputs,
        always_markdown: args.always_markdown,
        quiet: args.quiet,
        verbose: args.verbose,
        redact: !args.no_redact,
        page: "comply.html",
    }
}

fn is_on(flag: Option<bool>) -> bool {
    flag.unwrap_or(false)
}

/// The arguments, with what acp.toml says where they say nothing.
fn settled(args: &ComplyArgs) -> anyhow::Result<ComplyArgs> {
    let settings = FileSettings::load()?;
    let (mut args, own) = (args.clone(), settings.comply());
    let names_agent = !(args.agent.is_empty()
        && args.command.is_empty()
        && args.connect.is_empty()
        && args.settings.is_none());
    if !names_agent {
        args.agent = match settings.default_agent() {
            _ if !own.agents.is_empty() => own.agents.clone(),
            Some(name) => vec![name],
            None => settings.agent_names().map(str::to_owned).collect(),
        };
        anyhow::ensure!(
            !args.agent.is_empty() || !settings.is_asked_for() || args.is_about_the_suite(),
            "{} names no agent; add one ([agents.NAME] with command = \"…\"), or use --command or --agent",
            settings.path().unwrap_or(Path::new(crate::settings::FILE)).display()
        );
    }
    if args.suite.is_empty() && args.tests.is_empty() {
        args.suite.clone_from(&own.suite);
    }
    for (flag, setting) in [
        (&mut args.test, &own.test),
        (&mut args.area, &own.area),
        (&mut args.requirement, &own.requirement),
        (&mut args.severity, &own.severity),
    ] {
        if flag.is_empty() {
            flag.clone_from(setting);
        }
    }
    args.jobs = args.jobs.or(own.jobs);
    args.repeat = args.repeat.or(own.repeat);
    args.timeout_factor = args.timeout_factor.or(own.timeout_factor);
    args.patience = args.patience.or(own.patience);
    args.fail_fast = args.fail_fast.or(own.fail_fast);
    args.isolate = args.isolate.or(own.isolate);
    args.strict = args.strict.or(own.strict);
    args.require_exercised = args.require_exercised.or(own.require_exercised);
    args.allow_incomplete = args.allow_incomplete.or(own.allow_incomplete);
    args.auth = args.auth.or_else(|| own.auth.clone());
    args.wordings = args.wordings.or_else(|| own.wordings.clone());
    // The list belongs to the project's agents, not to one that a flag names.
    if !names_agent {
        args.expected = args.expected.or_else(|| own.expected.clone());
    }
    Ok(args)
}

fn sources(args: &ComplyArgs) -> Result<(Vec<TestSource>, String), acp_campaign::SuiteError> {
    let built_in = suite::names();
    let is_name =
        |path: &PathBuf| !path.exists() && built_in.iter().any(|name| path.as_os_str() == name.as_str());
    let (names, folders): (Vec<PathBuf>, Vec<PathBuf>) = args.suite.iter().cloned().partition(is_name);
    let paths: Vec<PathBuf> = args.tests.iter().cloned().chain(folders).collect();
    if paths.is_empty() && names.is_empty() {
        return Ok((suite::embedded("v1")?, "v1".to_owned()));
    }
    let mut sources = if paths.is_empty() { Vec::new() } else { suite::from_paths(&paths)? };
    for name in &names {
        sources.extend(suite::embedded(&name.to_string_lossy())?);
    }
    let name =
        names.iter().chain(&paths).map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    Ok((sources, name))
}

/// Reads all test files; what is wrong with any of them is said at once.
pub fn read(sources: &[TestSource]) -> Option<(Vec<Arc<Program>>, Vec<String>)> {
    let (programs, diagnostics) = acp_comply::read_all(sources, &defaults());
    let errors: Vec<acp_comply::Diagnostic> =
        diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).cloned().collect();
    if !errors.is_empty() {
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        eprint!("{}", acp_comply::render_all(&errors, sources, colour));
        let is_test =
            |source: &&TestSource| Path::new(&source.name).extension().is_some_and(|it| it == "jsont");
        if let Some(other) = sources.iter().find(|source| !is_test(source)) {
            eprintln!("{} is read as a test file; to test an agent, use --command \"…\"", other.name);
        }
        return None;
    }
    for program in &programs {
        if let Err(reason) = acp_campaign::check_rules(program) {
            eprintln!("error: {reason}");
            return None;
        }
    }
    let warnings: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    Some((programs.into_iter().map(Arc::new).collect(), warnings))
}

/// The tests for agents among the files, and the warnings about all files.
fn read_for_agents(sources: &[TestSource]) -> Option<(Vec<Arc<Program>>, Vec<String>)> {
    let (mut programs, warnings) = read(sources)?;
    let count = programs.len();
    programs.retain(|program| program.client.is_none());
    match count - programs.len() {
        0 => {}
        left if left == count => {
            eprintln!(
                "error: these tests are for clients, and this command tests agents; acp comply-client runs them"
            );
            return None;
        }
        left => eprintln!("left out: {left} of {count} tests are for clients; acp comply-client runs them"),
    }
    Some((programs, warnings))
}

/// What test files may rely on.
pub fn defaults() -> Defaults {
    Defaults {
        mcp_stub_args: ["mcp-stub", "--log", "${mcpLog}"].map(str::to_owned).to_vec(),
        wishes: suite::wishes().clone(),
        ..Defaults::default()
    }
}

/// The tests that are asked for; none is an error that says what there is.
fn choose(args: &ComplyArgs, programs: &[Arc<Program>]) -> anyhow::Result<Vec<Arc<Program>>> {
    let is_area = |area: &&String| programs.iter().any(|program| program.area.eq_ignore_ascii_case(area));
    if let Some(unknown) = args.area.iter().find(|area| !is_area(area)) {
        let areas: BTreeSet<&str> = programs.iter().map(|program| program.area.as_str()).collect();
        let group = |program: &&Arc<Program>| {
            program.id.split_once('.').is_some_and(|(group, _)| group.eq_ignore_ascii_case(unknown))
        };
        let meant = match programs.iter().find(group) {
            Some(program) => format!(
                "; did you mean --test '{0}.*' or --area {1:?}?",
                unknown.to_lowercase(),
                program.area
            ),
            None => did_you_mean(unknown, areas.iter().copied()),
        };
        let areas: Vec<&str> = areas.into_iter().collect();
        let there_are = if meant.is_empty() { format!("; there are {}", areas.join(", ")) } else { meant };
        anyhow::bail!("--area {unknown:?}: there is no such area{there_are}");
    }
    let chosen = selection(args)?.choose(programs);
    if chosen.is_empty() {
        anyhow::bail!(
            "no test is left by the selection{}; `acp comply --list-tests` shows what there is",
            misspelt(args, programs)?
        );
    }
    Ok(chosen)
}

/// The first --test or --requirement that nothing matches, with what may have been meant.
fn misspelt(args: &ComplyArgs, programs: &[Arc<Program>]) -> anyhow::Result<String> {
    for glob in &args.test {
        if Selection::default().ids(std::slice::from_ref(glob))?.choose(programs).is_empty() {
            let ids = programs.iter().map(|program| program.id.as_str());
            return Ok(format!(": --test {glob:?} matches none{}", did_you_mean(glob, ids)));
        }
    }
    for id in &args.requirement {
        if Selection::default().requirements(std::slice::from_ref(id)).choose(programs).is_empty() {
            let ids: BTreeSet<&str> =
                programs.iter().flat_map(|program| &program.requirements).map(String::as_str).collect();
            return Ok(format!(": no test claims --requirement {id}{}", did_you_mean(id, ids)));
        }
    }
    Ok(String::new())
}

fn selection(args: &ComplyArgs) -> Result<Selection, acp_campaign::select::SelectError> {
    let severities: Vec<UnmetSeverity> = args
        .severity
        .iter()
        .map(|word| match word.as_str() {
            "required" => UnmetSeverity::Required,
            "optional" => UnmetSeverity::Optional,
            _ => UnmetSeverity::Advice,
        })
        .collect();
    Selection::default()
        .areas(&args.area)
        .requirements(&args.requirement)
        .severities(&severities)
        .ids(&args.test)?
        .shard(args.shard.as_deref())
}

/// Prints the tests, for people or for programs.
pub fn list(programs: &[Arc<Program>], is_json: bool) -> anyhow::Result<ExitCode> {
    if is_json {
        let row = |program: &Arc<Program>| {
            serde_json::json!({
                "id": program.id,
                "title": program.title,
                "area": program.area,
                "severity": program.severity.as_str(),
                "requirements": program.requirements,
            })
        };
        out::print(format!("{:#}\n", programs.iter().map(row).collect::<serde_json::Value>()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = programs.iter().map(|program| program.id.len()).max().unwrap_or(0);
    let mut lines = String::new();
    for program in programs {
        let _ =
            writeln!(lines, "{:<width$}  {:<8}  {}", program.id, program.severity.as_str(), program.title);
    }
    out::print(CommandGuard::default().pass(&acp_text::block(&lines)))?;
    Ok(ExitCode::SUCCESS)
}

fn targets(args: &ComplyArgs) -> anyhow::Result<Vec<Target>> {
    let dialect = args.dialect.unwrap_or(Dialect::V1);
    let mut targets = Vec::new();
    for name in &args.agent {
        let dialect = builtin::dialect_of(name, args.dialect)?;
        let target = builtin::target(name, args.settings.as_deref(), dialect)?;
        targets.push(if args.tcp { builtin::over_tcp(target)? } else { target });
    }
    if let (Some(settings), true) = (&args.settings, args.agent.is_empty()) {
        targets.push(builtin::only_of(settings, dialect)?);
    }
    for line in &args.command {
        targets.push(builtin::command(line, dialect)?);
    }
    for address in &args.connect {
        targets.push(builtin::connect(address, &args.token, dialect)?);
    }
    if targets.is_empty() {
        eprintln!(
            "acp comply: testing the built-in agents {}: no other agent is named; name yours with --command, --agent or \
             in acp.toml (`acp init` writes it)",
            builtin::DEFAULT.join(" and ")
        );
        for name in builtin::DEFAULT {
            targets.push(builtin::target(name, None, dialect)?);
        }
    }
    builtin::name(&mut targets, &args.name)?;
    Ok(targets)
}

fn run_campaign(
    args: &ComplyArgs,
    programs: Vec<Arc<Program>>,
    targets: &[Target],
    suite: acp_comply::Suite,
) -> anyhow::Result<Results> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (stop, stopped) = watch::channel(false);
    let campaign = Campaign { stop: stopped, ..campaign(args, programs)? };
    let started = jiff::Timestamp::now().to_string();
    let began = Instant::now();
    let shown = if args.quiet { progress::Shown::none() } else { progress::Shown::new(args.verbose) };
    let listener = shown.listener();
    let (agents, interrupted) = runtime.block_on(async {
        progress::interrupt(stop);
        let mut agents = Vec::new();
        for target in targets {
            agents.push(campaign.run(target, &listener).await);
        }
        (agents, *campaign.stop.borrow())
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

fn campaign(args: &ComplyArgs, programs: Vec<Arc<Program>>) -> anyhow::Result<Campaign> {
    Ok(Campaign {
        programs,
        calibration: suite::calibration(&defaults()),
        conditions: conditions(args)?,
        jobs: args.jobs.unwrap_or_else(default_jobs),
        light_jobs: args.jobs.unwrap_or_else(|| 2 * default_jobs()),
        repeat: args.repeat.unwrap_or(1),
        fail_fast: is_on(args.fail_fast),
        watch: args.verbose.then(progress::frames),
        stop: watch::channel(false).1,
    })
}

fn conditions(args: &ComplyArgs) -> anyhow::Result<Conditions> {
    let own = std::env::current_exe().context("cannot find the program's own file")?;
    Ok(Conditions {
        supervisor: Some(own.clone()),
        wire: acp_link::LinkSettings { line_limit: 16 << 20, ..acp_link::LinkSettings::default() },
        timeout_factor: args.timeout_factor.unwrap_or(1.0),
        patience: args.patience,
        grace: Duration::from_millis(500),
        auth_method: args.auth.clone(),
        mcp_stub: cfg!(feature = "mcp").then_some(own),
        keep: args.keep.clone(),
        wordings: wordings(args)?,
        is_second_run: false,
    })
}

/// Prints what each agent can be brought to do.
fn calibrate(args: &ComplyArgs, programs: Vec<Arc<Program>>, targets: &[Target]) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (stop, stopped) = watch::channel(false);
    let campaign = Campaign { stop: stopped, ..campaign(args, programs)? };
    let shown = progress::Shown::quiet();
    let listener = shown.listener();
    let calibrated: Vec<_> = runtime.block_on(async {
        progress::interrupt(stop);
        let mut all = Vec::new();
        for target in targets {
            all.push((target.name.as_str(), campaign.calibrate_alone(target, &listener).await));
        }
        all
    });
    shown.finish();
    let (mut text, mut is_whole) = (String::new(), true);
    for (name, found) in calibrated {
        match found {
            Ok(found) => text.push_str(&acp_report::calibration(name, &found)),
            Err(fault) => {
                is_whole = false;
                let _ = writeln!(text, "{name}: {fault}");
            }
        }
    }
    out::print(acp_text::block(&text))?;
    Ok(ExitCode::from(if is_whole { exit::OK } else { exit::FAULT }))
}

/// The wordings of wishes: the user's own before the built-in ones.
fn wordings(args: &ComplyArgs) -> anyhow::Result<acp_comply::Wordings> {
    let mut wordings = suite::wishes().clone();
    let Some(path) = &args.wordings else { return Ok(wordings) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let own: acp_comply::Wordings = serde_json::from_str(&text).with_context(|| {
        format!(
            "{}: write it as {{\"read\": [\"Show me {{1}}\"], …}}, wishes with their wordings",
            path.display()
        )
    })?;
    for (wish, mut words) in own {
        let known = wordings.keys().cloned().collect::<Vec<_>>().join(", ");
        let list = wordings
            .get_mut(&wish)
            .with_context(|| format!("{}: there is no wish {wish:?}; there are {known}", path.display()))?;
        words.append(list);
        *list = words;
    }
    Ok(wordings)
}

/// Tests mostly wait, so more of them run at once than there are cores.
pub fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(8, |cores| cores.get() * 8)
}

/// Reads a factor for timeouts.
pub fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if factor > 0.0 && factor <= 1000.0 => Ok(factor),
        _ => Err("it must be a number above 0 and up to 1000".to_owned()),
    }
}
