//! `acp code`

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
#[cfg(feature = "mcp")]
use std::sync::Arc;
use std::time::Duration;

use acp_code::{CodeError, Engine, ResultFormat, StopSignal, extract, query, render, search};
#[cfg(feature = "mcp")]
use anyhow::Context as _;

use crate::exit;

#[cfg(feature = "mcp")]
mod server;

/// So much of standard input is looked at.
const MENTIONS: u64 = 16 << 20;

/// Arguments of `acp code`.
#[derive(clap::Args)]
#[command(after_help = crate::help::CODE)]
pub struct CodeArgs {
    /// What to do.
    #[command(subcommand)]
    command: Tool,
}

#[derive(clap::Subcommand)]
enum Tool {
    /// Search whole blocks of code, best first, or list every line with a text
    Search(SearchArgs),
    /// Find what matches a piece of code with placeholders, such as `foo($A, $$$REST)`
    Query(QueryArgs),
    /// Print whole blocks: `file`, `file:10`, `file:10-20`, `file#Symbol`, `file#Type.method`
    Extract(ExtractArgs),
    /// Serve the three tools to a model, as an MCP server on standard input and output
    #[cfg(feature = "mcp")]
    Mcp(McpArgs),
}

/// What all tools share.
#[derive(clap::Args)]
struct Common {
    /// The project's folder; nothing outside of it is read
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
    /// Leave out test code, recognized by its syntax and by common file names
    #[arg(long)]
    no_tests: bool,
    /// Stop after this long with what was found until then, for instance 5s
    #[arg(long, value_name = "TIME", value_parser = crate::talk::duration)]
    timeout: Option<Duration>,
    /// How the answer is written
    #[arg(long, value_enum, default_value_t = Form::Plain)]
    format: Form,
}

#[derive(clap::Args)]
struct SearchArgs {
    /// Words, AND/OR/NOT, +/-, "phrase", parentheses, file: ext: dir: lang:
    #[arg(allow_hyphen_values = true, value_parser = no_flag)]
    query: String,
    /// A file or folder inside --path
    #[arg(value_name = "IN")]
    place: Option<String>,
    /// Take the query as one literal and list every line that has it
    #[arg(long)]
    exact: bool,
    /// At most this many results on a page, or `all`
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_most)]
    max_results: usize,
    /// At most this many tokens on a page, counting four bytes as a token
    #[arg(long, value_name = "N", value_parser = count)]
    max_tokens: Option<usize>,
    /// Which page of results
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    page: u32,
    /// Also search files that .gitignore and similar files exclude
    #[arg(long)]
    no_ignore: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct QueryArgs {
    /// Code with holes: `$NAME` for one node, `$$$NAME` for any number
    #[arg(allow_hyphen_values = true, value_parser = no_flag)]
    pattern: String,
    /// A file or folder inside --path
    #[arg(value_name = "IN")]
    place: Option<String>,
    /// The pattern's language; without it, each file's own
    #[arg(long, short, value_name = "NAME")]
    language: Option<String>,
    /// The most matches, or `all`
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_most)]
    max_results: usize,
    /// Also search files that .gitignore and similar files exclude
    #[arg(long)]
    no_ignore: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct ExtractArgs {
    /// What to take, relative to --path; `-` or nothing takes what a text on standard input mentions (a compiler's
    /// errors, a stack trace, a diff)
    #[arg(value_name = "PIECE")]
    pieces: Vec<String>,
    /// This many lines more on both sides
    #[arg(long, value_name = "N", default_value_t = 0)]
    context_lines: usize,
    #[command(flatten)]
    common: Common,
}

#[cfg(feature = "mcp")]
#[derive(clap::Args)]
struct McpArgs {
    /// The project's folder; nothing outside of it is read
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
    /// Each call stops after this long with what was found until then
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::talk::duration)]
    timeout: Duration,
    /// Also search files that .gitignore and similar files exclude
    #[arg(long)]
    no_ignore: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Form {
    Plain,
    Markdown,
    Json,
}

/// Runs one tool: exit code 0 when something was found, 1 when nothing was, 2 for a wrong request.
pub fn run(args: &CodeArgs) -> anyhow::Result<ExitCode> {
    let ran = match &args.command {
        Tool::Search(args) => searched(args),
        Tool::Query(args) => queried(args),
        Tool::Extract(args) => extracted(args),
        #[cfg(feature = "mcp")]
        Tool::Mcp(args) => return served(args),
    };
    match ran {
        Ok((text, found)) => {
            // Programs get the code as it is, people what they can see of it.
            let text = if std::io::stdout().is_terminal() { acp_text::block(&text) } else { text };
            crate::out::print(text)?;
            Ok(ExitCode::from(if found { exit::OK } else { exit::FAILED }))
        }
        Err(error) => {
            eprintln!("acp code: {error}");
            Ok(ExitCode::from(exit::USAGE))
        }
    }
}

