//! What a translation could not keep, or had to make up, said in words.

use std::borrow::Cow;
use std::fmt;

/// What sort of step a [`Note`] records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoteKind {
    /// The other form says less: something the sender said is not on the other wire as such.
    Lossy,
    /// The other form asks for something the sender never said, so a value was made up.
    Invented,
    /// The other form has no place for it; it travels in `_meta`.
    Carried,
    /// The other form does not name it; it went through unchanged.
    Passed,
    /// The translator answered the sender with an error, and nothing went on.
    Refused,
    /// The translator answered the sender by itself.
    Answered,
    /// The frame is in a form which is not the one agreed for this wire.
    OtherDialect,
    /// A session id was used for a second session.
    DuplicateSession,
    /// A request id was used again while the first request was still open.
    DuplicateId,
    /// An answer to a question that nobody asked.
    UnknownAnswer,
    /// A field is missing or has the wrong type.
    WrongShape,
    /// The frame is not a usable JSON-RPC message.
    Malformed,
}

impl NoteKind {
    /// The word used in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lossy => "lossy",
            Self::Invented => "invented",
            Self::Carried => "carried",
            Self::Passed => "passed",
            Self::Refused => "refused",
            Self::Answered => "answered",
            Self::OtherDialect => "other-dialect",
            Self::DuplicateSession => "duplicate-session",
            Self::DuplicateId => "duplicate-id",
            Self::UnknownAnswer => "unknown-answer",
            Self::WrongShape => "wrong-shape",
            Self::Malformed => "malformed",
        }
    }

    /// Whether the note tells of a peer that broke the form it was to speak, and not of a difference between two forms.
    #[must_use]
    pub fn is_misbehaviour(self) -> bool {
        matches!(
            self,
            Self::OtherDialect
                | Self::DuplicateSession
                | Self::DuplicateId
                | Self::UnknownAnswer
                | Self::WrongShape
                | Self::Malformed
        )
    }
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One recorded step of a translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What sort of step.
    pub kind: NoteKind,
    /// The method as the foreign form calls it, or the v1 name where the foreign form has none.
    pub method: Cow<'static, str>,
    /// The field, as a dotted path; empty when the whole frame is meant.
    pub field: Cow<'static, str>,
    /// What happened, in plain words.
    pub message: Cow<'static, str>,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.method)?;
        if !self.field.is_empty() {
            write!(f, " {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}
