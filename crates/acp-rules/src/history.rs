//! What one connection leaves for the next one to the same agent.

use std::collections::{HashMap, HashSet};

use crate::said::Said;
use crate::session::Session;
use crate::state::State;

/// What was said in the sessions of a connection, and which of them were deleted. A judge that begins with it holds a
/// later replay against it ([`Judge::after`](crate::Judge::after)).
#[derive(Debug, Default)]
pub struct SessionHistory {
    sessions: HashMap<Box<str>, Past>,
    deleted: HashSet<Box<str>>,
}

/// One session, before the connection on which it is loaded.
#[derive(Debug)]
pub(crate) struct Past {
    live: Said,
    whole: bool,
    turns: u64,
}

impl SessionHistory {
    /// Takes everything out of the state of a connection that is over.
    pub(crate) fn of(state: &mut State) -> Self {
        let mut sessions = std::mem::take(&mut state.earlier);
        for session in state.sessions_mut() {
            // nobody knows what is kept of a turn that the end of the connection broke off
            for turn in std::mem::take(&mut session.turns) {
                session.live.drop_turn(turn.number);
                session.whole = false;
            }
            let past = Past {
                live: std::mem::take(&mut session.live),
                whole: session.whole,
                turns: session.turn_count,
            };
            sessions.insert(session.id.clone(), past);
        }
        Self { sessions, deleted: std::mem::take(&mut state.deleted) }
    }

    /// Puts it into the state of a new connection.
    pub(crate) fn put(self, state: &mut State) {
        state.earlier = self.sessions;
        state.deleted = self.deleted;
    }
}

impl Past {
    /// The session is loaded or resumed: what was said before counts as said here.
    pub(crate) fn put(self, session: &mut Session) {
        session.live = self.live;
        session.whole = self.whole;
        session.turn_count = session.turn_count.max(self.turns);
    }
}
