//! `acp mock`, and under another name `mock-acp-server`

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use acp_comply::did_you_mean;
use acp_link::{AccessControl, LinkSettings, ListenAddress, Listener};
use acp_mock::{DialectChoice, Ending, MockServer, MockSettings};
use acp_script::agent::{AgentConfig, AgentLimits, Auth, MessagePace, PromptError, UserHints};
use acp_script::defects::Defect;
use acp_script::faults::{FaultTimeError, Time, parse_spec};
use acp_script::script::AgentScript;
use acp_script::variants::Variant;
use anyhow::Context;

use super::listen::Listen;
use crate::exit;
use crate::outputs::FormatArgs;
use acp_link::process_guard::ProcessGuard;
use acp_link::signals::EndSignals;

/// Arguments of `acp mock`.
#[derive(clap::Args)]
#[command(after_help = crate::help::MOCK)]
pub struct MockArgs {
    /// Where clients come from: stdio, tcp://HOST:PORT or ws://HOST:PORT/acp; port 0 takes any free one, and the address
    /// is printed as a line of JSON. Other than loopback addresses need --listen-token
    #[arg(long, value_name = "WHERE", default_value = "stdio")]
    listen: Listen,
    /// An earlier way to say --listen stdio
    #[arg(long, hide = true, conflicts_with_all = ["port", "listen"])]
    stdio: bool,
    /// An earlier way to say --listen tcp://127.0.0.1:N
    #[arg(long, value_name = "N", hide = true, conflicts_with = "listen")]
    port: Option<u16>,
    /// With --port, another address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", hide = true, requires = "port")]
    bind: IpAddr,
    /// With --port, WebSocket instead of TCP
    #[arg(long, hide = true, requires = "port")]
    websocket: bool,
    /// Let pages of this origin open WebSockets, such as `https://example.org`; other pages are refused
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Ask for permission before every answer
    #[arg(long)]
    send_permissions: bool,
    /// Answer every prompt with an error
    #[arg(long)]
    fail_on_prompt: bool,
    /// The code of that error
    #[arg(long, value_name = "CODE", default_value_t = -32603, allow_negative_numbers = true)]
    fail_code: i64,
    /// What that error says in `data.reason`: timeout, connection_closed, tool_execution_failed or permission_denied
    /// have codes of their own in some forms of the protocol
    #[arg(long, value_name = "REASON")]
    fail_reason: Option<String>,
    /// Wait between two chunks of an answer
    #[arg(long, value_name = "TIME", value_parser = duration)]
    streaming_delay: Option<Duration>,
    /// Wait before a turn's first output
    #[arg(long, value_name = "TIME", value_parser = duration)]
    response_delay: Option<Duration>,
    /// Give plain answers exactly this many chunks
    #[arg(long, value_name = "N")]
    chunks: Option<u32>,
    /// Make chunks this many bytes long
    #[arg(long, value_name = "BYTES")]
    chunk_size: Option<usize>,
    /// At most this many open sessions on one connection
    #[arg(long, value_name = "N")]
    max_sessions: Option<usize>,
    /// Do not offer session/load
    #[arg(long)]
    no_load_session: bool,
    /// Keep sessions in this folder, so that they survive a restart
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Demand authentication before the first session. With a token, clients that connect must show it
    #[arg(long, value_name = "TOKEN", num_args = 0..=1, default_missing_value = "")]
    require_auth: Option<String>,
    /// Clients that connect must show this token, as with --require-auth TOKEN
    #[arg(long, value_name = "TOKEN", value_parser = crate::talk::secret, conflicts_with = "require_auth")]
    listen_token: Option<String>,
    /// Give up a permission request after this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    permission_timeout: Option<Duration>,
    /// Write a transcript of the (first) connection to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Seed for ids and random choices, so that runs can be repeated
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Break the protocol in this known way (several allowed); --list-defects names them
    #[arg(long, value_name = "NAME")]
    defect: Vec<String>,
    /// List the known defects and the requirements that they break; with WORD (an area such as permission, a requirement
    /// such as PERM-03, or any other word) only those about it, each with the prompt that brings it out
    #[arg(long, value_name = "WORD", num_args = 0..=1, default_missing_value = "")]
    list_defects: Option<String>,
    /// With --list-defects or --list-variants: text or json.
    #[command(flatten)]
    format: FormatArgs,
    /// Behave in this unusual but legal way (several allowed); --list-variants names them
    #[arg(long, value_name = "NAME")]
    variant: Vec<String>,
    /// List the legal variants and what allows them
    #[arg(long, conflicts_with = "list_defects")]
    list_variants: bool,
    /// Inject this fault: ACTION[=VALUE][@METHOD][#N], for instance drop@session/update#3, or JSON
    #[arg(long, value_name = "SPEC")]
    fault: Vec<String>,
    /// Follow this script; behave as usual where it says nothing
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Append what the client did to this file, one line of JSON per frame
    #[arg(long, value_name = "FILE", alias = "journal")]
    log: Option<PathBuf>,
    /// Show every frame on standard error
    #[arg(long, short)]
    verbose: bool,
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = speak, help = speak_help())]
    dialect: DialectChoice,
    /// How the mock's permission requests end if the client's dialect has none: reject, allow or cancel
    #[arg(long, value_name = "ANSWER", default_value = "reject")]
    unasked: acp_dialect::Unasked,
}

