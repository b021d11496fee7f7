//! `acp exam`: an agent that examines the client it runs in.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use acp_campaign::suite;
use acp_comply::ConformancePolicy;
use acp_exam::chat::{kept_results, settings};
use acp_exam::{ChatExam, ChatExamSettings};
use acp_link::{AccessControl, LinkSettings, ListenAddress, Listener};
use anyhow::Context;

use super::comply;
use super::listen::Listen;
use super::reports::Reports;
use crate::outputs::Outputs;
use crate::{exit, out};
use acp_link::signals::EndSignals;

/// The built-in suite of tests of clients.
const SUITE: &str = "client";

/// Arguments of `acp exam`.
#[derive(clap::Args)]
#[command(after_help = crate::help::EXAM, args_conflicts_with_subcommands = true)]
pub struct ExamArgs {
    #[command(subcommand)]
    part: Option<ExamPart>,

    /// Print the entry for an editor's settings and stop
    #[arg(long, value_name = "EDITOR", value_parser = settings::EDITORS, num_args = 0..=1, default_missing_value = "zed")]
    settings: Option<String>,
    /// Where the client comes from: stdio, tcp://HOST:PORT or ws://HOST:PORT; port 0 takes any free one, and the address is
    /// printed as a line of JSON
    #[arg(long, value_name = "WHERE", default_value = "stdio")]
    listen: Listen,
    /// Test files or folders instead of the built-in suite (several allowed)
    #[arg(long, value_name = "FILE|DIR")]
    suite: Vec<PathBuf>,
    /// Keep results in this folder; without it, in $XDG_STATE_HOME/acp-workbench/exam
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// How many seconds the person has for one thing
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    patience: u64,
    /// Multiply every other timeout, for slow clients
    #[arg(long, value_name = "X", env = "ACP_TIMEOUT_FACTOR", default_value_t = 1.0, value_parser = comply::factor)]
    timeout_factor: f64,
}

/// What else `acp exam` does.
#[derive(clap::Subcommand)]
enum ExamPart {
    /// Print the report of the latest exam, or of a client's
    Report(ExamReportArgs),
}

#[derive(clap::Args)]
struct ExamReportArgs {
    /// The client's name, as it states it; without it, the latest exam
    client: Option<String>,
    /// The folder that --state-dir named
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs the command.
pub fn run(args: &ExamArgs) -> anyhow::Result<ExitCode> {
    if let Some(ExamPart::Report(args)) = &args.part {
        return report(args);
    }
    if let Some(editor) = &args.settings {
        return entry(editor);
    }
    let prepared = exam(args);
    let exam = match prepared {
        Ok(Some(exam)) => Arc::new(exam),
        Ok(None) => return Ok(ExitCode::from(exit::USAGE)),
        Err(error) => {
            eprintln!("acp exam: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(serve(args, exam));
    runtime.shutdown_background();
    Ok(ExitCode::from(outcome?))
}

fn exam(args: &ExamArgs) -> anyhow::Result<Option<ChatExam>> {
    if let Some(at) = args.listen.address() {
        anyhow::ensure!(
            at.is_loopback(),
            "{} can be reached from other machines, and the exam makes its client run commands: use a loopback address",
            at.socket.ip()
        );
    }
    let sources = match args.suite.is_empty() {
        true => suite::embedded(SUITE)?,
        false => suite::from_paths(&args.suite)?,
    };
    let Some((programs, _)) = comply::read(&sources) else { return Ok(None) };
    anyhow::ensure!(
        programs.iter().all(|program| program.client.is_some()),
        "the tests are not all for clients (\"side\": \"client\"); acp comply runs tests for agents"
    );
    Ok(Some(ChatExam::new(ChatExamSettings {
        programs,
        sources,
        state: state(args.state_dir.as_ref())?,
        patience: Duration::from_secs(args.patience),
        timeout_factor: args.timeout_factor,
    })))
}

async fn serve(args: &ExamArgs, exam: Arc<ChatExam>) -> anyhow::Result<u8> {
    let mut signals = EndSignals::listen().context("cannot listen for signals")?;
    let serving = async {
        match args.listen.address() {
            Some(at) => listen(at, exam).await,
            None => {
                if std::io::stdin().is_terminal() {
                    eprintln!(
                        "acp exam: speaking ACP on standard input and output, for the client that is examined; acp exam \
                         --settings prints an entry for its settings, and `acp chat --command 'acp exam'` examines acp chat"
                    );
                }
                Ok(exam.serve_stdio().await?)
            }
        }
    };
    tokio::select! {
        ended = serving => ended.map(|()| exit::OK),
        told = signals.next() => Ok(exit::by(told)),
    }
}

async fn listen(at: ListenAddress, exam: Arc<ChatExam>) -> anyhow::Result<()> {
    let listener = Listener::bind(at, &LinkSettings::default(), AccessControl::default())?;
    let scheme = if at.checks_access() { "ws" } else { "tcp" };
    println!("{}", serde_json::json!({ "listening": listener.address().to_string() }));
    eprintln!("acp exam: listening on {scheme}://{}", listener.address());
    exam.serve_clients(listener).await;
    Ok(())
}

fn entry(editor: &str) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let Some((place, text)) = settings::entry(editor, &program.to_string_lossy()) else {
        eprintln!("acp exam: there is no entry for {editor:?}");
        return Ok(ExitCode::from(exit::USAGE));
    };
    eprintln!("{place}");
    out::print(format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn report(args: &ExamReportArgs) -> anyhow::Result<ExitCode> {
    let found = state(args.state_dir.as_ref())
        .and_then(|state| kept_results(&state, args.client.as_deref()).map_err(anyhow::Error::msg));
    let mut results = match args.outputs.check().and(found) {
        Ok(results) => results,
        Err(error) => {
            eprintln!("acp exam report: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    results.conclude(ConformancePolicy { strict: false, allow_incomplete: true });
    let reports = Reports {
        outputs: &args.outputs,
        always_markdown: false,
        quiet: false,
        verbose: false,
        redact: true,
        page: "exam.html",
    };
    reports.write(&results)?;
    Ok(ExitCode::SUCCESS)
}

/// Where results are kept: as said, or where programs of this system keep such things.
fn state(named: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(folder) = named {
        return Ok(folder.clone());
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    let base = base.context("neither XDG_STATE_HOME nor HOME is set; name a folder with --state-dir")?;
    Ok(base.join("acp-workbench").join("exam"))
}
