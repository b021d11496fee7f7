//! How an agent shall be.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::script::Script;
use crate::switch::Switch;

/// Settings of one agent. The default is a well-behaved agent that answers at once.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// `agentInfo.name`
    pub name: String,
    /// `agentInfo.version`
    pub version: String,
    /// Begins every id that the agent makes; must differ between agents that share sessions.
    pub id_prefix: String,
    /// The Unix time at which the agent's own time began.
    pub started: Duration,
    /// Between two chunks of a message.
    pub streaming_delay: Duration,
    /// Before a turn's first output.
    pub response_delay: Duration,
    /// How many chunks a plain answer has; without it, as many as its words need.
    pub chunks: Option<u32>,
    /// How many bytes a chunk of a plain answer has.
    pub chunk_size: Option<usize>,
    /// How many sessions may be open at once.
    pub max_sessions: Option<usize>,
    /// Whether `session/load` is offered.
    pub load_session: bool,
    /// Whether one must sign in first.
    pub auth: Auth,
    /// Every prompt asks for permission first.
    pub send_permissions: bool,
    /// Every prompt fails with this code.
    pub fail_on_prompt: Option<i64>,
    /// How long to wait for the answer to a permission request.
    pub permission_timeout: Option<Duration>,
    /// How many sessions a page of `session/list` has.
    pub page_size: usize,
    /// What it does instead of understanding wishes.
    pub script: Option<Script>,
    /// What it does wrong on purpose.
    pub switches: BTreeSet<Switch>,
}

/// Whether one must sign in before the first session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Signed in from the start; `logout` signs out.
    SignedIn,
    /// `authenticate` must come first; with a token, `_meta.token` must hold it.
    Required(Option<String>),
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            name: "acp-mock".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            id_prefix: "0".to_owned(),
            started: Duration::ZERO,
            streaming_delay: Duration::ZERO,
            response_delay: Duration::ZERO,
            chunks: None,
            chunk_size: None,
            max_sessions: None,
            load_session: true,
            auth: Auth::SignedIn,
            send_permissions: false,
            fail_on_prompt: None,
            permission_timeout: None,
            page_size: 20,
            script: None,
            switches: BTreeSet::new(),
        }
    }
}
