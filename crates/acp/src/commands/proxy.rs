//! `acp proxy`

mod duties;
mod journal;
#[cfg_attr(not(feature = "nats"), path = "proxy/no_nats.rs")]
pub mod nats;
mod operation;
mod scripted;
mod starts;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use acp_campaign::Real;
use acp_dialect::{Dialect, TranslationOptions, Unasked};
use acp_link::LinkSettings;
use acp_proxy::journal::Journal;
use acp_proxy::ops::Health;
use acp_proxy::{
    AgentUnavailable, ClientForm, ClientSource, Duties, OpenedAgent, Outcome, Proxy, ProxyLog, ProxySettings,
};
use anyhow::Context;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::listen::Listen;
use crate::exit;
use crate::talk::duration;
use crate::target::TargetArgs;
use acp_host::target::{AgentConnection, AgentTarget};
use acp_link::process_guard::ProcessGuard;
use acp_link::signals::EndSignals;

/// Arguments of `acp proxy`.
#[derive(clap::Args)]
#[command(after_help = crate::help::PROXY)]
pub struct ProxyArgs {
    /// Where clients come from: stdio, tcp://127.0.0.1:PORT or ws://127.0.0.1:PORT/acp; port 0 takes any free one, and
    /// the address is printed as a line of JSON. Other than loopback addresses need --listen-token
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "stdio",
        default_value_if("nats", clap::builder::ArgPredicate::IsPresent, "none")
    )]
    listen: Listen,
    /// Which agent.
    #[command(flatten)]
    target: TargetArgs,
    /// Serve the agent of --agent as `acp profiles install` put it there, in a home of its own, on a scripted model
    #[arg(long, requires = "agent", help_heading = "Which agent")]
    scripted: bool,
    #[arg(long, value_name = "DIALECT", default_value = "auto", help_heading = "Translation")]
    #[arg(help = format!("The dialect that clients speak: auto (that of their first frame), {}", Dialect::choices()))]
    client_dialect: ClientForm,
    /// Make every session work in this folder (default: the client's folder, or the current one if the client's dialect
    /// names none)
    #[arg(long, value_name = "DIR", help_heading = "Policy")]
    work_dir: Option<PathBuf>,
    /// How to answer permission requests that the client's dialect cannot pass on: reject, allow or cancel
    #[arg(long, value_name = "ANSWER", default_value = "reject", help_heading = "Translation")]
    permission: Unasked,
    /// Tell the agent that a probe client serves readTextFile and writeTextFile (its dialect cannot say so)
    #[arg(long, help_heading = "Translation")]
    client_files: bool,
    /// Tell clients that a 2025.1 agent can load sessions (its dialect cannot say so)
    #[arg(long, help_heading = "Translation")]
    load_session: bool,
    /// The token for a 2025.1 agent that asks for one
    #[arg(
        long,
        alias = "token",
        value_name = "TOKEN",
        env = "ACP_TOKEN",
        hide_env_values = true,
        help_heading = "Translation"
    )]
    agent_token: Option<String>,
    /// Pause this long after each frame to a probe client: some take whatever one read returns for one message
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = duration, help_heading = "Translation")]
    pace: Duration,
    /// Write transcripts: the first client's to this file, each other client's with its number in the name
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Check the conversation against the protocol as it passes; findings go to standard error
    #[arg(long)]
    lint: bool,
    /// Wait this long for an agent to exit before it is terminated, and again before it is killed
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    grace: Duration,
    /// Do not report what the translation between dialects changes
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    duties: duties::DutyArgs,
    #[command(flatten)]
    journal: journal::JournalArgs,
    #[command(flatten)]
    operation: operation::OperationArgs,
    #[command(flatten)]
    nats: nats::NatsArgs,
}

