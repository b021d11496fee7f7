//! Where a proxy keeps its conversations.

use std::path::PathBuf;
use std::time::Duration;

use acp_proxy::ProxyLog;
use acp_proxy::journal::{self, Journal, JournalSettings, OnFailure, Sync};
use acp_proxy::metrics::Metrics;
use anyhow::Context;

use crate::talk::duration;

use super::operation::size;

/// The flags for that.
#[derive(clap::Args, Debug)]
pub struct JournalArgs {
    /// Keep every conversation in this folder (without it, in $XDG_STATE_HOME/acp/journal or
    /// ~/.local/state/acp/journal); acp replay shows them again
    #[arg(long, value_name = "DIR", help_heading = "Journal")]
    journal: Option<PathBuf>,
    /// Keep no journal
    #[arg(long, conflicts_with = "journal", help_heading = "Journal")]
    no_journal: bool,
    /// When to force the journal to disk: always (before a line is passed on), system (when the system does it), or
    /// at an interval such as 1s. A killed proxy loses nothing in any case
    #[arg(long, value_name = "WHEN", default_value = "1s", value_parser = sync, help_heading = "Journal")]
    journal_sync: Sync,
    /// What to do if the journal cannot be written: stop (pass on nothing that is not recorded) or continue (count
    /// and report what is missing)
    #[arg(long, value_name = "WHAT", default_value = "stop", value_parser = on_failure, help_heading = "Journal")]
    journal_full: OnFailure,
    /// Start a new segment after this many bytes
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size, help_heading = "Journal")]
    journal_segment: usize,
    /// Start a new segment after this long
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration, help_heading = "Journal")]
    journal_age: Duration,
    /// Remove finished segments this long after their last record
    #[arg(long, value_name = "TIME", default_value = "168h", value_parser = duration, help_heading = "Journal")]
    journal_keep: Duration,
}

impl JournalArgs {
    /// Begins the journal. `otherwise`: whether conversations are kept elsewhere, and only a folder that is named is
    /// used.
    pub fn begin(
        &self,
        otherwise: bool,
        metrics: &Metrics,
        log: &ProxyLog,
    ) -> anyhow::Result<Option<Journal>> {
        if self.no_journal || (otherwise && self.journal.is_none()) {
            return Ok(None);
        }
        let folder = self.journal.clone().or_else(journal::default_folder).context(
            "there is no place for the journal: neither XDG_STATE_HOME nor HOME is set; use --journal DIR or --no-journal",
        )?;
        let settings = JournalSettings {
            segment_bytes: self.journal_segment as u64,
            segment_age: self.journal_age,
            keep: self.journal_keep,
            sync: self.journal_sync,
            on_failure: self.journal_full,
            ..JournalSettings::new(folder)
        };
        let place = settings.folder.display().to_string();
        let journal = Journal::create(settings, metrics, log.clone())?;
        if self.journal.is_none() {
            let words = format!("journal: {} (--no-journal turns it off)", acp_text::line(&place));
            log.info(&words);
        }
        Ok(Some(journal))
    }
}

fn sync(word: &str) -> Result<Sync, String> {
    match word {
        "always" => Ok(Sync::Always),
        "system" => Ok(Sync::System),
        time => match duration(time) {
            Ok(period) if !period.is_zero() => Ok(Sync::Every(period)),
            _ => Err("use always, system, or a time, for instance 1s".to_owned()),
        },
    }
}

fn on_failure(word: &str) -> Result<OnFailure, String> {
    match word {
        "stop" => Ok(OnFailure::Stop),
        "continue" => Ok(OnFailure::GoOn),
        _ => Err("use stop or continue".to_owned()),
    }
}
