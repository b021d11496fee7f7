//! The decision itself: deny patterns, then allow patterns, then the policy's table.

use crate::{OperationClass, Policy, ToolKind, ToolPattern, ToolPatterns};

/// The settings that decisions follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyRules {
    /// What happens when no pattern matches.
    pub policy: Policy,
    /// Tools that are allowed without a question.
    pub allow: ToolPatterns,
    /// Tools that are never allowed; stronger than everything else.
    pub deny: ToolPatterns,
}

/// Something that is about to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyRequest<'a> {
    /// Whether permission is asked, or the thing itself.
    pub stage: ToolStage,
    /// The kind of tool call.
    pub kind: ToolKind,
    /// The tool's names, as far as they are known: a pattern that is about one of them is about the tool.
    pub tools: &'a [&'a str],
    /// What it would be done on.
    pub action: ToolAction<'a>,
    /// The session's folder: path patterns may be relative to it.
    pub root: Option<&'a str>,
}

/// Where in a tool's life the question comes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolStage {
    /// The agent asks for permission (`session/request_permission`).
    Permission,
    /// The agent uses what the client offers (`fs/*`, `terminal/create`), or a tool runs by itself.
    Access,
}

/// What a tool would be used on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolAction<'a> {
    /// A command, as a shell would read it (see [`crate::shell::quoted`] for a program with arguments).
    Command(&'a str),
    /// A file.
    Path(&'a str),
    /// A file that lies outside the session's folders, as far as the caller knows. Patterns read it as a
    /// [path](ToolAction::Path); no policy approves changing it unasked, unless it approves everything.
    Outside(&'a str),
    /// The call does not say.
    Unknown,
}

/// Yes, no, or a person must say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyVerdict {
    /// Go on.
    Allow,
    /// Refuse.
    Deny,
    /// Ask a person; where there is none, refuse.
    Ask,
}

impl PolicyVerdict {
    /// One word for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyVerdict::Allow => "allow",
            PolicyVerdict::Deny => "deny",
            PolicyVerdict::Ask => "ask",
        }
    }
}

/// A verdict with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDecision {
    /// Yes, no, or ask.
    pub verdict: PolicyVerdict,
    /// Why, in words for a log.
    pub reason: String,
}

impl PolicyRules {
    /// Rules with a policy and no patterns.
    pub fn of(policy: Policy) -> PolicyRules {
        PolicyRules { policy, ..PolicyRules::default() }
    }

    /// Decides. Deny patterns come before allow patterns, and both before the policy; only [`Policy::Plan`], in
    /// which nothing is executed, is not opened by an allow pattern.
    pub fn decide(&self, request: &PolicyRequest<'_>) -> PolicyDecision {
        if let Some(pattern) = self.deny.touching(request) {
            return PolicyDecision {
                verdict: PolicyVerdict::Deny,
                reason: format!("denied by the pattern {pattern}"),
            };
        }
        if self.policy != Policy::Plan
            && let Some(pattern) = self.allow.covering(request)
        {
            return PolicyDecision {
                verdict: PolicyVerdict::Allow,
                reason: format!("allowed by the pattern {pattern}"),
            };
        }
        let verdict = match request.stage {
            ToolStage::Permission => permission(self.policy, request),
            ToolStage::Access => access(self.policy, request),
        };
        let word = match verdict {
            PolicyVerdict::Allow => "allows",
            PolicyVerdict::Deny => "denies",
            PolicyVerdict::Ask => "asks about",
        };
        let reason = match self.policy {
            Policy::None | Policy::Read | Policy::Write | Policy::Yolo => {
                let class = request.class().as_str();
                format!("policy {} {word} {class} operations (tool kind {})", self.policy, request.kind)
            }
            mode => format!("mode {mode} {word} tool kind {}", request.kind),
        };
        PolicyDecision { verdict, reason }
    }
}

impl PolicyRules {
    /// The deny pattern that may be about a call which does not show what it would be used on.
    pub fn unseen(&self, request: &PolicyRequest<'_>) -> Option<&ToolPattern> {
        self.deny.iter().find(|pattern| pattern.may_touch(request))
    }

    /// Whether such a tool is refused whatever it would be used on, so that nobody needs to be offered it.
    pub fn closes(&self, request: &PolicyRequest<'_>) -> bool {
        let whole = PolicyRequest { action: ToolAction::Unknown, ..*request };
        let opened = self.policy != Policy::Plan && self.allow.names(&whole);
        self.deny.touching(&whole).is_some()
            || (!opened && self.decide(&whole).verdict == PolicyVerdict::Deny)
    }
}

/// The table for questions of the agent.
fn permission(policy: Policy, request: &PolicyRequest<'_>) -> PolicyVerdict {
    let class = request.class();
    let changes_outside = class == OperationClass::Write && matches!(request.action, ToolAction::Outside(_));
    match policy {
        Policy::None | Policy::Plan => PolicyVerdict::Deny,
        Policy::Read => allow_if(class == OperationClass::Read),
        Policy::Write | Policy::AcceptEdits if changes_outside => PolicyVerdict::Ask,
        Policy::Write => allow_if(class <= OperationClass::Write),
        Policy::Yolo | Policy::BypassPermissions => PolicyVerdict::Allow,
        Policy::Default => PolicyVerdict::Ask,
        Policy::AcceptEdits if class <= OperationClass::Write => PolicyVerdict::Allow,
        Policy::AcceptEdits => PolicyVerdict::Ask,
    }
}

/// The table for what the client itself does at the agent's request. It differs where a mode asks about every
/// tool: reading a file inside the workspace, which the client offered to do, is not a tool call of its own.
fn access(policy: Policy, request: &PolicyRequest<'_>) -> PolicyVerdict {
    let reads = request.class() == OperationClass::Read;
    match policy {
        Policy::Default | Policy::Plan if reads => PolicyVerdict::Allow,
        policy => permission(policy, request),
    }
}

const fn allow_if(condition: bool) -> PolicyVerdict {
    if condition { PolicyVerdict::Allow } else { PolicyVerdict::Deny }
}

impl PolicyRequest<'_> {
    /// What it can do to the world. A call that shows a command runs one, whatever it says its kind is.
    fn class(&self) -> OperationClass {
        match self.action {
            ToolAction::Command(_) => OperationClass::Execute,
            _ => OperationClass::of(self.kind),
        }
    }
}
