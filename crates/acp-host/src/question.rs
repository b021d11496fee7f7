//! Questions to a person, when there is one.

use acp_policy::{PermissionOptionKind, ToolKind};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::Elicited;

/// Something only a person can answer. Dropping it is a no.
#[derive(Debug)]
pub struct UserQuestion {
    /// The session it is about, when there is one.
    pub session: Option<String>,
    /// What is asked.
    pub ask: Ask,
    reply: oneshot::Sender<UserAnswer>,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// The agent wants permission for a tool call and offers these options.
    Permission {
        /// The call's title, or its id.
        title: String,
        /// Its kind: the most dangerous that anything about the call suggests.
        kind: ToolKind,
        /// Every command and path that a yes would be about. Show them all: a yes is for exactly these.
        subjects: Vec<String>,
        /// The agent's options, in its order.
        options: Vec<PermissionChoice>,
        /// The whole params of the request.
        params: Value,
    },
    /// The agent uses a file or a terminal without having asked.
    Access {
        /// The method it called.
        method: String,
        /// The path or the command.
        subject: String,
        /// What would be written to the path.
        content: Option<String>,
        /// What [`UserAnswer::Always`] allows until the session ends, in words; nothing where it means no more than yes.
        always: Option<String>,
    },
    /// The agent wants a form filled in.
    Form {
        /// What for.
        message: String,
        /// The fields, as the request gives them.
        schema: Value,
    },
    /// The agent wants a page opened. Nothing is opened without consent.
    Url {
        /// What for.
        message: String,
        /// The whole address.
        url: String,
    },
}

/// One of the agent's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionChoice {
    /// Its id.
    pub id: String,
    /// What the agent calls it.
    pub name: String,
    /// What it means.
    pub kind: Option<PermissionOptionKind>,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum UserAnswer {
    /// This option of a permission request.
    Option(String),
    /// Yes to an access.
    Yes,
    /// Yes to an access, and to what its `always` names.
    Always,
    /// No to an access.
    No,
    /// The answer to an elicitation.
    Elicited(Elicited),
    /// The person turned away.
    Cancelled,
}

impl UserQuestion {
    pub(crate) fn new(session: Option<String>, ask: Ask) -> (UserQuestion, oneshot::Receiver<UserAnswer>) {
        let (reply, answer) = oneshot::channel();
        (UserQuestion { session, ask, reply }, answer)
    }

    /// Answers. An answer that comes too late is lost, which [`UserQuestion::is_stale`] tells beforehand.
    pub fn answer(self, asked: UserAnswer) {
        let _ = self.reply.send(asked);
    }

    /// Whether nobody waits for the answer any more, because the turn or the request was cancelled.
    pub fn is_stale(&self) -> bool {
        self.reply.is_closed()
    }

    /// Waits until nobody waits for the answer any more.
    pub async fn stale(&mut self) {
        self.reply.closed().await;
    }
}
