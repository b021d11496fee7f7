//! The eight policies and the kinds of tools they speak about.
//!
//! A policy that forbids is a ceiling: everything that offers or takes a mode reads the same list. A request for a
//! decision carries all names of its tool (its own, and the one that models see), and a pattern for one of them is
//! enough. Paths in patterns are followed through links as those of requests are.

use std::fmt;
use std::str::FromStr;

use acp_proto::ToolKind;

/// How permission is given when no pattern says otherwise.
///
/// The first four are for unattended runs, the last four are the permission modes of coding agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// Deny every operation.
    None,
    /// Allow reading; deny writing and executing.
    Read,
    /// Allow reading and writing; deny executing.
    Write,
    /// Allow everything.
    Yolo,
    /// Approve nothing by itself; ask for every tool.
    #[default]
    Default,
    /// Approve file operations; ask for commands and for anything outside.
    AcceptEdits,
    /// Approve everything, ask for nothing. Dangerous.
    BypassPermissions,
    /// Approve nothing and ask for nothing: nothing is executed.
    Plan,
}

impl Policy {
    /// All eight, in the order in which help texts list them.
    pub const ALL: [Policy; 8] = [
        Policy::None,
        Policy::Read,
        Policy::Write,
        Policy::Yolo,
        Policy::Default,
        Policy::AcceptEdits,
        Policy::BypassPermissions,
        Policy::Plan,
    ];

    /// The name used on the command line and in test files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::Read => "read",
            Policy::Write => "write",
            Policy::Yolo => "yolo",
            Policy::Default => "default",
            Policy::AcceptEdits => "acceptEdits",
            Policy::BypassPermissions => "bypassPermissions",
            Policy::Plan => "plan",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Policy::ALL.into_iter().find(|p| p.as_str() == name).ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// A policy name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no policy {0:?}; use one of none, read, write, yolo, default, acceptEdits, bypassPermissions, plan"
)]
pub struct UnknownPolicy(pub String);

/// The tool names that stand for a kind in patterns, whatever a call says its tool's name is.
pub(crate) const fn pattern_names(kind: ToolKind) -> &'static [&'static str] {
    match kind {
        ToolKind::Read => &["Read"],
        ToolKind::Edit => &["Edit", "Write"],
        ToolKind::Delete => &["Delete"],
        ToolKind::Move => &["Move"],
        ToolKind::Search => &["Grep", "Glob", "Search"],
        ToolKind::Execute => &["Bash", "Execute", "run_command"],
        ToolKind::Think => &["Think"],
        ToolKind::Fetch => &["WebFetch", "Fetch"],
        ToolKind::SwitchMode => &["SwitchMode"],
        ToolKind::Other => &[],
    }
}

/// What an operation can do to the world: the three classes that `none`, `read`, `write` and `yolo` tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperationClass {
    /// Looks only.
    Read,
    /// Changes files.
    Write,
    /// Everything else.
    Execute,
}

impl OperationClass {
    /// What a tool of this kind can do. A kind that says nothing is in the most careful class.
    #[must_use]
    pub const fn of(kind: ToolKind) -> OperationClass {
        match kind {
            ToolKind::Read | ToolKind::Search | ToolKind::Think => OperationClass::Read,
            ToolKind::Edit | ToolKind::Delete | ToolKind::Move => OperationClass::Write,
            ToolKind::Execute | ToolKind::Fetch | ToolKind::SwitchMode | ToolKind::Other => {
                OperationClass::Execute
            }
        }
    }

    /// The class in words, for reasons.
    pub const fn as_str(self) -> &'static str {
        match self {
            OperationClass::Read => "read",
            OperationClass::Write => "write",
            OperationClass::Execute => "execute",
        }
    }
}
