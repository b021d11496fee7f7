//! `acp model`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use acp_model::{EndpointSettings, Hints, ModelEndpoint, ModelScript};
use acp_profile::Catalogue;
use anyhow::Context;

use crate::exit;
use acp_link::signals::EndSignals;

/// Arguments of `acp model`.
#[derive(clap::Args)]
#[command(after_help = crate::help::MODEL)]
pub struct ModelArgs {
    /// The rules to answer by; without it, the model understands plain requests such as Say 'hello'
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Where agents reach the model: http://127.0.0.1:PORT; port 0 takes any free one, and the address is printed as a
    /// line of JSON
    #[arg(long, value_name = "ADDRESS", default_value = "http://127.0.0.1:0", value_parser = loopback_port)]
    listen: u16,
    /// An earlier way to say --listen http://127.0.0.1:N
    #[arg(long, value_name = "N", hide = true, conflicts_with = "listen")]
    port: Option<u16>,
    /// Append every request and what was done with it to this file, one JSON object per line
    #[arg(long, value_name = "FILE", alias = "journal")]
    log: Option<PathBuf>,
    /// The profile of the agent that will call: it says how the agent names its tools
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The pause between two words of a streamed answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5)]
    pace: u64,
    /// The longest stall, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    stall_limit: u64,
}

/// Serves until a signal tells it to end.
pub fn run(args: &ModelArgs) -> anyhow::Result<ExitCode> {
    let settings = match settings(args) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("acp: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let port = settings.port;
        let endpoint = ModelEndpoint::start(settings).await.with_context(|| {
            format!(
                "cannot serve on 127.0.0.1 port {port}; is it taken, and can the file of --log be written?"
            )
        })?;
        let mut signals = EndSignals::listen().context("cannot listen for signals")?;
        println!(
            "{}",
            serde_json::json!({"event": "listening", "url": endpoint.url(), "port": endpoint.port()})
        );
        signals.next().await;
        anyhow::Ok(())
    })?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

fn settings(args: &ModelArgs) -> anyhow::Result<EndpointSettings> {
    let script = match &args.script {
        None => ModelScript::default(),
        Some(path) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read the script {path:?}"))?;
            ModelScript::parse(&text).with_context(|| format!("in the script {}", path.display()))?
        }
    };
    let hints = match &args.profile {
        None => Hints::default(),
        Some(name) => Hints::from(Catalogue::built_in().find(name)?),
    };
    Ok(EndpointSettings {
        port: args.port.unwrap_or(args.listen),
        script,
        hints,
        journal: args.log.clone(),
        pace: Duration::from_millis(args.pace),
        stall_limit: Duration::from_secs(args.stall_limit),
        ..EndpointSettings::default()
    })
}

/// The port of a loopback address.
fn loopback_port(text: &str) -> Result<u16, String> {
    let address = text.trim_end_matches('/').strip_prefix("http://").unwrap_or(text);
    let port = address.strip_prefix("127.0.0.1:").or_else(|| address.strip_prefix("localhost:"));
    port.and_then(|port| port.parse().ok())
        .ok_or_else(|| "write http://127.0.0.1:PORT (the model is for agents on this machine)".to_owned())
}
