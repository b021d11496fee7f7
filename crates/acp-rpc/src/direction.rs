use std::fmt;
use std::str::FromStr;

/// Which way a frame travelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the client to the agent: `c2a`.
    ClientToAgent,
    /// From the agent to the client: `a2c`.
    AgentToClient,
}

impl Direction {
    /// The other way.
    #[must_use]
    pub fn flip(self) -> Self {
        match self {
            Self::ClientToAgent => Self::AgentToClient,
            Self::AgentToClient => Self::ClientToAgent,
        }
    }

    /// The word used in transcripts: `c2a` or `a2c`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientToAgent => "c2a",
            Self::AgentToClient => "a2c",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
