//! `acp lint FILE…`

mod json;
mod junit;
mod read;
mod redact;
mod sarif;
mod shape;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use acp_rules::{ConversationEnd, Severity};

use crate::exit;
use read::Judged;

/// Arguments of `acp lint`.
#[derive(clap::Args)]
#[command(after_help = crate::help::LINT)]
pub struct LintArgs {
    /// Transcripts: lines of {"t","dir","line"} or {"t","dir","frame"}; `-` is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How to print what was found: text for people, json with everything, sarif (2.1.0) for code hosts and editors,
    /// or junit with one case for each requirement that the conversation exercised
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text, hide_possible_values = true)]
    format: Format,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Add latency per method, sizes, time to the first chunk and turn lengths
    #[arg(long)]
    stats: bool,
    /// Add which requirements the conversation exercised
    #[arg(long)]
    coverage: bool,
    /// Leave out warnings and notes
    #[arg(long, short)]
    quiet: bool,
    /// The recording is incomplete: do not report what is missing at its end
    #[arg(long, conflicts_with_all = ["agent_exited", "waited"])]
    cut: bool,
    /// The conversation ended because the agent exited
    #[arg(long)]
    agent_exited: bool,
    /// The client waited for every answer: report missing ones as errors instead of warnings
    #[arg(long, conflicts_with = "agent_exited")]
    waited: bool,
    /// Write a copy without known secrets, home folders and file contents instead; read it before you share it
    #[arg(long)]
    redact: bool,
}

/// The ways to print findings.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Sarif,
    Junit,
}

/// Judges transcripts.
pub fn run(args: &LintArgs) -> anyhow::Result<ExitCode> {
    if args.redact {
        return redact::run(&args.files, args.out.as_deref());
    }
    if let Some(Err(error)) = args.out.as_ref().map(|path| crate::out::check_not_among(path, &args.files)) {
        eprintln!("acp lint: {error}");
        return Ok(ExitCode::from(exit::USAGE));
    }
    let ending = match (args.cut, args.agent_exited) {
        (true, _) => ConversationEnd::Cut,
        (_, true) => ConversationEnd::AgentExited,
        _ if args.waited => ConversationEnd::ClientClosed,
        _ => ConversationEnd::Unknown,
    };
    let mut judged: Vec<Judged> = args.files.iter().map(|file| read::judge(file, ending)).collect();
    // It quotes what was said.
    for shown in judged.iter_mut().flat_map(|file| &mut file.findings) {
        shown.finding.message = acp_text::line(&shown.finding.message);
    }
    if args.quiet {
        for file in &mut judged {
            file.findings.retain(|shown| shown.finding.severity == Severity::Error);
        }
    }
    let mut buffer = Vec::new();
    match args.format {
        Format::Text => text::write(&mut buffer, &judged, args.stats, args.coverage)?,
        Format::Json => json::write(&mut buffer, &judged, args.stats, args.coverage)?,
        Format::Sarif => sarif::write(&mut buffer, &judged)?,
        Format::Junit => junit::write(&mut buffer, &judged)?,
    }
    let text = String::from_utf8_lossy(&buffer);
    let text = match args.format {
        Format::Json | Format::Sarif => acp_text::json(&text).into_owned(),
        Format::Text | Format::Junit => acp_text::block(&text),
    };
    crate::out::write(args.out.as_deref(), text)?;
    if args.format != Format::Text || args.out.is_some() {
        for problem in judged.iter().flat_map(Judged::problem_lines) {
            eprintln!("acp lint: {problem}");
        }
    }
    Ok(ExitCode::from(code(&judged)))
}

/// 2 when something could not be read, 1 when a requirement that binds is broken, else 0.
fn code(judged: &[Judged]) -> u8 {
    if judged.iter().any(Judged::unreadable) {
        return exit::USAGE;
    }
    if judged.iter().any(|file| file.all_errors() > 0) { exit::FAILED } else { exit::OK }
}
