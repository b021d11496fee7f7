//! One command, one table: our wire beside the official SDK and a bare pipe.
//!
//! **What it is.** Every figure comes from two real processes: this program starts itself as the client, which
//! starts itself as the agent. The contestants take turns within one run, and the table shows medians and their
//! ratios, because ratios travel between machines and absolute figures do not.
//!
//! **What it will never do.** Fail because something was slow. It does fail when a message was lost.
//!
//! **Read first:** [`job::Job`] (what one client process does), [`rows`] (which jobs make up the table),
//! [`side`] (the contestants).

mod code;
mod job;
mod probe;
mod rows;
mod run;
mod side;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use job::Job;
use run::Plan;

/// Measures our wire side by side with the official Rust SDK and with a bare pipe.
#[derive(Debug, Parser)]
struct Args {
    /// Rounds; each contestant runs once per round, and medians are shown.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// A tenth of the load, for a first look.
    #[arg(long)]
    quick: bool,
    /// Only the row groups whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Leave the official SDK out.
    #[arg(long)]
    without_sdk: bool,
    /// The `acp` program whose mock is measured; without this, ACP_BENCH_ACP or the one beside this program.
    #[arg(long, value_name = "PATH", env = "ACP_BENCH_ACP")]
    acp: Option<PathBuf>,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What this program is when it was started by itself.
#[derive(Debug, Subcommand)]
enum Role {
    /// Measures the code engine.
    Code(code::Args),
    /// Runs one call of the code engine.
    #[command(hide = true)]
    CodeWork { work: String },
    /// Runs one job as the client and prints its sample.
    #[command(hide = true)]
    Client { job: String },
    /// Answers one client.
    #[command(hide = true)]
    Agent { job: String },
    /// Stands between one client and its agent.
    #[command(hide = true)]
    Relay { job: String },
}

fn main() -> anyhow::Result<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == acp_link::supervisor::ARGUMENT) {
        return Ok(acp_link::supervisor::main(args));
    }
    let args = Args::parse();
    match &args.role {
        Some(Role::Code(code)) => code::run(code)?,
        Some(Role::CodeWork { work }) => serde_json::from_str::<code::Work>(work)?.run()?,
        Some(Role::Client { job }) => {
            let job: Job = serde_json::from_str(job)?;
            println!("{}", serde_json::to_string(&side::client(&job)?)?);
        }
        Some(Role::Agent { job }) => side::agent(&serde_json::from_str(job)?)?,
        Some(Role::Relay { job }) => side::relay(&serde_json::from_str(job)?)?,
        None => rows::all(&Plan::from(&args))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl From<&Args> for Plan {
    fn from(args: &Args) -> Self {
        Self {
            rounds: args.rounds.max(1),
            scale: if args.quick { 10 } else { 1 },
            only: args.only.clone(),
            without_sdk: args.without_sdk,
            acp: args.acp.clone(),
        }
    }
}
