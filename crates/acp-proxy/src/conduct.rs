//! What is kept and counted of one conversation.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use acp_dialect::{Dialect, Side};
use acp_host::LinesListener;
use acp_rpc::Direction;
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

/// The journal of one conversation. A desk decides before the lines that it has passed on are kept, so its decisions wait
/// for those. Clones share it.
#[derive(Clone)]
pub(crate) struct Minutes {
    keeper: Keeper,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    /// How many lines of the agent are kept.
    kept: u64,
    /// Decisions, and how many lines come before them.
    decided: VecDeque<(u64, Decided)>,
}

impl Minutes {
    /// Keeps a decision, as soon as so many lines of the agent are.
    pub(crate) fn decided(&self, after: u64, decided: Decided) -> Result<(), JournalError> {
        let mut waiting = self.lock();
        waiting.decided.push_back((after, decided));
        self.settle(&mut waiting)
    }

    /// So many more lines of the agent are kept.
    fn kept(&self, lines: u64) -> Result<(), JournalError> {
        let mut waiting = self.lock();
        waiting.kept = waiting.kept.saturating_add(lines);
        self.settle(&mut waiting)
    }

    fn settle(&self, waiting: &mut Waiting) -> Result<(), JournalError> {
        let kept = waiting.kept;
        while let Some((_, decided)) = waiting.decided.pop_front_if(|(after, _)| *after <= kept) {
            self.keeper.decided(decided)?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
            (journal, Minutes { keeper, waiting: Arc::default() })
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

    /// Hears every line before it is passed on. `desked`: a desk decides, whose decisions wait for these lines.
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
            let kept = minutes.keeper.lines(at, dir, what);
            let kept = match from {
                Side::Agent if desked => kept.and_then(|()| minutes.kept(count())),
                _ => kept,
            };
            kept.map_err(|error| error.to_string())
        }))
    }

    /// The conversation is over.
    pub(crate) fn end(&self, outcome: &Outcome) {
        let Some((journal, minutes)) = &self.journal else { return };
        // Nothing comes any more that they could wait for.
        let _ = minutes.kept(u64::MAX);
        let keeper = &minutes.keeper;
        let outcome = match outcome {
            Outcome::Left => "the client left",
            Outcome::Stopped => "the proxy was told to stop",
            Outcome::AgentFailed(why) | Outcome::Refused(why) | Outcome::Fault(why) => why,
        };
        let closed =
            Closed { conversation: keeper.conversation(), t: keeper.now(), outcome: outcome.to_owned() };
        // A journal that cannot be written has been told of.
        let _ = journal.close(closed);
    }
}
