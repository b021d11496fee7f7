//! Where a publisher takes its place in the stream: after a connection came, and whenever something went wrong.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::super::hub::LastEvent;
use super::{Publisher, RETRY_PAUSE, State};
use crate::error::StoreError;
use tracing::Level;

impl Publisher {
    /// Looks at what is stored, and goes on after it.
    pub(super) async fn sync(&mut self) {
        self.flight.give_up();
        match self.look().await {
            Ok(true) => (self.state, self.placed) = (State::Probing, true),
            Ok(false) => self.fence(),
            Err(why) => {
                let words = format!("cannot look at what NATS has stored: {why}; trying again");
                self.shared.say_once(Level::WARN, &words);
                self.shared.look_after_streams();
                self.retry = Some(Instant::now() + RETRY_PAUSE);
            }
        }
    }

    /// Whether the session is ours to go on with.
    async fn look(&mut self) -> Result<bool, StoreError> {
        match self.shared.last_event(&self.subject).await? {
            // Nothing is stored any more, which is not somebody else's doing as far as the session goes: the stream
            // was trimmed, purged or made anew.
            None => self.last = 0,
            Some(last) if last.epoch == self.epoch => {
                self.claimed = true;
                return self.mend(last).await;
            }
            // What a crash has left is older than what somebody else has stored since they took the session over.
            Some(last) if self.claimed || (self.resumed && last.epoch > self.epoch) => return Ok(false),
            Some(last) => {
                // Of an epoch that a crash has left, or of what went out before the connection broke, something may be
                // stored before what somebody else stored since.
                if (self.resumed || self.tried)
                    && self.shared.stored_of(&self.subject, self.epoch, last.sequence).await?
                {
                    return Ok(false);
                }
                self.last = last.sequence;
            }
        }
        Ok(true)
    }

    /// What is stored must be a beginning of what was sent. It may not be: what was already handed to the connection when
    /// it broke is lost, while what still waited for its turn goes out over the next one; and a cluster that changes its
    /// leader may take a message after it has missed the one before. What came too early is removed, and sent again in
    /// its place.
    async fn mend(&mut self, last: LastEvent) -> Result<bool, StoreError> {
        let first = self.pending.front().map_or(self.seq + 1, |line| line.seq);
        if last.seq < first {
            self.last = last.sequence;
            self.stored(last.seq);
            return Ok(true);
        }
        let (mut next, mut sequence, mut from) = match self.placed {
            true => (first, self.last, self.last + 1),
            false => self.beginning(first, last).await?,
        };
        let mut early = Vec::new();
        while from <= last.sequence {
            let Some(found) = self.shared.event_from(&self.subject, from).await? else { break };
            if found.epoch != self.epoch {
                return Ok(false);
            }
            if early.is_empty() && found.seq == next {
                (next, sequence) = (next + 1, found.sequence);
            } else {
                early.push(found.sequence);
            }
            from = found.sequence + 1;
        }
        if !early.is_empty() {
            // First, since whoever removes may never hear that it was done.
            self.flight.rename();
            self.shared.remove_events(&early).await?;
            let words = format!(
                "{} events of session {:?} were stored before others that were lost on the way; they are sent again, in order",
                early.len(),
                self.session
            );
            self.shared.say(Level::WARN, &words);
        }
        self.last = sequence;
        // What a crash has left was stored by another process.
        if self.placed {
            self.shared.counts.stored.fetch_add(next - first, Ordering::Relaxed);
        }
        self.stored(next - 1);
        Ok(true)
    }

    /// Where to begin to compare what is stored with what a crash has left, whose place nobody knows: the number and the
    /// place of an event before which nothing is missing. Only what was on its way at once can have overtaken other events.
    async fn beginning(&self, first: u64, last: LastEvent) -> Result<(u64, u64, u64), StoreError> {
        let reach = 4 * self.shared.window as u64;
        let wanted = (self.epoch, first.saturating_sub(1).max(last.seq.saturating_sub(reach)));
        let (mut from, mut until, mut found) = (1, last.sequence, last);
        while from < until {
            let middle = from.midpoint(until);
            match self.shared.event_from(&self.subject, middle).await? {
                Some(event) if (event.epoch, event.seq) < wanted => from = event.sequence + 1,
                Some(event) => (until, found) = (middle, event),
                None => until = middle,
            }
        }
        Ok((found.seq, found.sequence, found.sequence))
    }

    fn fence(&mut self) {
        self.shared.counts.fenced.fetch_add(1, Ordering::Relaxed);
        self.put_aside(&format!("another proxy has taken over session {:?}", self.session));
    }

    /// Nothing more of the session is sent; what is not stored is kept.
    pub(super) fn put_aside(&mut self, why: &str) {
        self.state = State::Fenced;
        self.flight.give_up();
        self.discount(self.unstored);
        self.pending.clear();
        self.unwritten.clear();
        self.held = 0;
        self.ends.clear();
        self.waiter = None;
        let aside = self.spool.put_aside();
        let kept =
            aside.map_or_else(String::new, |path| format!("; what was not stored is in {}", path.display()));
        self.shared.say(Level::ERROR, &format!("{why}: nothing more of it is sent{kept}"));
    }
}
