//! `acp agent`

use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use acp_agent::provider::{self, Choice, Limit};
use acp_agent::{AgentServer, AgentServerSettings, State};
use acp_dialect::DialectChoice;
use acp_link::{AccessControl, LinkSettings, ListenAddress, Listener};
use acp_policy::Policy;
use agent_client_protocol_schema::v1::McpServer;
use anyhow::Context;

use super::listen::Listen;
use crate::exit;
use crate::patterns;
use crate::talk::secret;
use acp_link::process_guard::ProcessGuard;
use acp_link::signals::EndSignals;

/// Arguments of `acp agent`.
#[derive(clap::Args)]
#[command(after_help = crate::help::AGENT)]
pub struct AgentArgs {
    /// Accepted and ignored: this agent speaks nothing but ACP
    #[arg(long)]
    acp: bool,
    /// The folder to work in: sessions must lie inside it. Without it they work wherever the client says
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Log to standard error; DEBUG=1 does the same
    #[arg(long)]
    debug: bool,
    /// The model provider: scripted (plain requests, no key, no network), anthropic, openai, openai-chat, openai-responses, google,
    /// ollama or bedrock. The key is read from the environment, for instance ANTHROPIC_API_KEY
    #[arg(long, value_name = "NAME", default_value = "scripted")]
    provider: String,
    /// The provider's model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Use this address instead of the provider's, or any server with the same API
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The provider to use when the first one fails: PROVIDER, PROVIDER:MODEL, or either followed by @URL (several allowed,
    /// in order)
    #[arg(long, value_name = "PROVIDER")]
    fallback: Vec<String>,
    /// A header for every request to the provider: 'NAME: VALUE', where ${NAME} is an environment variable (several allowed)
    #[arg(long, value_name = "HEADER", value_parser = header)]
    header: Vec<(String, String)>,
    /// Ask each provider one short question, report, and exit: 0 if all answered, else 1
    #[arg(long)]
    check: bool,
    /// The longest answer of the model, in tokens (default: as long as the model allows)
    #[arg(long, value_name = "N")]
    max_tokens: Option<NonZeroU64>,
    /// The model's context window in tokens, if the program does not know it; longer conversations are summarized
    #[arg(long, value_name = "N")]
    context: Option<NonZeroU64>,
    /// A JSON file with the limits of models: [{"id": "my-model", "context": 32768, "output": 8192}]
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// Let the agent change files
    #[arg(long)]
    allow_edit: bool,
    /// Let the agent delegate tasks to sessions of its own
    #[arg(long)]
    enable_delegate: bool,
    /// Use the MCP servers that clients name
    #[arg(long)]
    enable_mcp: bool,
    /// An MCP server for every session, for clients that cannot name any: NAME=COMMAND ARGS…, NAME=http://… or a JSON file
    /// with mcpServers (several allowed). It needs no --enable-mcp
    #[arg(long, value_name = "SERVER")]
    mcp: Vec<String>,
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = super::mock::speak)]
    #[arg(help = super::mock::speak_help())]
    dialect: DialectChoice,
    /// Keep sessions in this folder; without it, in $XDG_STATE_HOME/acp-workbench/agent
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Keep sessions in memory only
    #[arg(long, conflicts_with = "state_dir")]
    no_state: bool,
    /// How permission is given: default (ask), acceptEdits, bypassPermissions, plan, none, read, write or yolo
    #[arg(long, value_name = "POLICY", default_value = "default")]
    policy: Policy,
    /// Tools that need no permission, for instance Read or 'Bash(git:read)' (several allowed)
    #[arg(long, value_name = "PATTERN")]
    allow: Vec<String>,
    /// Tools that the agent never uses (several allowed)
    #[arg(long, value_name = "PATTERN")]
    deny: Vec<String>,
    /// Where clients come from: stdio or tcp://HOST:PORT; port 0 takes any free one, and the address is printed as a line
    /// of JSON. Other than loopback addresses need --listen-token
    #[arg(long, value_name = "WHERE", default_value = "stdio")]
    listen: Listen,
    /// The token that clients must sign in with
    #[arg(
        long,
        alias = "token",
        value_name = "TOKEN",
        env = "ACP_AGENT_TOKEN",
        hide_env_values = true,
        value_parser = secret
    )]
    listen_token: Option<String>,
    /// An earlier way to say --listen tcp://127.0.0.1:N
    #[arg(long, value_name = "N", hide = true, conflicts_with = "listen")]
    port: Option<u16>,
    /// With --port, another address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", hide = true, requires = "port")]
    bind: IpAddr,
}

impl AgentArgs {
    /// Where to listen; nothing for our own standard streams.
    fn address(&self) -> anyhow::Result<Option<ListenAddress>> {
        match (self.port, self.listen) {
            (Some(port), _) => Ok(Some(ListenAddress::tcp(SocketAddr::new(self.bind, port)))),
            (None, Listen::Stdio) => Ok(None),
            (None, Listen::Socket(at)) if !at.checks_access() => Ok(Some(at)),
            (None, _) => anyhow::bail!(
                "--listen takes stdio or tcp://HOST:PORT here; for WebSocket, put `acp proxy --listen ws://…` before it"
            ),
        }
    }
}

