//! What is kept and counted of one conversation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use acp_dialect::{Dialect, Side};
use acp_host::{LinesListener, SaidListener};
use acp_rpc::{Direction, View};
use memchr::memchr_iter;

use crate::journal::{Closed, Decided, Journal, JournalError, Keeper, Opened, What};
use crate::metrics::{Metrics, Value};
use crate::proxy::Outcome;
use crate::settings::Settings;

/// The numbers of a proxy.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    connections: Value,
    active: Value,
    pub(crate) refused: Value,
    pub(crate) agents_failed: Value,
    lines: [Value; 2],
    bytes: [Value; 2],
}

impl Counts {
    pub(crate) fn new(metrics: &Metrics) -> Counts {
        let count = |name, help| metrics.counter(name, help, &[]);
        let by_direction = |name, help| {
            [Direction::ClientToAgent, Direction::AgentToClient]
                .map(|dir| metrics.counter(name, help, &[("dir", dir.as_str())]))
        };
        Counts {
            connections: count("acp_proxy_connections_total", "Clients that came."),
            active: metrics.gauge("acp_proxy_connections", "Clients that are here.", &[]),
            refused: count("acp_proxy_connections_refused_total", "Clients that were turned away."),
            agents_failed: count(
                "acp_proxy_agent_failures_total",
                "Agents that did not start, or ended by themselves.",
            ),
            lines: by_direction("acp_proxy_lines_total", "Lines that came, by direction."),
            bytes: by_direction("acp_proxy_bytes_total", "Bytes that came, by direction."),
        }
    }

    /// One more client, as long as this lives.
    pub(crate) fn connection(&self) -> Counted {
        self.connections.up();
        self.active.up();
        Counted(self.active.clone())
    }
}

/// A client that is here.
pub(crate) struct Counted(Value);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.down();
    }
}

/// The journal of one conversation. A desk decides before the lines that it has passed on are kept; its decisions are kept
/// at once, because the agent has them at once, and say how many lines belong before them. Clones share it.
#[derive(Clone)]
pub(crate) struct Minutes {
    keeper: Keeper,
    /// How many lines of the agent are kept.
    kept: Arc<Mutex<u64>>,
}

impl Minutes {
    /// Keeps a decision that comes after so many lines of the agent.
    pub(crate) fn decided(&self, after: u64, decided: Decided) -> Result<(), JournalError> {
        let kept = self.lock();
        self.keeper.decided(Decided { behind: after.saturating_sub(*kept), ..decided })
    }

