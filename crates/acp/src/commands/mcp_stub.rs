//! `acp mcp-stub`

use std::path::PathBuf;
use std::process::ExitCode;

use acp_mcp::stub::{LogFile, StubSettings, serve_http, serve_stdio};
use anyhow::Context;

/// Arguments of `acp mcp-stub`.
#[derive(clap::Args)]
#[command(after_help = crate::help::MCP_STUB)]
pub struct McpStubArgs {
    /// The server's name, in its handshake and in its log
    #[arg(long, default_value = "acp-stub")]
    name: String,
    /// Append every request to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Also record this environment variable (a name, or a prefix that ends in `*`) (several allowed)
    #[arg(long, value_name = "NAME")]
    log_env: Vec<String>,
    /// Speak streamable HTTP on a loopback port instead of standard input and output
    #[arg(long)]
    http: bool,
    /// The port for `--http`; 0 takes any free one
    #[arg(long, default_value_t = 0, requires = "http")]
    port: u16,
}

/// Serves until the input ends (stdio) or a signal comes.
pub fn run(args: &McpStubArgs) -> anyhow::Result<ExitCode> {
    let settings = StubSettings { name: args.name.clone(), log_env: args.log_env.clone() };
    let log = LogFile::open(&args.name, args.log.as_deref()).with_context(|| {
        format!("cannot open the log {:?} for appending", args.log.clone().unwrap_or_default())
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        if !args.http {
            return serve_stdio(&settings, log).await.context("cannot serve on standard input and output");
        }
        let stub = serve_http(&settings, log, args.port)
            .await
            .with_context(|| format!("cannot listen on 127.0.0.1 port {}; is it taken?", args.port))?;
        println!("{}", serde_json::json!({"event": "listening", "url": stub.url(), "port": stub.port()}));
        stub.run().await.context("cannot serve HTTP")
    });
    // A blocking read of standard input may still be under way; it must not hold the process back.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}