/// Serves the reference agent until its input ends or a signal comes, on a port until a signal comes.
pub fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    if args.check {
        return check(args);
    }
    let server = settings(args).and_then(|settings| {
        patterns::warn("acp agent", &settings.allow);
        Ok((AgentServer::new(settings, &|name| std::env::var(name).ok())?, args.address()?))
    });
    let (server, address) = match server {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("acp agent: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    if let Some(warning) = server.warning() {
        eprintln!("acp agent: {warning}");
    }
    let server = Arc::new(server);
    let outcome = match address {
        None => {
            if std::io::stdin().is_terminal() {
                eprintln!(
                    "acp agent: speaking ACP on standard input and output, for an editor or another client; to talk to it \
                     here, end this with Ctrl-C and run `acp chat --agent reference`"
                );
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let outcome = runtime.block_on(until_told(&server, async { Ok(server.serve_stdio().await?) }));
            // A search that is still running must not keep the process.
            runtime.shutdown_background();
            outcome
        }
        Some(at) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let serving = async {
                let listener = Listener::bind(at, &LinkSettings::default(), AccessControl::default())?;
                let address = listener.address();
                println!("{}", serde_json::json!({ "listening": address.to_string() }));
                eprintln!("acp agent: listening on {address}");
                server.clone().serve_clients(listener).await;
                Ok(())
            };
            let outcome = runtime.block_on(until_told(&server, serving));
            runtime.shutdown_background();
            outcome
        }
    };
    Ok(ExitCode::from(outcome?))
}

/// Asks each provider once.
fn check(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asking = settings(args).and_then(|settings| {
        Ok(runtime.block_on(provider::check(&settings.choice, &|name| std::env::var(name).ok()))?)
    });
    let checked = match asking {
        Ok(checked) => checked,
        Err(error) => {
            eprintln!("acp agent: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    if checked.is_empty() {
        println!("scripted: answers plain requests, and needs no model");
    }
    let mut code = exit::OK;
    for provider::Checked { provider, model, outcome } in checked {
        let who = if model.is_empty() { provider } else { format!("{provider}, {model}") };
        match outcome {
            Ok(words) => println!("{who}: {words}"),
            Err(error) => {
                println!("{who}: {error}");
                code = exit::FAILED;
            }
        }
    }
    Ok(ExitCode::from(code))
}

/// Serves until the end, or until a signal: then connections and commands end first. A second signal does not wait for that.
async fn until_told(
    server: &AgentServer,
    serving: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<u8> {
    let mut signals = EndSignals::listen().context("cannot listen for signals")?;
    let mut serving = std::pin::pin!(serving);
    let told = tokio::select! {
        ended = &mut serving => return ended.map(|()| exit::OK),
        told = signals.next() => told,
    };
    server.stop();
    tokio::select! {
        ended = serving => ended?,
        () = signals.again() => {}
    }
    Ok(exit::by(told))
}

fn settings(args: &AgentArgs) -> anyhow::Result<AgentServerSettings> {
    if let Some(at) = args.address()?.filter(|at| !at.is_loopback()) {
        anyhow::ensure!(
            args.listen_token.is_some(),
            "{} can be reached from other machines, and whoever connects can use this agent, its files and its commands: \
             set a token with --listen-token or ACP_AGENT_TOKEN, or use a loopback address",
            at.socket.ip()
        );
    }
    Ok(AgentServerSettings {
        path: args.path.clone(),
        debug: args.debug || std::env::var("DEBUG").is_ok_and(|value| value == "1"),
        choice: Choice {
            provider: args.provider.clone(),
            model: args.model.clone(),
            base_url: args.base_url.clone(),
            max_tokens: args.max_tokens.map(NonZeroU64::get),
            context: args.context.map(NonZeroU64::get),
            limits: limits(args)?,
            headers: args.header.clone(),
            fallback: args.fallback.iter().map(|name| Choice::named(name)).collect(),
        },
        allow_edit: args.allow_edit,
        enable_delegate: args.enable_delegate,
        enable_mcp: args.enable_mcp || !args.mcp.is_empty(),
        servers: servers(args)?,
        speak: args.dialect,
        state: state(args),
        policy: args.policy,
        allow: patterns::parse(&args.allow).context("cannot use --allow")?,
        deny: patterns::parse(&args.deny).context("cannot use --deny")?,
        token: args.listen_token.clone(),
        process_guard: ProcessGuard::by_this_program(),
    })
}

/// A header as people write it.
fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write it as 'NAME: VALUE'".to_owned()),
    }
}

/// What the person knows about models.
fn limits(args: &AgentArgs) -> anyhow::Result<Vec<Limit>> {
    let Some(path) = &args.limits else { return Ok(Vec::new()) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read --limits {path:?}"))?;
    Limit::read(&text).with_context(|| format!("cannot use --limits {path:?}"))
}

fn servers(args: &AgentArgs) -> anyhow::Result<Vec<serde_json::Value>> {
    let servers = acp_chat::mcp::servers(&args.mcp)?;
    let sse = servers.iter().any(|server| matches!(server, McpServer::Sse(_)));
    anyhow::ensure!(!sse, "--mcp: this agent has no SSE transport; name a command or an http:// address");
    servers.iter().map(|server| Ok(serde_json::to_value(server)?)).collect()
}

/// Where sessions are kept: as said, or where programs of this system keep such things.
fn state(args: &AgentArgs) -> State {
    if let Some(folder) = &args.state_dir {
        return State::Folder(folder.clone());
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    match base {
        Some(base) if !args.no_state => State::Usually(base.join("acp-workbench").join("agent")),
        _ => State::Memory,
    }
}