impl MockArgs {
    /// Where clients come from, however that was said.
    fn listen(&self) -> Listen {
        match self.port.map(|port| SocketAddr::new(self.bind, port)) {
            Some(address) if self.websocket => Listen::Socket(ListenAddress::web_socket(address)),
            Some(address) => Listen::Socket(ListenAddress::tcp(address)),
            None => self.listen,
        }
    }

    /// What is demanded of clients: a login, with a token unless it is empty.
    fn demanded(&self) -> Option<String> {
        self.listen_token.clone().or_else(|| self.require_auth.clone())
    }

    /// The token that clients must show.
    fn token(&self) -> Option<String> {
        self.demanded().filter(|token| !token.is_empty())
    }

    /// Who may open a WebSocket.
    fn access_control(&self) -> AccessControl {
        AccessControl { token: self.token(), origins: self.allow_origin.clone() }
    }
}

/// Serves the mock agent until its input ends, or for ever on a port.
pub fn run(args: &MockArgs) -> anyhow::Result<ExitCode> {
    if let Some(word) = &args.list_defects {
        return list_defects(word, args.format.is_json());
    }
    if args.list_variants {
        return list_variants(args.format.is_json());
    }
    let settings = match settings(args) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("acp mock: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let server = MockServer::new(settings)?;
    let code = match args.listen() {
        Listen::Stdio | Listen::Nobody => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let serving = async {
                Ok(match server.serve_stdio().await? {
                    Ending::Gone => 0,
                    Ending::Unverified => 1,
                    Ending::Exit(code) => code,
                })
            };
            // Without a recording there is nothing to save, and a signal ends it as it ends any program.
            let code = match args.record {
                Some(_) => runtime.block_on(until_told(&server, serving)),
                None => runtime.block_on(serving),
            };
            runtime.shutdown_background();
            code?
        }
        Listen::Socket(at) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let server = Arc::new(server);
            let code = runtime.block_on(until_told(&server, listen(args, at, server.clone())));
            runtime.shutdown_background();
            code?
        }
    };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Serves until the end, or until a signal: then the recording is finished first.
async fn until_told(
    server: &MockServer,
    serving: impl Future<Output = anyhow::Result<i32>>,
) -> anyhow::Result<i32> {
    let mut signals = EndSignals::listen().context("cannot listen for signals")?;
    tokio::select! {
        code = serving => code,
        told = signals.next() => {
            server.finish_record();
            Ok(exit::by(told).into())
        }
    }
}

