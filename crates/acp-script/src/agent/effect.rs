//! What an agent wants done.

use acp_policy::{Policy, ToolKind, ToolPatterns};
use acp_rpc::Frame;
use bytes::Bytes;
use serde_json::Value;

use super::permits::denial;
use super::{Round, SessionRecord};

/// Names one connection to an MCP server.
pub type McpKey = u64;

/// Names one question to the world; its answer carries the same token.
pub type Token = u64;

/// Something for the edge to do.
#[derive(Clone, Debug)]
pub enum AgentEffect {
    /// Send this frame to the client.
    Send(Frame),
    /// Send these bytes to the client as they are.
    SendRaw(Bytes),
    /// Write this line to standard error.
    Stderr(Bytes),
    /// End the process with this code.
    Exit(i32),
    /// End the connection.
    Hangup,
    /// Start a child process that outlives the agent.
    LeaveChild,
    /// Let a grandchild write this line to standard output.
    Grandchild(String),
    /// Answer this request of the agent in the client's place, and pass the response to
    /// [`super::Agent::own_answered`].
    Own(Frame),
    /// Use a tool and pass its answer to [`super::Agent::tool_answered`].
    Tool(Box<ToolUse>),
    /// Ask the model and pass its answer to [`super::Agent::thought`], piece by piece.
    Think {
        /// Comes back with every piece.
        token: Token,
        /// What to ask.
        question: Box<ModelQuestion>,
    },
    /// The answer to this question is no longer wanted.
    Abandon {
        /// Of a [`AgentEffect::Tool`], [`AgentEffect::Think`] or [`AgentEffect::McpCall`].
        token: Token,
    },
    /// Connect to an MCP server (an entry of `mcpServers`), list its tools and call [`super::Agent::mcp_connected`].
    McpConnect {
        /// The new connection's name.
        key: McpKey,
        /// The server as the client gave it.
        server: Value,
        /// The session's working folder.
        cwd: String,
    },
    /// End that connection and its process.
    McpDisconnect {
        /// The connection.
        key: McpKey,
    },
    /// Call a tool and pass its answer to [`super::Agent::mcp_answered`].
    McpCall {
        /// The connection.
        key: McpKey,
        /// Comes back with the answer.
        token: Token,
        /// The tool's name.
        tool: String,
        /// Its arguments, an object.
        arguments: Value,
    },
    /// Keep this session, in place of what is kept under its id.
    StoreSession(Box<SessionRecord>),
    /// Forget this session.
    DeleteSession(String),
    /// This session is closed, though it may be opened again at once: what was held for it can go.
    SessionClosed(String),
    /// Look up a session and call [`super::Agent::session_fetched`].
    FetchSession {
        /// Comes back with the answer.
        token: Token,
        /// The session.
        id: String,
    },
    /// Look up all sessions and call [`super::Agent::sessions_listed`].
    ListSessions {
        /// Comes back with the answer.
        token: Token,
    },
}

/// A tool that an MCP server offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpTool {
    /// Its name.
    pub name: String,
    /// What it says about itself.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
}

/// A tool that the agent uses.
#[derive(Clone, Debug)]
pub struct ToolUse {
    /// Comes back with the answer.
    pub token: Token,
    /// The session, as the client knows it.
    pub session: String,
    /// The tool.
    pub name: String,
    /// Its arguments, an object.
    pub arguments: Value,
    /// The session's working folder.
    pub cwd: String,
    /// The session's further roots.
    pub roots: Vec<String>,
    /// Whether the person wants to see results at full length.
    pub verbose: bool,
    /// Tools that are never used, and files that they are never used on.
    pub deny: ToolPatterns,
}

impl ToolUse {
    /// Whether nothing of the file at this absolute path may be shown.
    pub fn hides(&self, path: &str) -> bool {
        let kind =
            if ["extract", "skill"].contains(&&*self.name) { ToolKind::Read } else { ToolKind::Search };
        denial(&self.deny, kind, &[&self.name], path, &self.cwd).is_some()
    }
}

/// What a tool answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The answer in words.
    pub text: String,
    /// The answer for a person, as Markdown, where nobody else tells it; without it the text is told.
    pub said: Option<String>,
    /// Whether it found nothing of what it should have found: the call failed.
    pub failed: bool,
    /// Whether it failed because it may not look there.
    pub denied: bool,
    /// The answer as data.
    pub raw: Value,
    /// Files it is about, as `{path, line?}`.
    pub locations: Vec<Value>,
    /// A file to write next, by its path below the working folder, and its text.
    pub write: Option<(String, String)>,
}

impl ToolOutput {
    /// It may not look there, for this reason.
    pub fn denied(reason: String) -> Self {
        Self { text: reason, failed: true, denied: true, ..Self::default() }
    }
}

/// What a model is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuestionKind {
    /// The next part of the turn. A conversation that does not fit is not asked with: [`ThoughtEnd::Overflow`].
    #[default]
    Answer,
    /// The same, though the conversation may not fit: what takes the most room is shortened.
    Anyway,
    /// The conversation in short.
    Summary,
}

/// How much of a conversation the provider has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The tokens, with what the model is told besides the conversation.
    pub tokens: u64,
    /// How many entries of the history they stand for.
    pub entries: usize,
}

/// What a model is asked.
#[derive(Clone, Debug, Default)]
pub struct ModelQuestion {
    /// What for.
    pub wanted: QuestionKind,
    /// What the provider has counted so far; none before its first answer.
    pub counted: Option<Counted>,
    /// How many answers before this one were cut off by the limit of their length, one after the other.
    pub cuts: u32,
    /// How often this question was too long for the model.
    pub overflows: u32,
    /// The session, as the client knows it.
    pub session: String,
    /// Its working folder.
    pub cwd: String,
    /// Its further roots.
    pub roots: Vec<String>,
    /// The chosen model.
    pub model: String,
    /// Whether nothing may be changed.
    pub planning: bool,
    /// What is allowed in the session's mode.
    pub policy: Policy,
    /// Whether it is a delegated task.
    pub delegated: bool,
    /// How much to think aloud.
    pub thought_level: String,
    /// The conversation, as the bodies of updates.
    pub history: Vec<Value>,
    /// The answers of the model in this history, and last the one that is wanted.
    pub rounds: Vec<Round>,
    /// Tools that would be refused whatever they were used on.
    pub closed: Vec<&'static str>,
    /// The tools of MCP servers that may be used, under the names `mcp__server__tool`.
    pub mcp: Vec<McpTool>,
}

/// A part of a model's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Thought {
    /// Some text.
    Text(String),
    /// Some thinking.
    Thinking(String),
    /// A whole call of a tool.
    Call {
        /// The tool.
        name: String,
        /// Its arguments, an object.
        arguments: Value,
    },
    /// A call of this tool was cut off by the limit of the answer's length, and is not made.
    Dropped(String),
    /// How many tokens the model takes in at once.
    Context(u64),
    /// Something that the provider wants back unread in this place of the conversation.
    Seal(String),
    /// Why it takes longer, for people.
    Notice(String),
    /// What this question used, in tokens.
    Usage {
        /// Read.
        input: u64,
        /// Written.
        output: u64,
    },
    /// The end of the answer.
    End(ThoughtEnd),
}

/// How a model's answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThoughtEnd {
    /// Everything is said; if it called tools, it wants their answers.
    Done,
    /// The answer became too long.
    MaxTokens,
    /// It does not want to.
    Refusal,
    /// It failed, for this reason.
    Failed(String),
    /// The question itself was not taken, for this reason.
    Rejected(String),
    /// The conversation is too long for the model.
    Overflow(String),
}
