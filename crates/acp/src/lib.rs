//! The command line of ACP Workbench.
//!
//! Logic worth a unit test lives in the other crates: here arguments become settings, settings become a
//! call, and what comes back becomes an exit code. Start reading at [`run`], [`Cli`] and [`commands`].

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

#[macro_use]
mod say;

pub mod builtin;
pub mod commands;
pub mod exit;
mod faults;
mod features;
pub mod help;
pub mod out;
pub mod outputs;
pub mod patterns;
pub mod progress;
pub mod settings;
pub mod talk;
pub mod target;
pub mod trouble;

/// Test, run and connect agents of the Agent Client Protocol (ACP)
#[derive(Parser)]
#[command(
    name = "acp",
    version,
    about,
    long_about = None,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    override_help = help::SCREEN
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `acp`.
#[derive(Subcommand)]
pub enum Command {
    /// Test an agent against the protocol and report
    Comply(commands::comply::ComplyArgs),
    /// Test a client against the protocol: start it as a driver says, play its agent, and report
    ComplyClient(commands::comply_client::ComplyClientArgs),
    /// Run an agent that examines the client it runs in, an editor for instance: type /run in the chat
    Exam(commands::exam::ExamArgs),
    /// Show what an agent says about itself: versions, capabilities, logins, modes, commands
    Info(commands::info::InfoArgs),
    /// Set up acp.toml, a list of known failures and a CI job in an agent's repository
    Init(commands::init::InitArgs),
    /// Show what a test does and claims, or what a requirement asks for and which tests check it
    Explain(commands::explain::ExplainArgs),
    /// Show what changed between two compliance runs
    Diff(commands::diff::DiffArgs),
    /// Run named scenarios against an agent
    Harness(commands::harness::HarnessArgs),
    /// Compare what agents can do: capabilities declared and seen, side by side
    Matrix(commands::matrix::MatrixArgs),
    /// List, show, check or copy the built-in test suites
    Suites(commands::suites::SuitesArgs),
    /// Check recorded conversations against the protocol, frame by frame
    Lint(commands::lint::LintArgs),
    /// List what the protocol requires, of whom, and how it is checked
    Requirements(commands::requirements::RequirementsArgs),
    /// Ask an agent one thing and print the answer
    Prompt(commands::prompt::PromptArgs),
    /// Talk with an agent in the terminal
    Chat(commands::chat::ChatArgs),
    /// Send an agent one request or notification by hand and print what comes back
    Call(commands::call::CallArgs),
    /// Run the reference agent: it searches, reads and changes code, with or without a model
    #[cfg(feature = "agent")]
    Agent(commands::agent::AgentArgs),
    /// Play an agent that follows a script or misbehaves on request, over stdio, TCP or WebSocket
    Mock(commands::mock::MockArgs),
    /// Be a client that is driven by lines of JSON, with defects or unusual habits
    #[command(hide = true)]
    ClientMock(commands::client_mock::ClientMockArgs),
    /// Put an agent behind TCP, WebSocket, policies or NATS, and translate between protocol dialects
    Proxy(Box<commands::proxy::ProxyArgs>),
    /// Show a recorded conversation again, or play its agent
    Replay(commands::replay::ReplayArgs),
    /// Submit work to agents behind proxies on NATS, watch it and answer questions
    #[cfg(feature = "nats")]
    Tasks(commands::tasks::TasksArgs),
    /// Run a small MCP server with five tools that logs every request
    #[cfg(feature = "mcp")]
    McpStub(commands::mcp_stub::McpStubArgs),
    /// Run a scripted model that real agents accept in place of a vendor's
    Model(commands::model::ModelArgs),
    /// Find code: search, structural queries, whole blocks of files
    #[cfg(feature = "code")]
    Code(commands::code::CodeArgs),
    /// Check what is installed on this machine: node, npm, python, nats-server, isolation, folders
    Doctor(commands::doctor::DoctorArgs),
    /// List the agents that are known by name, and install them
    Profiles(commands::profiles::ProfilesArgs),
    /// Print a shell completion script
    Completions(commands::completions::CompletionsArgs),
    /// Print a manual page
    Man(commands::man::ManArgs),
    /// Show the help of a command, or list every command
    Help(help::HelpArgs),
}

/// A hidden first argument: whatever this program is called, what follows is a command of `acp`.
pub(crate) const PLAIN: &str = "__acp";

/// Names under which the program is one command: `acpcomply …` is `acp comply --always-markdown …`.
const ALIASES: [(&str, &[&str]); 3] = [
    ("acpcomply", &["comply", "--always-markdown"]),
    ("acp-harness", &["harness"]),
    ("mock-acp-server", &["mock"]),
];