fn list_defects(word: &str, json: bool) -> anyhow::Result<ExitCode> {
    let catalogue = acp_script::defects::catalogue();
    let found: Vec<&Defect> = catalogue.iter().filter(|defect| is_about(defect, word)).collect();
    if found.is_empty() {
        eprintln!("acp mock: no defect is about {word:?}; without a word, --list-defects names them all");
        return Ok(ExitCode::from(exit::USAGE));
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&found)?);
        return Ok(ExitCode::SUCCESS);
    }
    let width = found.iter().map(|defect| defect.id.len()).max().unwrap_or(0);
    for defect in found {
        println!("{:width$}  {:16}  {}", defect.id, defect.requirements.join(","), defect.title);
        if !word.is_empty() {
            let how = match &defect.wish {
                Some(wish) => format!("prompt: {wish}"),
                None => "shows without a particular prompt".to_owned(),
            };
            println!("{:width$}  {how}", "");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a defect is about a word: in its own words, or by a requirement or the area of one.
fn is_about(defect: &Defect, word: &str) -> bool {
    let (lower, upper) = (word.to_lowercase(), word.to_uppercase());
    let by_area = |requirement: &str| {
        let area = requirement.split('-').next().unwrap_or_default();
        requirement.split('/').next() == Some(&*upper)
            || area == upper
            || (area.len() > 2 && upper.starts_with(area))
    };
    [&defect.id, &defect.title].iter().any(|text| text.to_lowercase().contains(&lower))
        || defect.requirements.iter().any(|requirement| by_area(requirement))
}

fn list_variants(json: bool) -> anyhow::Result<ExitCode> {
    let catalogue = acp_script::variants::catalogue();
    if json {
        println!("{}", serde_json::to_string_pretty(catalogue)?);
        return Ok(ExitCode::SUCCESS);
    }
    let width = catalogue.iter().map(|variant| variant.id.len()).max().unwrap_or(0);
    for variant in catalogue {
        println!("{:width$}  {}", variant.id, variant.title);
    }
    Ok(ExitCode::SUCCESS)
}

async fn listen(args: &MockArgs, at: ListenAddress, server: Arc<MockServer>) -> anyhow::Result<i32> {
    let listener = Listener::bind(at, &LinkSettings::default(), args.access_control())?;
    let address = listener.address();
    println!("{}", serde_json::json!({ "listening": address.to_string() }));
    eprintln!("acp mock: listening on {address}");
    Ok(server.serve_clients(listener).await)
}

/// Who is let in, if the address and the tokens go together.
fn auth(args: &MockArgs) -> anyhow::Result<Auth> {
    let at = args.listen();
    let checks_access = at.address().map(|at| at.checks_access());
    let auth = match (args.demanded(), args.token(), checks_access) {
        (None, _, _) => Auth::SignedIn,
        // Nobody came in without it.
        (_, Some(_), Some(true)) => Auth::SignedIn,
        // Anybody can connect, so that a login without the token must not count.
        (_, Some(token), Some(false)) => Auth::Token(token),
        (_, token, _) => Auth::Required(token),
    };
    if let Some(at) = at.address() {
        anyhow::ensure!(
            at.is_loopback() || args.token().is_some(),
            "{} can be reached from other machines, and whoever connects can have the mock start MCP servers: set a token \
             with --listen-token TOKEN, or use a loopback address",
            at.socket.ip()
        );
    }
    anyhow::ensure!(
        args.allow_origin.is_empty() || checks_access == Some(true),
        "--allow-origin is about WebSockets: use --listen ws://HOST:PORT/acp"
    );
    anyhow::ensure!(at != Listen::Nobody, "--listen takes stdio, tcp://HOST:PORT or ws://HOST:PORT/acp");
    Ok(auth)
}

fn settings(args: &MockArgs) -> anyhow::Result<MockSettings> {
    let mut settings = MockSettings {
        agent: AgentConfig {
            pace: MessagePace {
                streaming_delay: args.streaming_delay.unwrap_or_default(),
                response_delay: args.response_delay.unwrap_or_default(),
                chunks: args.chunks,
                chunk_size: args.chunk_size,
            },
            limits: AgentLimits {
                sessions: args.max_sessions,
                permission: args.permission_timeout,
                ..AgentLimits::default()
            },
            hints: UserHints {
                other_delegate: "; `acp agent --enable-delegate` has".to_owned(),
                other_code: "; `acp agent` has".to_owned(),
                ..UserHints::default()
            },
            load_session: !args.no_load_session,
            auth: auth(args)?,
            send_permissions: args.send_permissions,
            prompt_error: args
                .fail_on_prompt
                .then(|| PromptError { code: args.fail_code, reason: args.fail_reason.clone() }),
            ..AgentConfig::default()
        },
        state_dir: args.state_dir.clone(),
        seed: args.seed,
        record: args.record.clone(),
        faults: Vec::new(),
        switches: Vec::new(),
        speak: args.dialect,
        unasked: args.unasked,
        journal: args.log.clone(),
        verbose: args.verbose,
        process_guard: ProcessGuard::by_this_program(),
    };
    if let Some(path) = &args.script {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read the script {path:?}"))?;
        settings.agent.script =
            Some(AgentScript::parse(&text).with_context(|| format!("cannot use {path:?}"))?);
    }
    let variants: Vec<_> =
        args.variant.iter().map(|name| find_variant(name)).collect::<anyhow::Result<_>>()?;
    settings.add_variants(&variants).context("these variants exclude each other")?;
    for name in &args.defect {
        let defect = acp_script::defects::find(name).with_context(|| {
            let known = acp_script::defects::catalogue().iter().map(|defect| defect.id.as_str());
            let meant = did_you_mean(name, known);
            format!("there is no defect {name:?}{meant} (`acp mock --list-defects` names them)")
        })?;
        settings.add_defect(defect);
    }
    for spec in &args.fault {
        let fault = parse_spec(spec).with_context(|| format!("cannot use --fault {spec:?}"))?;
        crate::faults::warn("acp mock", spec, &fault);
        settings.faults.push(fault);
    }
    Ok(settings)
}

fn find_variant(name: &str) -> anyhow::Result<&'static Variant> {
    acp_script::variants::find(name).with_context(|| {
        let known = acp_script::variants::catalogue().iter().map(|variant| variant.id.as_str());
        let meant = did_you_mean(name, known);
        format!("there is no variant {name:?}{meant} (`acp mock --list-variants` names them)")
    })
}

pub(super) fn speak_help() -> String {
    let choices = acp_dialect::Dialect::choices();
    format!("The protocol dialect to speak: auto (that of the client's first frame), {choices}")
}

pub(super) fn speak(name: &str) -> Result<DialectChoice, String> {
    match name {
        "auto" => Ok(DialectChoice::Auto),
        name => name
            .parse()
            .map(DialectChoice::Only)
            .map_err(|error: acp_dialect::UnknownDialect| format!("{error}, or auto")),
    }
}

fn duration(text: &str) -> Result<Duration, FaultTimeError> {
    Time::parse(text).map(|time| time.0)
}
