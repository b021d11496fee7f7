//! What a dialect needs from agents, clients and relays, as data.

use serde_json::{Map, Value};

use crate::dialect::Dialect;

/// Facts about a dialect that are no part of the translation. What a dialect does not name is as in v1.
#[derive(Debug, Clone, Copy)]
pub struct FormTraits {
    /// The name used on the command line.
    pub name: &'static str,
    /// The protocol version as it stands on the wire, as JSON text.
    pub version: &'static str,
    /// The key for its own fields in `_meta`.
    pub meta_key: &'static str,
    /// Its `initialize` and the answer to it can be the same as in v1.
    pub begins_like_v1: bool,
    /// A request in the middle of a conversation can be the same as in v1.
    pub goes_on_like_v1: bool,
    /// A version that nobody knows is refused in its words.
    pub refuses_versions: bool,
    /// The client can be asked for permission.
    pub clients_can_be_asked: bool,
    /// The client takes what one read returns for one message, so there must be a pause between frames.
    pub needs_pauses: bool,
    /// The agent is told its folder and its MCP servers at `initialize`, not with each session.
    pub folder_at_initialize: bool,
    /// The client chooses a mode with `session/new`, by a name that may be an alias of one of the agent's, and relies on it.
    pub mode_aliases: bool,
    /// The ids that its clients expect modes to have, in the order of v1's; empty if any will do.
    pub mode_ids: &'static [&'static str],
    /// Clients show text only, so a plan must be told in words, too.
    pub plans_in_words: bool,
    /// A turn whose tool failed ends with an error.
    pub tool_errors: bool,
    /// How a client reads and writes files of the agent, if it can.
    pub agent_files: Option<AgentFiles>,
}

/// The requests of a client for files of the agent.
#[derive(Debug, Clone, Copy)]
pub struct AgentFiles {
    /// The method that reads a file: `path` in, `content` out.
    pub read: &'static str,
    /// The method that writes one: `path` and `content` in, `success` out.
    pub write: &'static str,
    /// The error code if it is not permitted.
    pub denied: i64,
    /// The error code if it was tried and failed.
    pub failed: i64,
}

impl FormTraits {
    /// Those of v1, from which a dialect differs in what it names.
    pub(crate) const V1: Self = Self {
        name: "v1",
        version: "1",
        meta_key: "acp-dialect/v1",
        begins_like_v1: false,
        goes_on_like_v1: false,
        refuses_versions: false,
        clients_can_be_asked: true,
        needs_pauses: false,
        folder_at_initialize: false,
        mode_aliases: false,
        mode_ids: &[],
        plans_in_words: false,
        tool_errors: false,
        agent_files: None,
    };
}

/// What an agent says about itself that only some dialects have fields for.
#[derive(Debug, Clone, Default)]
pub struct AgentCard {
    /// The names that its tool calls have.
    pub tools: Vec<String>,
    /// The names and kinds of the tools that it offers to be called by name.
    pub offered: Vec<(String, String)>,
    /// The modes that a session may begin in.
    pub modes: Vec<String>,
    /// What a user should know.
    pub instructions: String,
}

impl AgentCard {
    /// The `_meta` of the agent's capabilities from which translations take those fields.
    #[must_use]
    pub fn capabilities(&self) -> Value {
        self.meta(|dialect| dialect.form().capabilities(self))
    }

    /// The `_meta` of the answer to `initialize`, likewise.
    #[must_use]
    pub fn introduction(&self) -> Value {
        self.meta(|dialect| dialect.form().introduction(self))
    }

    fn meta(&self, of: impl Fn(Dialect) -> Option<Value>) -> Value {
        let fields = Dialect::ALL.into_iter().rev();
        fields
            .filter_map(|dialect| Some((dialect.meta_key().to_owned(), of(dialect)?)))
            .collect::<Map<_, _>>()
            .into()
    }
}
