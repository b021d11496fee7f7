//! The relay's journal, as the proxy keeps it.

use std::time::Instant;

use acp_dialect::Dialect;
use acp_host::LinesListener;
use acp_proxy::journal::{Journal, Opened, Settings, What, conversations};
use acp_proxy::metrics::Metrics;
use acp_rpc::Direction;

use crate::job::{Job, Kind};

/// A journal in a folder that goes with it.
pub(super) struct Kept {
    journal: Journal,
    folder: tempfile::TempDir,
}

/// The journal of a job that has one.
pub(super) fn journal(job: &Job, client: Dialect) -> anyhow::Result<Option<Kept>> {
    if !matches!(job.kind, Kind::RelayKept | Kind::RelayKeptTranslated) {
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    let say = std::sync::Arc::new(|saying: &acp_proxy::Saying<'_>| eprintln!("{saying}"));
    let journal = Journal::create(Settings::new(folder.path()), &Metrics::default(), say)?;
    journal.open(Opened {
        conversation: 1,
        at: String::new(),
        agent: "bench".to_owned(),
        client_dialect: client.to_string(),
        agent_dialect: Dialect::V1.to_string(),
        again: false,
    })?;
    Ok(Some(Kept { journal, folder }))
}

impl Kept {
    /// Keeps every line before it is passed on.
    pub(super) fn listener(&self) -> LinesListener {
        let keeper = self.journal.keeper(1, Instant::now());
        Box::new(move |from, at, lines| {
            let dir = from.sends();
            keeper.lines(at, dir, What::Block(lines.clone())).map_err(|error| error.to_string())
        })
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
