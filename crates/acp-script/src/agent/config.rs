//! How an agent shall be.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use acp_policy::ToolPatterns;
use serde_json::Value;

use super::habits::Habits;
use super::persona::Persona;
use crate::script::AgentScript;

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
    /// How its messages are sent.
    pub pace: MessagePace,
    /// How much it does, and for how long.
    pub limits: AgentLimits,
    /// What it can do.
    pub abilities: AgentAbilities,
    /// What it may do, and where.
    pub rules: ToolRules,
    /// What it must know about its client's form of the protocol.
    pub form: FormNeeds,
    /// What a person can change about what it may do.
    pub hints: UserHints,
    /// Whether one must sign in first.
    pub auth: Auth,
    /// Whether `session/load` is offered.
    pub load_session: bool,
    /// Whether a session is kept after every step of a turn, and not only at its end.
    pub durable: bool,
    /// What it does instead of understanding wishes.
    pub script: Option<AgentScript>,
    /// Whether a model answers prompts ([`super::AgentEffect::Think`]) instead of the table of wishes.
    pub model: bool,
    /// Every prompt asks for permission first.
    pub send_permissions: bool,
    /// Every prompt fails like this.
    pub prompt_error: Option<PromptError>,
    /// What the person should know when a session is opened.
    pub warning: Option<String>,
    /// In which legal ways it differs from the usual.
    pub habits: Habits,
}

/// How messages are sent.
#[derive(Clone, Debug, Default)]
pub struct MessagePace {
    /// Between two chunks of a message.
    pub streaming_delay: Duration,
    /// Before a turn's first output.
    pub response_delay: Duration,
    /// How many chunks a plain answer has; without it, as many as its words need.
    pub chunks: Option<u32>,
    /// How many bytes a chunk of a plain answer has.
    pub chunk_size: Option<usize>,
}

/// How much an agent does, and for how long.
#[derive(Clone, Debug)]
pub struct AgentLimits {
    /// How many sessions may be open at once.
    pub sessions: Option<usize>,
    /// How many sessions a page of `session/list` has.
    pub page_size: usize,
    /// How often a model may be asked in one turn.
    pub rounds: u32,
    /// How long to wait for the answer to a permission request.
    pub permission: Option<Duration>,
    /// How long a request other than a prompt may take.
    pub request: Option<Duration>,
}

/// What an agent can do.
#[derive(Clone, Debug)]
pub struct AgentAbilities {
    /// Whether it reads and writes files and runs commands itself ([`super::AgentEffect::Own`]) where the client does not offer to.
    pub local_tools: bool,
    /// Whether it may change files at all.
    pub edit: bool,
    /// Whether it has the code tools ([`super::AgentEffect::Tool`]): search, query, extract, list_files and glob.
    pub code: bool,
    /// How edits by the name of a declaration find it.
    pub declarations: Declarations,
    /// Whether it may hand tasks to sessions of its own.
    pub delegate: bool,
    /// Whether it uses MCP servers.
    pub mcp: bool,
    /// MCP servers of every session, as `session/new` names them, beside those that its client names.
    pub servers: Vec<Value>,
}

/// What an agent may do, and where.
#[derive(Clone, Debug, Default)]
pub struct ToolRules {
    /// Whether they decide about every tool, and not only about writes and commands.
    pub careful: bool,
    /// Tools that need no permission.
    pub allow: ToolPatterns,
    /// Tools that are never used.
    pub deny: ToolPatterns,
    /// Where sessions may work.
    pub fence: Fence,
    /// What can be a session's folder at all.
    pub folders: Fence,
}

/// What other forms of the protocol than version 1 need of an agent.
#[derive(Clone, Debug)]
pub struct FormNeeds {
    /// Whether a tool that fails or is forbidden ends the prompt with an error.
    pub tool_errors: bool,
    /// Whether a client may call modes by their other names.
    pub mode_aliases: bool,
    /// Whether the client can be asked for permission; without it, what needs permission is not done.
    pub askable: bool,
    /// Whether plans are said in words too, for a client whose form of the protocol has none.
    pub plans_in_words: bool,
}

/// How a person gets what the agent does not do now, each as the end of a sentence; empty where there is no way.
#[derive(Clone, Debug, Default)]
pub struct UserHints {
    /// Changes of files.
    pub edit: String,
    /// Delegated tasks.
    pub delegate: String,
    /// MCP servers.
    pub mcp: String,
    /// Permission from the start; `{pattern}` is what for.
    pub allow: String,
    /// Longer answers of a model.
    pub longer_answers: String,
    /// Delegated tasks, from an agent that has none to give.
    pub other_delegate: String,
    /// The code engine, from an agent that has none.
    pub other_code: String,
}

/// How every prompt fails.
#[derive(Clone, Debug)]
pub struct PromptError {
    /// The error code.
    pub code: i64,
    /// What the error gives as its reason, for forms of the protocol that have a code for it.
    pub reason: Option<String>,
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
            pace: MessagePace::default(),
            limits: AgentLimits::default(),
            abilities: AgentAbilities::default(),
            rules: ToolRules::default(),
            form: FormNeeds::default(),
            hints: UserHints::default(),
            auth: Auth::SignedIn,
            load_session: true,
            durable: false,
            script: None,
            model: false,
            send_permissions: false,
            prompt_error: None,
            warning: None,
            habits: Habits::default(),
        }
    }
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self { sessions: None, page_size: 5, rounds: 50, permission: None, request: None }
    }
}

impl Default for AgentAbilities {
    fn default() -> Self {
        Self {
            local_tools: false,
            edit: true,
            code: false,
            declarations: Declarations::default(),
            delegate: false,
            mcp: true,
            servers: Vec::new(),
        }
    }
}

impl Default for FormNeeds {
    fn default() -> Self {
        Self { tool_errors: false, mode_aliases: false, askable: true, plans_in_words: false }
    }
}