fn searched(args: &SearchArgs) -> Result<(String, bool), CodeError> {
    let common = &args.common;
    let engine = Engine::new(&common.path)?.with_ignored(args.no_ignore);
    let mut request = search::SearchRequest {
        query: args.query.clone(),
        path: args.place.clone(),
        max_results: args.max_results,
        allow_tests: !common.no_tests,
        exact: args.exact,
        session: Some("command line".to_owned()),
        next_page: false,
        max_tokens: args.max_tokens,
    };
    let mut results = engine.search(&request, &common.stop())?;
    request.next_page = true;
    for _ in 1..args.page {
        if !results.more {
            results.results.clear();
            break;
        }
        results = engine.search(&request, &common.stop())?;
    }
    Ok((render::search(&results, common.format.into()), !results.results.is_empty()))
}

fn queried(args: &QueryArgs) -> Result<(String, bool), CodeError> {
    let common = &args.common;
    let engine = Engine::new(&common.path)?.with_ignored(args.no_ignore);
    let request = query::QueryRequest {
        pattern: args.pattern.clone(),
        path: args.place.clone(),
        language: args.language.clone(),
        max_results: args.max_results,
        allow_tests: !common.no_tests,
    };
    let results = engine.query(&request, &common.stop())?;
    Ok((render::query(&results, common.format.into()), results.total > 0))
}

fn extracted(args: &ExtractArgs) -> Result<(String, bool), CodeError> {
    let common = &args.common;
    let engine = Engine::new(&common.path)?;
    let request = extract::ExtractRequest {
        files: pieces(args, &engine)?,
        context_lines: args.context_lines,
        allow_tests: !common.no_tests,
        format: common.format.into(),
    };
    let results = engine.extract(&request, &common.stop())?;
    Ok((render::extract(&results, request.format), results.failed == 0 && !results.truncated))
}

/// The pieces that were named, with those that standard input mentions in place of `-`.
fn pieces(args: &ExtractArgs, engine: &Engine) -> Result<Vec<String>, CodeError> {
    let refused = |what: String| CodeError::Request { tool: "extract", what };
    let is_input = |piece: &String| piece == "-";
    if !args.pieces.is_empty() && !args.pieces.iter().any(is_input) {
        return Ok(args.pieces.clone());
    }
    if args.pieces.is_empty() && std::io::stdin().is_terminal() {
        let what = "name a piece, such as src/main.rs:10, or pipe in a text that mentions some".to_owned();
        return Err(refused(what));
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MENTIONS).read_to_end(&mut bytes);
    read.map_err(|error| refused(format!("cannot read standard input: {error}")))?;
    let found = extract::mentioned(&String::from_utf8_lossy(&bytes), |file| engine.has_file(file));
    if found.is_empty() && args.pieces.iter().all(is_input) {
        return Err(refused("standard input mentions no file that is here".to_owned()));
    }
    let named = args.pieces.iter().filter(|piece| !is_input(piece)).cloned();
    Ok(named.chain(found).collect())
}

#[cfg(feature = "mcp")]
fn served(args: &McpArgs) -> anyhow::Result<ExitCode> {
    let engine = match Engine::new(&args.path) {
        Ok(engine) => engine.with_ignored(args.no_ignore),
        Err(error) => {
            eprintln!("acp code: {error}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let tools = Arc::new(server::CodeTools { engine: Arc::new(engine), limit: args.timeout });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(acp_mcp::serve_tools(tools));
    // A blocking read of standard input may still be under way; it must not hold the process back.
    runtime.shutdown_background();
    served.context("cannot serve on standard input and output").map(|_| ExitCode::SUCCESS)
}

impl Common {
    fn stop(&self) -> StopSignal {
        self.timeout.map_or_else(StopSignal::never, StopSignal::after)
    }
}

impl From<Form> for ResultFormat {
    fn from(form: Form) -> Self {
        match form {
            Form::Plain => Self::Plain,
            Form::Markdown => Self::Markdown,
            Form::Json => Self::Json,
        }
    }
}

/// What is looked for may begin with a dash; `--word` is a flag with a slip in it, except behind a `--`.
fn no_flag(text: &str) -> Result<String, String> {
    let is_flag = text.strip_prefix("--").is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    if is_flag && !std::env::args().any(|argument| argument == "--") {
        return Err("there is no such flag; if it is what to look for, write `--` before it".to_owned());
    }
    Ok(text.to_owned())
}

fn at_most(text: &str) -> Result<usize, String> {
    match text {
        "all" => Ok(usize::MAX),
        _ => text
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| format!("{text:?} is neither a number from 1 nor `all`")),
    }
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| format!("{text:?} is not a number from 1"))
}
