use std::fmt;

use acp_policy::PolicyVerdict;

/// One decision, for the log: what was asked, what was said, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRecord {
    /// The method that led to it.
    pub method: String,
    /// The session it belongs to, when the request names one.
    pub session: Option<String>,
    /// What it was about: a path, a command, a tool call's title.
    pub subject: String,
    /// Yes or no; [`PolicyVerdict::Ask`] when a person was asked (a second record says what they answered).
    pub verdict: PolicyVerdict,
    /// Why.
    pub reason: String,
}

impl fmt::Display for DecisionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.verdict.as_str();
        write!(f, "{word} {} {}: {}", self.method, self.subject, self.reason)
    }
}
