//! What happened while a session was opened, to be shown afterwards.

use std::collections::VecDeque;

use acp_host::ClientEvent;

/// The newest events: how long the history of a session is, its agent decides.
#[derive(Debug, Default)]
pub struct ChatHistory {
    events: VecDeque<(ClientEvent, usize)>,
    bytes: usize,
    dropped: usize,
}

impl ChatHistory {
    /// So much is kept.
    const MOST_BYTES: usize = 32 << 20;
    /// What an event takes besides its frame.
    const EACH: usize = 512;

    /// Keeps an event.
    pub fn push(&mut self, event: ClientEvent) {
        let bytes = Self::EACH
            + match &event {
                // The frame, and what was read of it.
                ClientEvent::Update(update) => 2 * update.frame.raw().len(),
                ClientEvent::Notification(frame) | ClientEvent::Violation(_, frame) => frame.raw().len(),
                ClientEvent::Decision(_) | ClientEvent::Closed(..) => 0,
            };
        self.bytes += bytes;
        self.events.push_back((event, bytes));
        while self.bytes > Self::MOST_BYTES
            && let Some((_, bytes)) = self.events.pop_front()
        {
            self.bytes -= bytes;
            self.dropped += 1;
        }
    }

    /// The events that were kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &ClientEvent> {
        self.events.iter().map(|(event, _)| event)
    }

    /// Words about what was not kept.
    pub fn gap(&self) -> Option<String> {
        (self.dropped > 0).then(|| format!("({} earlier events are not shown)", self.dropped))
    }
}
