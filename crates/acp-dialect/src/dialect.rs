//! The names of the forms.

use std::fmt;
use std::str::FromStr;

/// A form of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// Canonical ACP, protocol version 1.
    V1,
    /// Snake-case names, version string `2025.1`, session ids chosen by the client.
    V2025_1,
    /// `newSession` / `prompt` / `messageChunk`, version string `1`.
    Probe,
    /// The form of the Go structs: near v1, with its own tool-call, capability and content shapes.
    Go,
    /// `assistant.message_delta` over TCP, version string `2025-01-01`.
    Delta,
}

impl Dialect {
    /// Every form, in the order used by tables.
    pub const ALL: [Self; 5] = [Self::V1, Self::V2025_1, Self::Probe, Self::Go, Self::Delta];

    /// The name used on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2025_1 => "2025.1",
            Self::Probe => "probe",
            Self::Go => "go",
            Self::Delta => "delta",
        }
    }

    /// The protocol version as this form writes it, as JSON text.
    #[must_use]
    pub fn version_json(self) -> &'static str {
        match self {
            Self::V1 | Self::Go => "1",
            Self::V2025_1 => "\"2025.1\"",
            Self::Probe => "\"1\"",
            Self::Delta => "\"2025-01-01\"",
        }
    }

    /// The key under which fields that only this form knows travel in `_meta`.
    #[must_use]
    pub fn meta_key(self) -> &'static str {
        match self {
            Self::V1 => "acp-dialect/v1",
            Self::V2025_1 => "acp-dialect/2025.1",
            Self::Probe => "acp-dialect/probe",
            Self::Go => "acp-dialect/go",
            Self::Delta => "acp-dialect/delta",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is no dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown dialect {0:?}; use one of v1, 2025.1, probe, go, delta")]
pub struct UnknownDialect(pub String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.as_str() == name)
            .ok_or_else(|| UnknownDialect(name.to_owned()))
    }
}