    /// Keeps lines of the agent, so many of them.
    fn lines(&self, at: Instant, what: What, count: u64) -> Result<(), JournalError> {
        let mut kept = self.lock();
        self.keeper.lines(at, Direction::AgentToClient, what)?;
        *kept = kept.saturating_add(count);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One conversation.
pub(crate) struct Conduct {
    /// The form in which the agent reaches the relay.
    pub(crate) agent: Dialect,
    journal: Option<(Journal, Minutes)>,
    counts: Option<Counts>,
}

impl Conduct {
    /// A conversation begins. Nothing may be passed on if that cannot be kept.
    pub(crate) fn begin(
        settings: &Settings,
        counts: &Counts,
        number: u64,
        client: Dialect,
        agent: Dialect,
    ) -> Result<Conduct, String> {
        let journal = settings.journal.clone().map(|journal| {
            let keeper = journal.keeper(number, Instant::now());
            (journal, Minutes { keeper, kept: Arc::default() })
        });
        if let Some((journal, _)) = &journal {
            let opened = Opened {
                conversation: number,
                at: format!("{:.3}", jiff::Timestamp::now()),
                agent: settings.agent_name.clone(),
                client_dialect: client.to_string(),
                agent_dialect: agent.to_string(),
                again: false,
            };
            journal.open(opened).map_err(|error| error.to_string())?;
        }
        Ok(Conduct { agent, journal, counts: settings.duties.turns.then(|| counts.clone()) })
    }

    pub(crate) fn minutes(&self) -> Option<Minutes> {
        self.journal.as_ref().map(|(_, minutes)| minutes.clone())
    }

    /// Hears every line before it is passed on. `desked`: a desk decides, so lines are counted.
    pub(crate) fn listener(&self, desked: bool) -> Option<LinesListener> {
        let (minutes, counts) = (self.minutes(), self.counts.clone());
        if minutes.is_none() && counts.is_none() {
            return None;
        }
        Some(Box::new(move |from, at, lines| {
            let (dir, index) = match from {
                Side::Client => (Direction::ClientToAgent, 0),
                Side::Agent => (Direction::AgentToClient, 1),
            };
            let block = lines.ends_with(b"\n");
            let count = || if block { memchr_iter(b'\n', lines).count() as u64 } else { 1 };
            if let Some(counts) = &counts {
                counts.lines[index].add(count());
                counts.bytes[index].add(lines.len() as u64);
            }
            let Some(minutes) = &minutes else { return Ok(()) };
            let what = if block { What::Block(lines.clone()) } else { What::Message(lines.clone()) };
            let kept = match from {
                Side::Agent if desked => minutes.lines(at, what, count()),
                _ => minutes.keeper.lines(at, dir, what),
            };
            kept.map_err(|error| error.to_string())
        }))
    }

    /// Hears what is said to one side in the other one's place.
    pub(crate) fn sayings(&self) -> Option<SaidListener> {
        let minutes = self.minutes()?;
        Some(Box::new(move |to, frame, why| {
            let (asked_by, verdict) = match to {
                Side::Client => (Direction::ClientToAgent, "answered"),
                Side::Agent => (Direction::AgentToClient, "sent"),
            };
            let id = match frame.view() {
                View::Response { id, .. } => id.to_string(),
                _ => String::new(),
            };
            let decided = Decided {
                conversation: 0,
                t: 0,
                dir: asked_by,
                method: frame.method().unwrap_or_default().to_owned(),
                id,
                verdict: verdict.to_owned(),
                reason: why.to_owned(),
                request: String::new(),
                answer: frame.text().unwrap_or_default().to_owned(),
                behind: 0,
            };
            // A journal that cannot be written has been told of.
            let _ = minutes.keeper.decided(decided);
        }))
    }

    /// The conversation is over.
    pub(crate) fn end(&self, outcome: &Outcome) {
        let Some((journal, minutes)) = &self.journal else { return };
        let keeper = &minutes.keeper;
        let outcome = match outcome {
            Outcome::Left => "the client left",
            Outcome::Stopped => "the proxy was told to stop",
            Outcome::AgentFailed(why)
            | Outcome::Refused(why)
            | Outcome::Fault(why)
            | Outcome::Closed(why) => why,
        };
        let closed =
            Closed { conversation: keeper.conversation(), t: keeper.now(), outcome: outcome.to_owned() };
        // A journal that cannot be written has been told of.
        let _ = journal.close(closed);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::journal::{self, conversations};

    #[test]
    fn a_decision_is_kept_at_once_and_read_behind_what_it_is_about() {
        let folder = tempfile::tempdir().expect("a folder");
        let metrics = Metrics::default();
        let kept = journal::Settings::new(folder.path());
        let journal = Journal::create(kept, &metrics, Arc::new(|_: &_| {})).expect("a journal");
        let settings = Settings { journal: Some(journal), ..Settings::default() };
        let conduct = Conduct::begin(&settings, &Counts::new(&metrics), 1, Dialect::V1, Dialect::V1);
        let conduct = conduct.expect("it begins");
        let mut listener = conduct.listener(true).expect("a listener");
        let mut say = |side, lines: &'static str| {
            listener(side, Instant::now(), &Bytes::from_static(lines.as_bytes())).expect("kept");
        };
        let decided = |after| {
            let decided = Decided {
                conversation: 0,
                t: 0,
                dir: Direction::AgentToClient,
                method: "session/request_permission".into(),
                id: "1".into(),
                verdict: "allow".into(),
                reason: "a rule".into(),
                request: "{}".into(),
                answer: "{}".into(),
                behind: 0,
            };
            conduct.minutes().expect("a journal").decided(after, decided).expect("kept");
        };
        let places = || -> Vec<usize> {
            let (found, _) = conversations(folder.path(), None).expect("readable");
            found[0].decided.iter().map(|(before, _)| *before).collect()
        };
        say(Side::Client, "{\"c\":1}\n");
        say(Side::Agent, "{\"a\":1}\n");
        // The desk has passed two more on, and the agent has its answer: kill -9 now, and it is there.
        decided(3);
        assert_eq!(places(), [2]);
        say(Side::Agent, "{\"a\":2}\n{\"a\":3}\n{\"a\":4}\n");
        assert_eq!(places(), [4]);
        decided(4);
        assert_eq!(places(), [4, 5]);
    }
}
