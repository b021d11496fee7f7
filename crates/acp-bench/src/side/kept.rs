//! The relay's journal, as the proxy keeps it.

use acp_dialect::Dialect;
use acp_proxy::journal::{Decisions, Journal, JournalObserver, JournalSettings, OpenedRecord, conversations};
use acp_proxy::metrics::Metrics;
use acp_relay::Observers;
use acp_rpc::Direction;

use crate::job::{Job, Kind};

/// A journal in a folder that goes with it.
pub(super) struct Kept {
    journal: Journal,
    folder: tempfile::TempDir,
    client: Dialect,
}

/// The journal of a job that has one.
pub(super) fn journal(job: &Job, client: Dialect) -> anyhow::Result<Option<Kept>> {
    if !matches!(job.kind, Kind::RelayKept | Kind::RelayKeptTranslated) {
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    let log = acp_proxy::ProxyLog::lines(|line| eprintln!("{line}"));
    let journal = Journal::create(JournalSettings::new(folder.path()), &Metrics::default(), log)?;
    Ok(Some(Kept { journal, folder, client }))
}

impl Kept {
    /// Keeps every line before it is passed on.
    pub(super) fn observers(&self) -> anyhow::Result<Observers> {
        let opened = OpenedRecord {
            conversation: 1,
            at: String::new(),
            agent: "bench".to_owned(),
            client_dialect: self.client.to_string(),
            agent_dialect: Dialect::V1.to_string(),
            again: false,
        };
        let observer = JournalObserver::begin(&self.journal, opened, Decisions::Never)?;
        Ok(Observers::new(vec![Box::new(observer)]))
    }

    /// Whether everything is there.
    pub(super) fn check(self, job: &Job) -> anyhow::Result<()> {
        self.journal.finish()?;
        let (found, _) = conversations(self.folder.path(), None)?;
        let spoken = found.iter().flat_map(|found| &found.spoken);
        let agent = spoken.filter(|(_, dir, _)| *dir == Direction::AgentToClient).count();
        let wanted = job.prompts * (job.updates + 1) + 2;
        anyhow::ensure!(agent == wanted, "the journal has {agent} lines of the agent, not {wanted}");
        Ok(())
    }
}
