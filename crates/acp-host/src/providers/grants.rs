//! What a person allowed: exactly what was shown, once or for the session.
//!
//! Grants are exact, and only a person makes them. Rules decide permission requests and the client's own file and
//! terminal requests separately, so nothing has to be carried from one to the other.

use std::path::PathBuf;

/// Something that can be allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// This line, in this folder.
    Run { line: String, cwd: PathBuf },
    /// Writing this file, by its real name.
    Write(PathBuf),
    /// Writing every file below this folder, by its real name.
    WriteBelow(PathBuf),
}

impl Deed {
    /// Whether leave for this is leave for that.
    fn covers(&self, that: &Deed) -> bool {
        match (self, that) {
            (Deed::WriteBelow(folder), Deed::Write(file)) => file.starts_with(folder),
            _ => self == that,
        }
    }
}

/// For how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    /// The next time, within the turn.
    Once,
    /// Until the session ends.
    Session,
}

/// The grants of a session.
#[derive(Debug, Default)]
pub(super) struct Grants(Vec<(Deed, Span)>);

impl Grants {
    /// More than a person gives; the oldest are forgotten first.
    const MOST: usize = 1024;

    pub(super) fn add(&mut self, deed: Deed, span: Span) {
        if span == Span::Session && self.is_standing(&deed) {
            return;
        }
        if self.0.len() >= Self::MOST {
            self.0.remove(0);
        }
        self.0.push((deed, span));
    }

    /// Uses a grant for this, if there is one: one that is for once is then gone.
    pub(super) fn take(&mut self, deed: &Deed) -> bool {
        if self.is_standing(deed) {
            return true;
        }
        let found = self.0.iter().position(|(known, _)| known == deed);
        found.is_some_and(|at| {
            self.0.remove(at);
            true
        })
    }

    /// Whether this is allowed for the whole session.
    pub(super) fn is_standing(&self, deed: &Deed) -> bool {
        self.0.iter().any(|(known, span)| known.covers(deed) && *span == Span::Session)
    }

    /// Another turn: what was for once is gone.
    pub(super) fn turn(&mut self) {
        self.0.retain(|(_, span)| *span == Span::Session);
    }
}
