//! What the providers know of a session.

use acp_policy::Class;

use crate::jail::Roots;
use crate::permission::ToolCalls;

#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) roots: Option<Roots>,
    pub(super) calls: ToolCalls,
    turn: Turn,
    granted: Option<Class>,
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
        self.granted = None;
    }

    pub(super) fn turn_ended(&mut self) {
        self.turn = Turn::Unknown;
        self.granted = None;
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

    /// Permission was given for a tool call that can do this much.
    pub(super) fn grant(&mut self, class: Class) {
        self.granted = self.granted.max(Some(class));
    }

    pub(super) fn granted(&self, class: Class) -> bool {
        self.granted >= Some(class)
    }
}