/// Parses the arguments, runs the command and maps what happened to an exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let_readers_go();
    let args: Vec<OsString> = args.into_iter().collect();
    // Hidden: the program also supervises the agents it starts, and holds the process guard of the commands it runs for them.
    let mut own = args.iter().skip(1).cloned();
    let first = own.next();
    if first.as_ref().is_some_and(|word| word == acp_link::supervisor::ARGUMENT) {
        return acp_link::supervisor::main(own);
    }
    if first.as_ref().is_some_and(|word| word == acp_link::process_guard::ARGUMENT) {
        return acp_link::process_guard::main();
    }
    // Also hidden: the agent that a client under test starts, and the terminal that such a client runs in.
    if first.as_ref().is_some_and(|word| word == acp_exam::stub::ARGUMENT) {
        return acp_exam::stub::main(own);
    }
    if first.as_ref().is_some_and(|word| word == acp_exam::terminal::ARGUMENT) {
        return acp_exam::terminal::main(own);
    }
    let args = resolve_alias(args);
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return refuse_usage(&error, &args),
    };
    let outcome = match cli.command {
        Command::Comply(args) => commands::comply::run(&args),
        Command::ComplyClient(args) => commands::comply_client::run(&args),
        Command::Exam(args) => commands::exam::run(&args),
        Command::Info(args) => commands::info::run(&args),
        Command::Init(args) => commands::init::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Diff(args) => commands::diff::run(&args),
        Command::Harness(args) => commands::harness::run(&args),
        Command::Matrix(args) => commands::matrix::run(&args),
        Command::Suites(args) => commands::suites::run(&args),
        Command::Lint(args) => commands::lint::run(&args),
        Command::Requirements(args) => commands::requirements::run(&args),
        Command::Prompt(args) => commands::prompt::run(&args),
        Command::Chat(args) => commands::chat::run(&args),
        Command::Call(args) => commands::call::run(&args),
        #[cfg(feature = "agent")]
        Command::Agent(args) => commands::agent::run(&args),
        Command::Mock(args) => commands::mock::run(&args),
        Command::ClientMock(args) => commands::client_mock::run(&args),
        Command::Proxy(args) => commands::proxy::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        #[cfg(feature = "nats")]
        Command::Tasks(args) => commands::tasks::run(&args),
        #[cfg(feature = "mcp")]
        Command::McpStub(args) => commands::mcp_stub::run(&args),
        Command::Model(args) => commands::model::run(&args),
        #[cfg(feature = "code")]
        Command::Code(args) => commands::code::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Profiles(args) => commands::profiles::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::man::run(&args),
        Command::Help(args) => help::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        if out::reader_left(&error) {
            return ExitCode::from(exit::OK);
        }
        eprintln!("acp: {error:#}");
        ExitCode::from(exit::FAULT)
    })
}

/// The same arguments for `acp`, where the program's own name stands for a command.
fn resolve_alias(mut args: Vec<OsString>) -> Vec<OsString> {
    let called = args.first().map(Path::new).and_then(Path::file_name).map(OsStr::to_owned);
    let is_first = |word: &str| args.get(1).is_some_and(|first| first == word);
    if is_first(PLAIN) {
        args.remove(1);
        args[0] = "acp".into();
        return args;
    }
    let alias = ALIASES.into_iter().find(|(name, _)| called.as_ref().is_some_and(|called| called == name));
    // The stub MCP server is handed to agents under the name of whatever program this is.
    let Some((_, words)) = alias.filter(|_| !is_first("mcp-stub")) else { return args };
    if is_first("--version") || is_first("-V") {
        return args;
    }
    args.splice(..1, ["acp"].iter().chain(words).map(OsString::from));
    args
}

/// Explains what is wrong with the arguments, and names the missing feature where a command needs one.
fn refuse_usage(error: &clap::Error, args: &[OsString]) -> ExitCode {
    let command = args.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    if let (ErrorKind::InvalidSubcommand, Some(feature)) =
        (error.kind(), features::of_absent_command(command))
    {
        eprintln!("acp: {}", features::absent(&format!("acp {command}"), feature));
        return ExitCode::from(exit::USAGE);
    }
    let _ = error.print();
    if let Some(tip) = agent_tip(error, args) {
        eprintln!("\ntip: {tip}");
    }
    ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::OK })
}

/// How to name an agent, for those who wrote its name or its command without a flag.
fn agent_tip(error: &clap::Error, args: &[OsString]) -> Option<String> {
    const TALK_TO_AN_AGENT: [&str; 4] = ["info", "chat", "proxy", "harness"];
    let command = args.get(1)?.to_str().filter(|word| TALK_TO_AN_AGENT.contains(word))?;
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_meant = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    is_meant.then(|| {
        format!("an agent is named with a flag: acp {command} --agent NAME, or acp {command} --command \"python3 agent.py\"")
    })
}

/// What `println!` makes a panic of: a reader that goes away (`acp … | head`) is no error, and a full disk is a fault in
/// words.
fn let_readers_go() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let said = info.payload().downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        match said.strip_prefix("failed printing to stdout: ") {
            None if features::panic_is_expected() => {}
            None => default(info),
            Some(why) if why.contains("Broken pipe") => std::process::exit(i32::from(exit::OK)),
            Some(why) => {
                eprintln!("acp: cannot write to standard output: {why}");
                std::process::exit(i32::from(exit::FAULT));
            }
        }
    }));
}