/// Joins clients to agents until the client on standard input leaves, or for ever on a port.
pub fn run(args: &ProxyArgs) -> anyhow::Result<ExitCode> {
    let (agent, settings) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("acp proxy: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let socket = isolated(args)?;
    operation::raise_descriptor_limit();
    let mut builder = match args.listen {
        Listen::Stdio => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let outcome = runtime.block_on(serve(args, agent, settings, socket));
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ExitCode::from(match outcome? {
        Outcome::Left | Outcome::Stopped | Outcome::Closed(_) => exit::OK,
        Outcome::Refused(_) => exit::FAILED,
        Outcome::AgentFailed(_) | Outcome::Fault(_) => exit::FAULT,
    }))
}

/// What is behind the proxy.
#[derive(Clone)]
enum Agent {
    Target(AgentTarget),
    Scripted(Arc<Real>),
}

impl Agent {
    fn describe(&self) -> String {
        match self {
            Agent::Target(target) => target.describe(),
            Agent::Scripted(real) => format!("{} on a scripted model", real.profile.name),
        }
    }
}

/// Everything that can be wrong with the arguments.
fn prepare(args: &ProxyArgs) -> anyhow::Result<(Agent, ProxySettings)> {
    let agent = match &args.target.agent {
        Some(name) if args.scripted => Agent::Scripted(Arc::new(crate::builtin::installed_agent(name)?)),
        _ => Agent::Target(args.target.resolve()?),
    };
    let settings = settings(args)?;
    anyhow::ensure!(
        !args.target.isolate || (!args.nats.is_wanted() && !args.operation.has_ops()),
        "--isolate leaves the proxy only its own --listen address: leave --nats and --ops out"
    );
    Ok((agent, settings))
}

/// With `--isolate`, returns only inside the isolated network, with the socket that was opened outside of it.
fn isolated(args: &ProxyArgs) -> anyhow::Result<Option<TcpListener>> {
    match args.listen {
        _ if !args.target.isolate => Ok(None),
        Listen::Socket(at) => Ok(Some(acp_campaign::isolate::enter_listening(at.socket)?)),
        Listen::Stdio | Listen::Nobody => Ok(acp_campaign::isolate::enter().map(|()| None)?),
    }
}

async fn serve(
    args: &ProxyArgs,
    agent: Agent,
    mut settings: ProxySettings,
    socket: Option<TcpListener>,
) -> anyhow::Result<Outcome> {
    let (log, health) = (args.operation.log(), Health::default());
    let stop = on_signal(log.clone())?;
    settings.agent_name = agent.describe();
    settings.journal = args.journal.begin(args.nats.is_wanted(), &settings.metrics, &log)?;
    watch_health(&health, &stop, settings.journal.clone());
    // Before anything is announced: a proxy that cannot start its agent is never shown as ready.
    let starts = match &agent {
        Agent::Target(target) => starts::Starts::shown_on(&health, target.missing()),
        Agent::Scripted(_) => starts::Starts::shown_on(&health, None),
    };
    let ops = args.operation.serve(&health, &settings.metrics)?;
    let clients = match args.listen {
        Listen::Nobody => None,
        Listen::Stdio => Some(ClientSource::Stdio(args.operation.wire())),
        Listen::Socket(at) => Some(args.operation.listen(at, socket)?),
    };
    let address = clients.as_ref().and_then(ClientSource::address);
    announce(address, ops.filter(|_| args.listen != Listen::Stdio));
    if let Some(address) = address {
        log.info(&format!("listening on {address} for {}", agent.describe()));
    }
    if let Some(ops) = ops {
        log.info(&format!("health and metrics on http://{ops}"));
    }
    let journal = settings.journal.clone();
    let nats = args.nats.start(&settings, &health, &log).await?;
    let proxy = match agent {
        Agent::Target(target) => {
            let opened = Arc::new((target, args.operation.wire()));
            let own = opened.clone();
            let opener: acp_proxy::Opener = Arc::new(move || open(own.clone(), PathBuf::from(".")));
            let opener = starts.watched(opener, log.clone());
            let proxy = Proxy::new(settings, opener, log.clone());
            proxy.in_folders(Arc::new(move |folder| open(opened.clone(), folder)))
        }
        Agent::Scripted(real) => {
            let folder = PathBuf::from(&settings.options.work_dir);
            let opener: acp_proxy::Opener = Arc::new(move || scripted::open(real.clone(), folder.clone()));
            Proxy::new(settings, starts.watched(opener, log.clone()), log.clone())
        }
    };
    let outcome = nats::serve(nats, proxy, clients, stop).await?;
    if outcome == Outcome::Stopped {
        log.info("stopped");
    }
    if let Some(Err(error)) = journal.map(|journal| journal.finish()) {
        log.error(&error.to_string());
        return Ok(Outcome::Fault(error.to_string()));
    }
    Ok(outcome)
}

/// Says where we can be reached, as a line of JSON for programs. On standard output clients speak where they come from there.
fn announce(listening: Option<SocketAddr>, ops: Option<SocketAddr>) {
    let places = [("listening", listening), ("ops", ops)];
    let told: serde_json::Map<String, serde_json::Value> = places
        .into_iter()
        .filter_map(|(name, address)| Some((name.to_owned(), address?.to_string().into())))
        .collect();
    if !told.is_empty() {
        println!("{}", serde_json::Value::from(told));
    }
}

/// What makes a proxy not ready.
fn watch_health(health: &Health, stop: &watch::Receiver<bool>, journal: Option<Journal>) {
    let stop = stop.clone();
    health.watch("proxy", Arc::new(move || stop.borrow().then(|| "it is shutting down".to_owned())));
    if let Some(journal) = journal {
        health.watch("journal", Arc::new(move || journal.failure().map(|error| error.to_string())));
    }
}

/// Opens the agent in this folder.
fn open(
    target: Arc<(AgentTarget, LinkSettings)>,
    cwd: PathBuf,
) -> BoxFuture<'static, Result<OpenedAgent, AgentUnavailable>> {
    Box::pin(async move {
        let (target, wire) = &*target;
        let opened = target.open_on(&cwd, None, wire).await;
        opened.map(|AgentConnection { link, child }| (link, child)).map_err(AgentUnavailable::new)
    })
}

