//! The decision itself: deny patterns, then allow patterns, then the policy's table.

use crate::{Class, Policy, ToolKind, ToolPattern, ToolPatterns};

/// The settings that decisions follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// What happens when no pattern matches.
    pub policy: Policy,
    /// Tools that are allowed without a question.
    pub allow: ToolPatterns,
    /// Tools that are never allowed; stronger than everything else.
    pub deny: ToolPatterns,
}

/// Something that is about to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Whether permission is asked, or the thing itself.
    pub stage: Stage,
    /// The kind of tool call.
    pub kind: ToolKind,
    /// The tool's names, as far as they are known: a pattern that is about one of them is about the tool.
    pub tools: &'a [&'a str],
    /// What it would be done on.
    pub action: Action<'a>,
    /// The session's folder: path patterns may be relative to it.
    pub root: Option<&'a str>,
}

/// Where in a tool's life the question comes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The agent asks for permission (`session/request_permission`).
    Permission,
    /// The agent uses what the client offers (`fs/*`, `terminal/create`), or a tool runs by itself.
    Access,
}

/// What a tool would be used on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// A command, as a shell would read it (see [`crate::shell::quoted`] for a program with arguments).
    Command(&'a str),
    /// A file.
    Path(&'a str),
    /// A file that lies outside the session's folders, as far as the caller knows. Patterns read it as a
    /// [path](Action::Path); no policy approves changing it unasked, unless it approves everything.
    Outside(&'a str),
    /// The call does not say.
    Unknown,
}

/// Yes, no, or a person must say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Go on.
    Allow,
    /// Refuse.
    Deny,
    /// Ask a person; where there is none, refuse.
    Ask,
}

impl Verdict {
    /// One word for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
            Verdict::Ask => "ask",
        }
    }
}

/// A verdict with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Yes, no, or ask.
    pub verdict: Verdict,
    /// Why, in words for a log.
    pub reason: String,
}

impl Rules {
    /// Rules with a policy and no patterns.
    pub fn of(policy: Policy) -> Rules {
        Rules { policy, ..Rules::default() }
    }

    /// Decides. Deny patterns come before allow patterns, and both before the policy; only [`Policy::Plan`], in
    /// which nothing is executed, is not opened by an allow pattern.
    pub fn decide(&self, request: &Request<'_>) -> Decision {
        if let Some(pattern) = self.deny.touching(request) {
            return Decision { verdict: Verdict::Deny, reason: format!("denied by the pattern {pattern}") };
        }
        if self.policy != Policy::Plan
            && let Some(pattern) = self.allow.covering(request)
        {
            return Decision { verdict: Verdict::Allow, reason: format!("allowed by the pattern {pattern}") };
        }
        let verdict = match request.stage {
            Stage::Permission => permission(self.policy, request),
            Stage::Access => access(self.policy, request),
        };
        let word = match verdict {
            Verdict::Allow => "allows",
            Verdict::Deny => "denies",
            Verdict::Ask => "asks about",
        };
        let reason = match self.policy {
            Policy::None | Policy::Read | Policy::Write | Policy::Yolo => {
                let class = request.class().as_str();
                format!("policy {} {word} {class} operations (tool kind {})", self.policy, request.kind)
            }
            mode => format!("mode {mode} {word} tool kind {}", request.kind),
        };
        Decision { verdict, reason }
    }
}

impl Rules {
    /// Decides about one call that would be used on several things: all of them must be allowed.
    pub fn decide_all(&self, request: &Request<'_>, actions: &[Action<'_>]) -> Decision {
        let decisions = actions.iter().map(|action| self.decide(&Request { action: *action, ..*request }));
        let strictest = decisions.max_by_key(|decision| match decision.verdict {
            Verdict::Allow => 0,
            Verdict::Ask => 1,
            Verdict::Deny => 2,
        });
        strictest.unwrap_or_else(|| self.decide(&Request { action: Action::Unknown, ..*request }))
    }

    /// The deny pattern that may be about a call which does not show what it would be used on.
    pub fn unseen(&self, request: &Request<'_>) -> Option<&ToolPattern> {
        self.deny.iter().find(|pattern| pattern.may_touch(request))
    }

    /// Whether such a tool is refused whatever it would be used on, so that nobody needs to be offered it.
    pub fn closes(&self, request: &Request<'_>) -> bool {
        let whole = Request { action: Action::Unknown, ..*request };
        let opened = self.policy != Policy::Plan && self.allow.names(&whole);
        self.deny.touching(&whole).is_some() || (!opened && self.decide(&whole).verdict == Verdict::Deny)
    }
}

/// The table for questions of the agent.
fn permission(policy: Policy, request: &Request<'_>) -> Verdict {
    let class = request.class();
    let changes_outside = class == Class::Write && matches!(request.action, Action::Outside(_));
    match policy {
        Policy::None | Policy::Plan => Verdict::Deny,
        Policy::Read => allow_if(class == Class::Read),
        Policy::Write | Policy::AcceptEdits if changes_outside => Verdict::Ask,
        Policy::Write => allow_if(class <= Class::Write),
        Policy::Yolo | Policy::BypassPermissions => Verdict::Allow,
        Policy::Default => Verdict::Ask,
        Policy::AcceptEdits if class <= Class::Write => Verdict::Allow,
        Policy::AcceptEdits => Verdict::Ask,
    }
}

/// The table for what the client itself does at the agent's request. It differs where a mode asks about every
/// tool: reading a file inside the workspace, which the client offered to do, is not a tool call of its own.
fn access(policy: Policy, request: &Request<'_>) -> Verdict {
    let reads = request.class() == Class::Read;
    match policy {
        Policy::Default | Policy::Plan if reads => Verdict::Allow,
        policy => permission(policy, request),
    }
}

const fn allow_if(condition: bool) -> Verdict {
    if condition { Verdict::Allow } else { Verdict::Deny }
}

impl Request<'_> {
    /// What it can do to the world. A call that shows a command runs one, whatever it says its kind is.
    fn class(&self) -> Class {
        match self.action {
            Action::Command(_) => Class::Execute,
            _ => Class::of(self.kind),
        }
    }
}
