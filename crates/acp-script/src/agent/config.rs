//! How an agent shall be.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use acp_policy::ToolPatterns;
use serde_json::Value;

use super::habits::Habits;
use super::persona::Persona;
use crate::script::Script;

/// Settings of one agent. The default is a well-behaved agent that answers at once.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// `agentInfo.name`
    pub name: String,
    /// `agentInfo.version`
    pub version: String,
    /// Who it is.
    pub persona: Persona,
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
    /// What that error gives as its reason, for forms of the protocol that have a code for it.
    pub fail_reason: Option<String>,
    /// How long to wait for the answer to a permission request.
    pub permission_timeout: Option<Duration>,
    /// How many sessions a page of `session/list` has.
    pub page_size: usize,
    /// What it does instead of understanding wishes.
    pub script: Option<Script>,
    /// Whether a model answers prompts ([`super::Effect::Think`]) instead of the table of wishes.
    pub model: bool,
    /// How often a model may be asked in one turn.
    pub max_rounds: u32,
    /// Whether it has hands of its own for files and commands ([`super::Effect::Own`]) where the client lends none.
    pub own_hands: bool,
    /// Whether the rules decide about every tool, and not only about writes and commands.
    pub careful: bool,
    /// Whether it may change files at all.
    pub edit: bool,
    /// Whether it has the code tools ([`super::Effect::Tool`]): search, query, extract, list_files and glob.
    pub code: bool,
    /// How edits by the name of a declaration find it.
    pub declarations: Declarations,
    /// Whether it may hand tasks to sessions of its own.
    pub delegate: bool,
    /// Whether it uses MCP servers.
    pub mcp: bool,
    /// MCP servers of every session, as `session/new` names them, beside those that its client names.
    pub servers: Vec<Value>,
    /// Whether a session is kept after every step of a turn, and not only at its end.
    pub durable: bool,
    /// Whether a tool that fails or is forbidden ends the prompt with an error.
    pub tool_errors: bool,
    /// Whether a client may call modes by their other names.
    pub mode_aliases: bool,
    /// Whether the client can be asked for permission; without it, what needs permission is not done.
    pub askable: bool,
    /// Whether plans are said in words too, for a client whose form of the protocol has none.
    pub plans_in_words: bool,
    /// Tools that need no permission.
    pub allow: ToolPatterns,
    /// Tools that are never used.
    pub deny: ToolPatterns,
    /// Where sessions may work.
    pub fence: Fence,
    /// What can be a session's folder at all.
    pub folders: Fence,
    /// What the person should know when a session is opened.
    pub warning: Option<String>,
    /// How long a request other than a prompt may take.
    pub request_limit: Option<Duration>,
    /// In which legal ways it differs from the usual.
    pub habits: Habits,
}

/// Whether one must sign in before the first session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Signed in from the start; `logout` signs out.
    SignedIn,
    /// `authenticate` must come first; with a token, `_meta.token` must hold it.
    Required(Option<String>),
    /// `authenticate` must come first, and `_meta.token` must hold this token.
    Token(String),
}

/// Finds declarations by their name in the text of a file; the default finds none.
#[derive(Clone, Default)]
pub struct Declarations(Option<Arc<Find>>);

type Find = dyn Fn(&str, &str, &str) -> Result<Vec<[usize; 2]>, String> + Send + Sync;

impl Declarations {
    /// `find` is given a file's path, its text and a name such as `Type.method`. It tells the first and last line of each
    /// declaration, from 1, or why there is none.
    pub fn new(
        find: impl Fn(&str, &str, &str) -> Result<Vec<[usize; 2]>, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(find)))
    }

    pub(super) fn find(&self, path: &str, text: &str, symbol: &str) -> Result<Vec<[usize; 2]>, String> {
        match &self.0 {
            Some(find) => find(path, text, symbol),
            None => Err("there is no code engine to find declarations with".to_owned()),
        }
    }
}

impl fmt::Debug for Declarations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Declarations(known)" } else { "Declarations(unknown)" })
    }
}

/// Says of a folder whether sessions may work in it; the default has no bounds.
#[derive(Clone, Default)]
pub struct Fence(Option<Arc<Within>>);

type Within = dyn Fn(&str) -> bool + Send + Sync;

impl Fence {
    /// Only folders for which `within` is true.
    pub fn new(within: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(within)))
    }

    /// Whether sessions may work in this folder.
    pub fn holds(&self, folder: &str) -> bool {
        self.0.as_ref().is_none_or(|within| within(folder))
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Fence(bounded)" } else { "Fence(unbounded)" })
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            name: "acp-mock".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            persona: Persona::default(),
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
            fail_reason: None,
            permission_timeout: None,
            page_size: 5,
            script: None,
            model: false,
            max_rounds: 50,
            own_hands: false,
            careful: false,
            edit: true,
            code: false,
            declarations: Declarations::default(),
            delegate: false,
            mcp: true,
            servers: Vec::new(),
            durable: false,
            tool_errors: false,
            mode_aliases: false,
            askable: true,
            plans_in_words: false,
            allow: ToolPatterns::default(),
            deny: ToolPatterns::default(),
            fence: Fence::default(),
            folders: Fence::default(),
            warning: None,
            request_limit: None,
            habits: Habits::default(),
        }
    }
}
