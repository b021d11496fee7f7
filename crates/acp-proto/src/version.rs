use std::fmt;

/// A version of the protocol, as `initialize` negotiates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum ProtocolVersion {
    /// Version 1.
    #[default]
    V1,
    /// Version 2, a draft.
    V2,
}

impl ProtocolVersion {
    /// All of them, oldest first.
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];

    /// The number in `protocolVersion`.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}
