//! The proxy's conversations, on their way to NATS.

use std::sync::Arc;
use std::time::Instant;

use acp_dialect::Side;
use acp_host::Gate;
use acp_rpc::{Direction, Frame};

use super::hub::Nats;
use super::publisher::{Item, What};
use crate::narrate::{Narrator, Told};
use crate::witness::{Hearing, Witness};

/// Events of one conversation that may wait for their publishers before the agent is held back.
const MOST_WAITING: usize = 1024;

impl Witness for Nats {
    fn begins(&self, _number: u64) -> Box<dyn Hearing> {
        Box::new(Ear {
            nats: self.clone(),
            narrator: Narrator::default(),
            told: Vec::new(),
            gate: Arc::new(Gate::new(MOST_WAITING)),
            over: false,
        })
    }
}

struct Ear {
    nats: Nats,
    narrator: Narrator,
    told: Vec<Told>,
    gate: Arc<Gate>,
    over: bool,
}

impl Ear {
    fn tell(&mut self, at: Instant) {
        self.gate.enter(self.told.len());
        for (session, body) in self.told.drain(..) {
            let item = Item { at, what: What::Body(body), gate: Some(self.gate.clone()) };
            self.nats.put(&session, item);
        }
    }
}

impl Hearing for Ear {
    fn seen(&mut self, from: Side, at: Instant, frame: &Frame) {
        let dir = match from {
            Side::Client => Direction::ClientToAgent,
            Side::Agent => Direction::AgentToClient,
        };
        self.narrator.hear(dir, frame, &mut self.told);
        if self.nats.shared.is_live()
            && let Some((session, _)) = self.told.first()
        {
            self.nats.shared.publish_live(session, frame.raw());
        }
        self.tell(at);
    }

    fn over(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.over, true) {
            self.narrator.close(reason, &mut self.told);
            self.tell(Instant::now());
        }
    }

    fn gate(&self) -> Option<Arc<Gate>> {
        Some(self.gate.clone())
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.over("the proxy stopped");
    }
}
