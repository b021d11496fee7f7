//! `acp lint FILE…`

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_report::lint::{
    LintFormat, LintSections, LintedTranscript, RedactionSummary, redact_transcript, render,
};
use acp_rules::ConversationEnd;
use anyhow::Context;

use crate::exit;
use crate::out::{self, Whole};

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

impl Format {
    fn of(self) -> LintFormat {
        match self {
            Format::Text => LintFormat::Text,
            Format::Json => LintFormat::Json,
            Format::Sarif => LintFormat::Sarif,
            Format::Junit => LintFormat::Junit,
        }
    }
}

/// Judges transcripts.
pub fn run(args: &LintArgs) -> anyhow::Result<ExitCode> {
    if args.redact {
        return redact(&args.files, args.out.as_deref());
    }
    if let Some(Err(error)) = args.out.as_ref().map(|path| out::check_not_among(path, &args.files)) {
        eprintln!("acp lint: {error}");
        return Ok(ExitCode::from(exit::USAGE));
    }
    let ending = match (args.cut, args.agent_exited) {
        (true, _) => ConversationEnd::Cut,
        (_, true) => ConversationEnd::AgentExited,
        _ if args.waited => ConversationEnd::ClientClosed,
        _ => ConversationEnd::Unknown,
    };
    let mut files: Vec<LintedTranscript> = args.files.iter().map(|file| read(file, ending)).collect();
    if args.quiet {
        files.iter_mut().for_each(LintedTranscript::keep_errors);
    }
    let sections = LintSections { stats: args.stats, coverage: args.coverage };
    out::write(args.out.as_deref(), render(args.format.of(), &files, sections)?)?;
    if args.format != Format::Text || args.out.is_some() {
        for problem in files.iter().flat_map(LintedTranscript::problem_lines) {
            eprintln!("acp lint: {problem}");
        }
    }
    Ok(ExitCode::from(code(&files)))
}

/// 2 when something could not be read, 1 when a requirement that binds is broken, else 0.
fn code(files: &[LintedTranscript]) -> u8 {
    if files.iter().any(LintedTranscript::unreadable) {
        return exit::USAGE;
    }
    if files.iter().any(|file| file.all_errors() > 0) { exit::FAILED } else { exit::OK }
}

/// Reads a file twice: some evidence is known at the end alone. Standard input can be read once.
fn read(path: &Path, ending: ConversationEnd) -> LintedTranscript {
    let name = path.display().to_string();
    let mut source = match open(path) {
        Ok(source) => source,
        Err(error) => return LintedTranscript::unopened(&name, &error),
    };
    let mut read = LintedTranscript::read(&name, &mut source, ending);
    if path != Path::new("-")
        && let Ok(mut source) = open(path)
    {
        read.find_evidence(&mut source);
    }
    read
}

fn open(path: &Path) -> std::io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 18, File::open(path)?)))
}

/// Writes a copy that can be shared.
fn redact(files: &[PathBuf], out: Option<&Path>) -> anyhow::Result<ExitCode> {
    let [file] = files else {
        eprintln!("acp lint: --redact takes one transcript at a time");
        return Ok(ExitCode::from(exit::USAGE));
    };
    let source = match File::open(file) {
        Ok(source) => BufReader::new(source),
        Err(error) => {
            eprintln!("acp lint: {}: cannot open it: {error}", file.display());
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let summary = match out {
        None => match redact_transcript(source, &mut std::io::stdout().lock()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            copied => copied.context("cannot write to standard output")?,
        },
        Some(path) => {
            let mut sink = BufWriter::new(Whole::create(path)?);
            let summary = redact_transcript(source, &mut sink)
                .with_context(|| format!("cannot write {}", path.display()))?;
            if !summary.left_out.is_empty() && out::check_not_among(path, files).is_err() {
                summarize(&summary, file);
                eprintln!("acp lint: {} stays as it is; name another file with --out", path.display());
                return Ok(ExitCode::from(exit::USAGE));
            }
            sink.into_inner().map_err(std::io::IntoInnerError::into_error)?.finish()?;
            summary
        }
    };
    summarize(&summary, file);
    Ok(ExitCode::from(if summary.left_out.is_empty() { exit::OK } else { exit::USAGE }))
}

fn summarize(summary: &RedactionSummary, file: &Path) {
    for number in &summary.left_out {
        eprintln!("acp lint: {}:{number}: cannot be read; left out of the copy", file.display());
    }
    eprintln!(
        "acp lint: {} value{} redacted; texts of prompts and answers stay: read the copy before you share it",
        summary.redacted,
        if summary.redacted == 1 { "" } else { "s" }
    );
}
