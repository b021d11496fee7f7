//! A connection's dealings with the store: which sessions it has, and what is kept of them.

use acp_proto::error_code;
use acp_rpc::{Frame, Reply, RpcError, View};
use acp_script::agent::Token;

use super::{Conversation, Event, Waiting};
use crate::store::{SessionStore, SessionStoreError};

impl Conversation {
    /// Looks a session up once it is ours.
    pub(super) fn fetch(&self, token: Token, id: String) {
        let (store, events, holder) = (self.shared.store.clone(), self.events.clone(), self.holder.clone());
        tokio::spawn(async move {
            if let Err(error) = holder.take_soon(&id).await {
                let _ = events.send(Event::Fetched { token, id, found: Err(error) });
                return;
            }
            tokio::task::spawn_blocking(move || {
                let found = store.fetch(&id).map(|found| found.map(Box::new));
                let _ = events.send(Event::Fetched { token, id, found });
            });
        });
    }

    /// Others may have a session that this agent does not have open.
    pub(super) fn free_unless_open(&self, id: &str) {
        if self.agent.folders(id).is_none() {
            self.holder.free(id);
        }
    }

    /// Keeps the session ids that the client chose, before it hears that they are good.
    pub(super) fn keep_aliases(&mut self) {
        let mut fresh = self.client.session_ids();
        fresh.retain(|(foreign, canonical)| self.aliases.get(foreign) != Some(canonical));
        if !fresh.is_empty() {
            self.aliases.extend(fresh.iter().cloned());
            let kept = self.shared.store.add_aliases(fresh);
            self.waiting.push_back(Waiting::Until(kept));
        }
    }

    pub(super) fn look_up(&self, work: impl FnOnce(&SessionStore) -> Event + Send + 'static) {
        let (store, events) = (self.shared.store.clone(), self.events.clone());
        tokio::task::spawn_blocking(move || {
            let _ = events.send(work(&store));
        });
    }
}

/// What the client is told of trouble with the store.
pub(super) fn refusal(error: &SessionStoreError) -> RpcError {
    match error.is_elsewhere() {
        true => RpcError::new(error_code::INVALID_REQUEST, error.to_string()),
        false => RpcError::internal(error.to_string()),
    }
}

/// Whether a response of the agent names a session: only such a one makes its id known to the client.
pub(super) fn opens_session(frame: &Frame) -> bool {
    matches!(frame.view(), View::Response { reply: Reply::Result(result), .. } if result.contains("\"sessionId\""))
}
