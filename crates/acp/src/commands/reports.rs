//! The reports of a compliance run: files, standard output, the screen.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use acp_comply::Results;
use acp_report::{ReportFormat, ReportOptions};

use crate::outputs::Outputs;
use crate::{out, progress};

/// How the results of a run are reported.
pub struct Reports<'a> {
    /// The reports that were asked for.
    pub outputs: &'a Outputs,
    /// Print the Markdown report on a terminal, too.
    pub always_markdown: bool,
    /// Print only the verdict.
    pub quiet: bool,
    /// Show every test that did not pass, with expected patterns.
    pub verbose: bool,
    /// Hide secrets and home folders.
    pub redact: bool,
    /// The name of the page that is kept for those who asked for no file.
    pub page: &'static str,
}

impl Reports<'_> {
    /// Writes every report that can be written, and says last what could not be. Without a report that was asked for, a person
    /// at a terminal gets the summary and the place of the whole report, and a pipe gets Markdown; `--quiet` prints the verdict
    /// to both.
    pub fn write(&self, results: &Results) -> anyhow::Result<()> {
        let is_screen = std::io::stdout().is_terminal();
        if self.outputs.is_empty() && !self.always_markdown && (is_screen || self.quiet) {
            let options = self.options(&std::io::stdout());
            out::print(acp_report::render(results, ReportFormat::Terminal, options)?)?;
            return if self.quiet { Ok(()) } else { self.keep_page(results) };
        }
        let mut outcome = Ok(());
        let mut told = false;
        for (format, file) in self.outputs.or_markdown() {
            let mut options = self.options(&std::io::stdout());
            options.colour &= file.is_none();
            let text = acp_report::render(results, format, options);
            let written =
                text.map_err(anyhow::Error::from).and_then(|text| out::write(file.as_deref(), text));
            told |= file.is_none() && format == ReportFormat::Terminal && written.is_ok();
            outcome = outcome.and(written);
        }
        // One summary is enough: on a screen, in a log and in a file that takes both streams.
        if !told {
            let options = self.options(&std::io::stderr());
            eprint!("{}", acp_report::render(results, ReportFormat::Terminal, options)?);
        }
        outcome
    }

    fn options(&self, stream: &(impl IsTerminal + AsFd)) -> ReportOptions {
        ReportOptions {
            redact: self.redact,
            colour: progress::colour(stream),
            verbose: self.verbose,
            quiet: self.quiet,
            width: progress::columns(stream),
            height: progress::rows(stream),
        }
    }

    /// Writes the whole report as a page beside the installed agents, for people who did not ask for a file.
    fn keep_page(&self, results: &Results) -> anyhow::Result<()> {
        let folder = acp_campaign::install::cache_folder()?.join("reports");
        let page = acp_report::render(results, ReportFormat::Html, self.options(&std::io::stdout()))?;
        let written = std::fs::create_dir_all(&folder).and_then(|()| {
            let mut open = std::fs::OpenOptions::new();
            let open = open.write(true).create(true).truncate(true).mode(0o600);
            open.open(folder.join(self.page))?.write_all(page.as_bytes())
        });
        match written {
            Ok(()) => eprintln!("full report: {}", folder.join(self.page).display()),
            Err(error) => eprintln!("the full report was not kept: {}: {error}", folder.display()),
        }
        Ok(())
    }
}
