use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One of the two ends of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The agent.
    Agent,
    /// The editor or whatever else drives the agent.
    Client,
}

impl Side {
    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Agent => Self::Client,
            Self::Client => Self::Agent,
        }
    }

    /// `agent` or `client`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Client => "client",
        }
    }

    /// Which way the frames of this side travel.
    #[must_use]
    pub const fn sends(self) -> Direction {
        match self {
            Self::Agent => Direction::AgentToClient,
            Self::Client => Direction::ClientToAgent,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Which way a frame travelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Direction {
    /// From the client to the agent: `c2a`.
    #[serde(rename = "c2a")]
    ClientToAgent,
    /// From the agent to the client: `a2c`.
    #[serde(rename = "a2c")]
    AgentToClient,
}

impl Direction {
    /// The other way.
    #[must_use]
    pub const fn flip(self) -> Self {
        match self {
            Self::ClientToAgent => Self::AgentToClient,
            Self::AgentToClient => Self::ClientToAgent,
        }
    }

    /// Who sends the frames that travel this way.
    #[must_use]
    pub const fn sender(self) -> Side {
        match self {
            Self::ClientToAgent => Side::Client,
            Self::AgentToClient => Side::Agent,
        }
    }

    /// The word used in transcripts: `c2a` or `a2c`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientToAgent => "c2a",
            Self::AgentToClient => "a2c",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text was neither `c2a` nor `a2c`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown direction {0:?}: write \"c2a\" or \"a2c\"")]
pub struct UnknownDirection(pub String);

impl FromStr for Direction {
    type Err = UnknownDirection;

    fn from_str(text: &str) -> Result<Self, UnknownDirection> {
        match text {
            "c2a" => Ok(Self::ClientToAgent),
            "a2c" => Ok(Self::AgentToClient),
            other => Err(UnknownDirection(other.to_owned())),
        }
    }
}
