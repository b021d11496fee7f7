//! The eight policies and the kinds of tools they speak about.

use std::fmt;
use std::str::FromStr;

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

/// The kind of a tool call, as the protocol names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolKind {
    /// Reads files or data.
    Read,
    /// Changes files.
    Edit,
    /// Removes files.
    Delete,
    /// Moves or renames files.
    Move,
    /// Looks for something.
    Search,
    /// Runs a command.
    Execute,
    /// Reasons, touching nothing.
    Think,
    /// Fetches from outside.
    Fetch,
    /// Changes the session's mode.
    SwitchMode,
    /// Anything else, and every kind that this version does not know.
    Other,
}

impl ToolKind {
    /// Every kind, in the protocol's order.
    pub const ALL: [ToolKind; 10] = [
        ToolKind::Read,
        ToolKind::Edit,
        ToolKind::Delete,
        ToolKind::Move,
        ToolKind::Search,
        ToolKind::Execute,
        ToolKind::Think,
        ToolKind::Fetch,
        ToolKind::SwitchMode,
        ToolKind::Other,
    ];

    /// The kind's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ToolKind::Read => "read",
            ToolKind::Edit => "edit",
            ToolKind::Delete => "delete",
            ToolKind::Move => "move",
            ToolKind::Search => "search",
            ToolKind::Execute => "execute",
            ToolKind::Think => "think",
            ToolKind::Fetch => "fetch",
            ToolKind::SwitchMode => "switch_mode",
            ToolKind::Other => "other",
        }
    }

    /// Reads a wire name; an unknown name is [`ToolKind::Other`], the most careful class.
    pub fn from_wire(name: &str) -> ToolKind {
        ToolKind::ALL.into_iter().find(|k| k.as_str() == name).unwrap_or(ToolKind::Other)
    }

    /// What the kind can do to the world.
    pub const fn class(self) -> Class {
        match self {
            ToolKind::Read | ToolKind::Search | ToolKind::Think => Class::Read,
            ToolKind::Edit | ToolKind::Delete | ToolKind::Move => Class::Write,
            ToolKind::Execute | ToolKind::Fetch | ToolKind::SwitchMode | ToolKind::Other => Class::Execute,
        }
    }

    /// The tool names that stand for this kind in patterns, whatever a call says its tool's name is.
    pub const fn pattern_names(self) -> &'static [&'static str] {
        match self {
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
}

impl fmt::Display for ToolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an operation can do to the world: the three classes that `none`, `read`, `write` and `yolo` tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Looks only.
    Read,
    /// Changes files.
    Write,
    /// Everything else.
    Execute,
}

impl Class {
    /// The class in words, for reasons.
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Write => "write",
            Class::Execute => "execute",
        }
    }
}
