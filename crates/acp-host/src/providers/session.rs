//! What the providers know of a session.

use super::grants::Grants;
use crate::jail::Roots;

#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) roots: Option<Roots>,
    /// What the person allowed.
    pub(super) grants: Grants,
    turn: Turn,
}

/// ```text
/// Unknown ──began──► Running ──cancel──► Cancelled
///    ▲                  │                    │
///    └──────ended───────┴───────ended────────┘
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// No turn runs, or nobody tells.
    #[default]
    Unknown,
    Running,
    Cancelled,
}

impl Session {
    pub(super) fn turn_began(&mut self) {
        self.turn = Turn::Running;
        self.grants.turn();
    }

    pub(super) fn turn_ended(&mut self) {
        self.turn = Turn::Unknown;
        self.grants.turn();
    }

    /// Only a turn that is known to run can stay cancelled: otherwise nobody would tell when that ends.
    pub(super) fn cancel(&mut self) {
        if self.turn == Turn::Running {
            self.turn = Turn::Cancelled;
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.turn == Turn::Cancelled
    }
}
