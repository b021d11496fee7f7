//! What a translation must be told, because the forms do not say it.

use serde_json::Value;

/// How to answer a permission request when the client's form has no way to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unasked {
    /// Choose a rejecting option.
    #[default]
    Reject,
    /// Choose an allowing option.
    Allow,
    /// Answer `cancelled`.
    Cancel,
}

impl std::str::FromStr for Unasked {
    type Err = UnknownAnswer;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "reject" => Ok(Self::Reject),
            "allow" => Ok(Self::Allow),
            "cancel" => Ok(Self::Cancel),
            _ => Err(UnknownAnswer(word.to_owned())),
        }
    }
}

/// No answer to a permission request has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no answer {0:?}; there are reject, allow and cancel")]
pub struct UnknownAnswer(String);

/// What becomes of the `credentials` that `2025.1` attaches to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Credentials {
    /// Environment variables of a stdio server, headers of an HTTP server.
    #[default]
    Deliver,
    /// Not passed on.
    Withhold,
}

/// The key of `_meta` for [`TranslationOptions::per_folder`]: `working_directory` and `mcp_servers` as `initialize` has them.
pub const START_KEY: &str = "acp-dialect/start";

/// Settings of a [`Translator`](crate::Translator).
#[derive(Debug, Clone, PartialEq)]
pub struct TranslationOptions {
    /// The working directory where a form has no field for it, and the base of relative paths. Absolute.
    pub work_dir: String,
    /// MCP servers (v1 shape) for forms that cannot name them when a session is created.
    pub mcp_servers: Vec<Value>,
    /// Whether somebody behind the translator starts a `2025.1` agent for each folder and set of MCP servers: then the
    /// agent's requests for sessions say in `_meta` under [`START_KEY`] what to tell the agent at `initialize`.
    pub per_folder: bool,
    /// The answer to a permission request that the client's form cannot be asked.
    pub permission: Unasked,
    /// What becomes of `2025.1` credentials.
    pub credentials: Credentials,
    /// Whether a `2025.1` agent, which cannot say so, is taken to support `session/load`.
    pub load_session: bool,
    /// Whether a `probe` client, which cannot say so, is taken to serve `readTextFile` and `writeTextFile`.
    pub client_files: bool,
    /// The token for a `2025.1` agent that asks for one.
    pub token: Option<String>,
    /// Where session ids must be made up (a `2025.1` agent expects the client to choose), they start with this.
    /// Give each connection its own, so that ids stay unique over restarts.
    pub session_prefix: String,
    /// Session ids known from earlier connections: (foreign, canonical).
    pub sessions: Vec<(String, String)>,
    /// How many bytes of a turn's text are kept for forms whose prompt answer repeats it.
    pub reply_limit: usize,
}

impl Default for TranslationOptions {
    fn default() -> Self {
        Self {
            work_dir: "/".to_owned(),
            mcp_servers: Vec::new(),
            per_folder: false,
            permission: Unasked::default(),
            credentials: Credentials::default(),
            load_session: false,
            client_files: false,
            token: None,
            session_prefix: "session".to_owned(),
            sessions: Vec::new(),
            reply_limit: 1024 * 1024,
        }
    }
}
