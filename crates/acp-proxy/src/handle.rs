//! Commands to a running conversation, and reasons for what its client answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

/// A command to a running conversation.
pub(crate) enum Command {
    /// Cancel the running turn of a session. The answer is whether one was running.
    Cancel { session: String, done: oneshot::Sender<bool> },
    /// Cancel what is running, and end the conversation for this reason.
    Close { why: String, done: oneshot::Sender<bool> },
}

/// Cancels turns of a running conversation, or ends it. Clones reach the same one.
#[derive(Clone, Debug)]
pub struct ConversationHandle(mpsc::Sender<Command>);

/// The end of the channel at which a conversation waits for commands.
pub(crate) struct Commands(mpsc::Receiver<Command>);

/// Both ends of the channel.
pub(crate) fn channel() -> (ConversationHandle, Commands) {
    let (tell, told) = mpsc::channel(4);
    (ConversationHandle(tell), Commands(told))
}

impl ConversationHandle {
    /// Cancels the running turn of a session, as its client would. False when there is none, or no conversation.
    pub async fn cancel(&self, session: &str) -> bool {
        let session = session.to_owned();
        self.tell(|done| Command::Cancel { session, done }).await
    }

    /// Ends the conversation: turns are cancelled, the client is told why, its agent is ended. False when it is over.
    pub async fn close(&self, why: &str) -> bool {
        let why = why.to_owned();
        self.tell(|done| Command::Close { why, done }).await
    }

    async fn tell(&self, command: impl FnOnce(oneshot::Sender<bool>) -> Command) -> bool {
        let (done, answer) = oneshot::channel();
        self.0.send(command(done)).await.is_ok() && answer.await.unwrap_or(false)
    }
}

impl Commands {
    /// The next command.
    pub(crate) async fn next(&mut self) -> Command {
        match self.0.recv().await {
            Some(command) => command,
            None => std::future::pending().await,
        }
    }
}

/// Why permission requests were answered as they were, by their tool calls. The client that answers leaves the reason, and
/// an observer that sees the answer takes it. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DecisionReasons(Arc<Mutex<HashMap<String, String>>>);

impl DecisionReasons {
    /// Leaves the reason for an answer that is on its way.
    pub fn put(&self, tool_call: &str, reason: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(tool_call.to_owned(), reason.to_owned());
    }

    /// Whether the two are shared.
    #[must_use]
    pub fn is(&self, other: &DecisionReasons) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Takes the reason for this tool call, if one was left.
    #[must_use]
    pub fn take(&self, tool_call: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(tool_call)
    }
}
