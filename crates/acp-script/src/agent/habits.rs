//! Legal ways in which agents differ, as data.
//!
//! Everything here is allowed by the protocol; the default is how the mock usually is. What can be said as a change of
//! frames ([`crate::faults::Fault`]) is not in this list.

use serde::Deserialize;

/// How an agent goes about its work.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Habits {
    /// How it reads files.
    pub reads: Means,
    /// How it writes files.
    pub writes: Means,
    /// How it runs commands.
    pub runs: Means,
    /// When it asks for permission.
    pub permission: Asking,
    /// Whether sessions outlive the process.
    pub sessions: Keeping,
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

impl Habits {
    /// Whether sessions outlive the process.
    pub fn keeps_sessions(&self) -> bool {
        self.sessions == Keeping::Disk
    }
}
