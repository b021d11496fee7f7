//! Reports: results in, text out.
//!
//! Compliance reports are made from the one results model of `acp-comply` ([`Results`]); none runs anything, reads a
//! clock or knows a protocol method. Secrets and home folders are taken out first unless the caller says not to. [`lint`]
//! reads recorded conversations and shows what the judge found in them.
//!
//! Read first: [`ReportFormat`], [`render`], [`diff::Diff`].
#![deny(clippy::disallowed_methods)]

use acp_comply::Results;

mod badge;
mod calibration;
pub mod diff;
mod html;
mod junit;
pub mod lint;
mod markdown;
pub mod matrix;
mod redact;
pub mod sarif;
mod shown;
mod summary;
mod table;
mod tap;
mod terminal;

pub use calibration::calibration;
pub use redact::{redact_results, redact_text};

/// The forms a report can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// One header per agent, one section per test, no table.
    Markdown,
    /// One row per compliance area, one column per agent, numbered notes, a summary per agent.
    Table,
    /// The results model itself.
    Json,
    /// For continuous integration services.
    Junit,
    /// Test Anything Protocol, version 14.
    Tap,
    /// One self-contained page.
    Html,
    /// SARIF 2.1.0, for code hosts and editors.
    Sarif,
    /// A short summary for people at a terminal.
    Terminal,
    /// The JSON that badge services read.
    Badge,
}

impl ReportFormat {
    /// All formats, by the names used on the command line.
    pub const ALL: [(&'static str, ReportFormat); 9] = [
        ("markdown", ReportFormat::Markdown),
        ("table", ReportFormat::Table),
        ("json", ReportFormat::Json),
        ("junit", ReportFormat::Junit),
        ("tap", ReportFormat::Tap),
        ("html", ReportFormat::Html),
        ("sarif", ReportFormat::Sarif),
        ("terminal", ReportFormat::Terminal),
        ("badge", ReportFormat::Badge),
    ];

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<ReportFormat> {
        ReportFormat::ALL.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }
}

/// How to render.
#[derive(Debug, Clone, Copy)]
pub struct ReportOptions {
    /// Take secrets and home folders out.
    pub redact: bool,
    /// Use ANSI colours where the format has them.
    pub colour: bool,
    /// Show what only those need who write tests: the patterns that were expected.
    pub verbose: bool,
    /// Say no more than the verdict, where the format is for people.
    pub quiet: bool,
    /// How many columns the screen has, for formats that are shown on one.
    pub width: Option<usize>,
    /// How many lines the screen has: a summary is cut to fit, unless it is verbose.
    pub height: Option<usize>,
}

impl Default for ReportOptions {
    fn default() -> ReportOptions {
        ReportOptions { redact: true, colour: false, verbose: false, quiet: false, width: None, height: None }
    }
}

/// A report that could not be made; always a fault of ours.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The results could not be written as JSON.
    #[error("cannot write the results as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The results could not be written in the results model's own form.
    #[error(transparent)]
    Results(#[from] acp_comply::ResultsError),
    /// The JUnit writer refused.
    #[error("cannot write the JUnit report: {0}")]
    Junit(#[from] quick_junit::SerializeError),
    /// The page's template refused.
    #[error("cannot write the page: {0}")]
    Html(#[from] minijinja::Error),
}

/// Renders results in one format. The text ends in a newline.
pub fn render(
    results: &Results,
    format: ReportFormat,
    options: ReportOptions,
) -> Result<String, ReportError> {
    let redacted;
    let results = if options.redact {
        redacted = redact_results(results)?;
        &redacted
    } else {
        results
    };
    if format == ReportFormat::Json {
        return Ok(acp_text::json(&results.to_json()?).into_owned());
    }
    let results = &shown::harmless(results, format)?;
    Ok(match format {
        ReportFormat::Markdown => markdown::render(results, options.verbose),
        ReportFormat::Table => table::render(results),
        ReportFormat::Json => results.to_json()?,
        ReportFormat::Junit => junit::render(results)?,
        ReportFormat::Tap => tap::render(results),
        ReportFormat::Html => html::render(results)?,
        ReportFormat::Sarif => sarif::render(results)?,
        ReportFormat::Terminal => terminal::render(results, options),
        ReportFormat::Badge => badge::render(results)?,
    })
}
