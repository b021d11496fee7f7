//! `--format`: text or JSON, or, for reports, several at once (an `--out` belongs to the `--format` before it).

use std::path::PathBuf;

use acp_report::ReportFormat;
use clap::{Arg, ArgAction, ArgMatches};

/// How a command prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// `--format text|json`, and `--json` as it was spelled before.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct FormatArgs {
    /// text for people, or json for programs
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: OutputFormat,
    #[arg(long, hide = true)]
    json: bool,
}

impl FormatArgs {
    /// Whether a program reads the output.
    pub fn is_json(self) -> bool {
        self.json || self.format == OutputFormat::Json
    }
}

/// The reports to write: a format, and a file or standard output.
#[derive(Debug, Clone, Default)]
pub struct Outputs(Vec<(ReportFormat, Option<PathBuf>)>);

impl Outputs {
    /// Whether no report was asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a report of this format was asked for.
    pub fn has(&self, format: ReportFormat) -> bool {
        self.0.iter().any(|(asked, _)| *asked == format)
    }

    /// The reports, or markdown on standard output when none was asked for.
    pub fn or_markdown(&self) -> Vec<(ReportFormat, Option<PathBuf>)> {
        if self.0.is_empty() { vec![(ReportFormat::Markdown, None)] } else { self.0.clone() }
    }

    /// Finds out whether all files can be written, before the work is done.
    pub fn check(&self) -> anyhow::Result<()> {
        self.0.iter().filter_map(|(_, file)| file.as_deref()).try_for_each(crate::out::check)
    }
}

impl clap::Args for Outputs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let names: Vec<&'static str> = ReportFormat::ALL.iter().map(|(name, _)| *name).collect();
        command
            .arg(
                Arg::new("format")
                    .long("format")
                    .value_name("FORMAT")
                    .action(ArgAction::Append)
                    .value_parser(clap::builder::PossibleValuesParser::new(names))
                    .help_heading("Reports")
                    .help("Write this report (several allowed; without it a summary on a terminal, markdown elsewhere)"),
            )
            .arg(
                Arg::new("out")
                    .long("out")
                    .value_name("FILE")
                    .action(ArgAction::Append)
                    .value_parser(clap::value_parser!(PathBuf))
                    .help_heading("Reports")
                    .help("Write the --format before it to this file instead of standard output"),
            )
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Outputs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let places =
            |name: &str| matches.indices_of(name).map(Iterator::collect::<Vec<_>>).unwrap_or_default();
        let formats = matches.get_many::<String>("format").unwrap_or_default();
        let mut found: Vec<(usize, ReportFormat, Option<PathBuf>)> = places("format")
            .into_iter()
            .zip(formats)
            .filter_map(|(at, name)| Some((at, ReportFormat::from_name(name)?, None)))
            .collect();
        let files = matches.get_many::<PathBuf>("out").unwrap_or_default();
        for (at, file) in places("out").into_iter().zip(files) {
            let Some(format) = found.iter_mut().rev().find(|(format_at, _, _)| *format_at < at) else {
                if found.is_empty() {
                    found.push((at, ReportFormat::Markdown, Some(file.clone())));
                    continue;
                }
                return Err(clap::Error::raw(
                    clap::error::ErrorKind::ArgumentConflict,
                    format!(
                        "--out {} stands before any --format; write --format F --out FILE\n",
                        file.display()
                    ),
                ));
            };
            if format.2.is_some() {
                return Err(clap::Error::raw(
                    clap::error::ErrorKind::ArgumentConflict,
                    format!(
                        "--out {} has no --format of its own; write --format F --out FILE\n",
                        file.display()
                    ),
                ));
            }
            format.2 = Some(file.clone());
        }
        Ok(Outputs(found.into_iter().map(|(_, format, file)| (format, file)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