/// Turns true at the first SIGTERM, SIGINT or SIGHUP. A second one ends the process at once: what was passed on is in the
/// journal, and no agent outlives us.
fn on_signal(log: ProxyLog) -> anyhow::Result<watch::Receiver<bool>> {
    let (tell, stop) = watch::channel(false);
    let mut signals = EndSignals::listen().context("cannot listen for signals")?;
    tokio::spawn(async move {
        signals.next().await;
        log.info("stopping");
        let _ = tell.send(true);
        signals.again().await;
        log.warn("told to stop a second time: not waiting for anything");
        std::process::exit(i32::from(exit::FAULT));
    });
    Ok(stop)
}

fn settings(args: &ProxyArgs) -> anyhow::Result<ProxySettings> {
    let given = args.work_dir.as_deref();
    let folder = given.unwrap_or(Path::new("."));
    let folder =
        folder.canonicalize().with_context(|| format!("cannot use the folder {}", folder.display()))?;
    let folder = folder.to_string_lossy().into_owned();
    if let Listen::Socket(at) = args.listen {
        args.operation.check(at.socket)?;
    }
    args.nats.check()?;
    let agent = args.target.dialect()?.unwrap_or(Dialect::V1);
    anyhow::ensure!(
        !args.lint || agent.is_canonical() || args.client_dialect != ClientForm::Only(agent),
        "--lint judges v1, and between two peers of the form {agent} nothing is v1"
    );
    Ok(ProxySettings {
        client: args.client_dialect,
        agent,
        options: TranslationOptions {
            work_dir: folder.clone(),
            permission: args.permission,
            client_files: args.client_files,
            load_session: args.load_session,
            token: args.agent_token.clone(),
            ..TranslationOptions::default()
        },
        record: args.record.clone(),
        lint: args.lint,
        notes: !args.quiet,
        grace: args.grace,
        pace: args.pace,
        drain: args.operation.drain,
        duties: Duties {
            cwd: given.map(|_| folder),
            turns: args.operation.is_watched(),
            ..args.duties.duties()?
        },
        token: args.operation.listen_token.clone(),
        process_guard: ProcessGuard::by_this_program(),
        ..ProxySettings::default()
    })
}
