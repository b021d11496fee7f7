//! Legal ways in which agents differ, as data.
//!
//! Everything here is allowed by the protocol; the default is how the mock usually is. What can be said as a change of
//! frames ([`crate::faults::Fault`]) is not in this list.

use std::collections::BTreeSet;
use std::time::Duration;

use acp_proto::method;
use serde::{Deserialize, Deserializer};

use crate::faults::Time;

/// How an agent goes about its work.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Habits {
    /// How it reads files.
    pub reads: Means,
    /// How it writes files.
    pub writes: Means,
    /// How it runs commands.
    pub runs: Means,
    /// Whether it reads a file before it writes it.
    pub reads_before_writing: bool,
    /// When it asks for permission.
    pub permission: Asking,
    /// Whether sessions outlive the process.
    pub sessions: Keeping,
    /// How messages are cut into chunks.
    pub chunks: Chunks,
    /// Whether its turns take no time.
    pub instant: bool,
    /// How long it is silent before a turn's first output.
    #[serde(deserialize_with = "time")]
    pub turn_delay: Duration,
    /// How long it is silent between two chunks.
    #[serde(deserialize_with = "time")]
    pub chunk_delay: Duration,
    /// How long its process goes on after the end of its input.
    #[serde(deserialize_with = "time")]
    pub exit_delay: Duration,
    /// Whether it understands plain wishes; if not, it answers every prompt in words.
    pub understands: bool,
    /// After how many prompts of a connection it answers in words only.
    pub patience: Option<u64>,
    /// Whether its words repeat what it read, ran and was told.
    pub quotes: bool,
    /// Whether it thinks aloud in every turn.
    pub thinks: bool,
    /// Whether it makes a plan in every turn.
    pub plans: bool,
    /// Whether it asks the person by elicitation.
    pub elicits: bool,
    /// When it connects to MCP servers.
    pub mcp: Connecting,
    /// What it does not offer.
    pub lacks: BTreeSet<Feature>,
    /// Whether one has to log in.
    pub login: LoginGate,
    /// What becomes of a prompt while another one runs in the same session.
    pub second_prompt: SecondPrompt,
    /// How many sessions a page of the list has.
    pub page_size: Option<usize>,
    /// What its session ids look like.
    pub session_ids: SessionIds,
    /// The modes that it offers, by their ids; all without any.
    pub modes: Option<Vec<String>>,
    /// The config options that it offers, by their ids and in this order; an id that it does not know is a choice of two
    /// values.
    pub options: Option<Vec<String>>,
    /// Whether a replay has the chunks of long messages in pieces.
    pub replays_in_pieces: bool,
    /// The protocol versions that it speaks.
    pub versions: BTreeSet<u64>,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            reads: Means::Client,
            writes: Means::Client,
            runs: Means::Client,
            reads_before_writing: true,
            permission: Asking::Default,
            sessions: Keeping::Disk,
            chunks: Chunks::Usual,
            instant: false,
            turn_delay: Duration::ZERO,
            chunk_delay: Duration::ZERO,
            exit_delay: Duration::ZERO,
            understands: true,
            patience: None,
            quotes: true,
            thinks: false,
            plans: false,
            elicits: true,
            mcp: Connecting::Eager,
            lacks: BTreeSet::new(),
            login: LoginGate::Open,
            second_prompt: SecondPrompt::Refuse,
            page_size: None,
            session_ids: SessionIds::Usual,
            modes: None,
            options: None,
            replays_in_pieces: false,
            versions: BTreeSet::from([1]),
        }
    }
}

/// By what means an agent does something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Means {
    /// Through the client.
    #[default]
    Client,
    /// By itself.
    Own,
    /// Not at all.
    Never,
}

/// When an agent asks for permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Asking {
    /// Before it writes or runs something.
    #[default]
    Default,
    /// Never.
    Never,
    /// Before every tool.
    Always,
}

/// How long sessions are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Keeping {
    /// Where the mock was told to keep them.
    #[default]
    Disk,
    /// As long as the process runs.
    Memory,
}

/// How messages are cut into chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Chunks {
    /// Some words each.
    #[default]
    Usual,
    /// The whole message in one.
    One,
    /// A character each.
    Characters,
}

/// When an agent connects to MCP servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Connecting {
    /// When the session is opened.
    #[default]
    Eager,
    /// When the first prompt comes.
    FirstPrompt,
    /// When a tool of a server is wanted.
    FirstUse,
}

/// What an agent need not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Feature {
    /// `session/load`
    Load,
    /// `session/resume`
    Resume,
    /// `session/list`
    List,
    /// `session/close`
    Close,
    /// `session/delete`
    Delete,
    /// `additionalDirectories`
    AdditionalDirectories,
    /// `logout`
    Logout,
    /// Images in prompts.
    Image,
    /// Audio in prompts.
    Audio,
    /// Embedded resources in prompts.
    EmbeddedContext,
    /// MCP servers over HTTP.
    McpHttp,
    /// Modes.
    Modes,
    /// Config options.
    ConfigOptions,
    /// Slash commands.
    Commands,
}

/// Whether one has to log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LoginGate {
    /// One may.
    #[default]
    Open,
    /// Before the first session.
    Required,
    /// There is no way to.
    Absent,
}

/// What becomes of a prompt while another one runs in the same session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SecondPrompt {
    /// It is refused.
    #[default]
    Refuse,
    /// It waits for its turn.
    Queue,
}

/// What session ids look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionIds {
    /// A word and numbers.
    #[default]
    Usual,
    /// A UUID.
    Uuid,
    /// Long, with characters that are neither letters nor digits.
    Odd,
}

impl Habits {
    /// Whether sessions outlive the process.
    pub fn keeps_sessions(&self) -> bool {
        self.sessions == Keeping::Disk
    }

    /// Whether this is offered.
    pub fn has(&self, feature: Feature) -> bool {
        !self.lacks.contains(&feature)
    }

    /// The feature that a request belongs to.
    pub(super) fn feature(method: &str) -> Option<Feature> {
        Some(match method {
            method::SESSION_LOAD => Feature::Load,
            method::SESSION_RESUME => Feature::Resume,
            method::SESSION_LIST => Feature::List,
            method::SESSION_CLOSE => Feature::Close,
            method::SESSION_DELETE => Feature::Delete,
            method::SESSION_SET_MODE => Feature::Modes,
            method::SESSION_SET_CONFIG_OPTION => Feature::ConfigOptions,
            method::LOGOUT => Feature::Logout,
            _ => return None,
        })
    }

    /// The version to agree on: the one that is asked for, or the latest.
    pub(super) fn version(&self, asked: u64) -> u64 {
        let latest = self.versions.last().copied().unwrap_or(1);
        if self.versions.contains(&asked) { asked } else { latest }
    }
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Time::deserialize(deserializer).map(|time| time.0)
}
