//! What the judge says: findings with their evidence.

use std::borrow::Cow;
use std::time::Duration;

use acp_proto::Side;
use acp_rpc::Direction;
use serde::{Serialize, Serializer};

use crate::grade::Grade;
use crate::registry::registry;

/// The longest excerpt kept of a frame, in bytes.
pub(crate) const EXCERPT: usize = 400;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something that is only advised, derived or doubtful.
    Warning,
    /// A requirement that binds is broken.
    Error,
}

impl Severity {
    /// `error` or `warning`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One broken requirement, with what shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The rule's name, which does not change: `tool-call-created-twice`.
    pub rule: &'static str,
    /// The requirement that is broken.
    pub requirement: &'static str,
    /// The part of it, where parts weigh differently.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clause: Option<&'static str>,
    /// Requirements that the same thing breaks too.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub also: &'static [&'static str],
    /// What that means: the grade of the requirement or its clause, and never more than the rule's own weight.
    pub grade: Grade,
    /// Who broke it.
    pub blame: Side,
    /// An error when the grade is `fail`, or else a warning.
    pub severity: Severity,
    /// What happened, in plain words.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
    /// Only the end of the conversation shows it: something that had to come did not. A second look, with more time,
    /// may show that it was only late.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
    /// The frames that show it; the one that broke the rule comes first.
    pub evidence: Vec<FindingEvidence>,
}

impl Finding {
    /// What it breaks, and what that means: its requirement, and those that are broken along with it.
    pub fn broken(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>, Grade)> {
        let also = self.also.iter().filter_map(|id| {
            let row = registry().get(id)?;
            Some((*id, None, row.grade(None).min(self.grade)))
        });
        std::iter::once((self.requirement, self.clause, self.grade)).chain(also)
    }
}

/// One frame as evidence.
#[derive(Debug, Clone, Serialize)]
pub struct FindingEvidence {
    /// The frame's number in the conversation, from 0.
    pub index: u64,
    /// When, since the conversation began.
    #[serde(rename = "t", serialize_with = "seconds")]
    pub at: Duration,
    /// Which way it travelled.
    #[serde(serialize_with = "direction")]
    pub dir: Direction,
    /// The beginning of the frame's text; empty for an earlier frame, whose text is not kept.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
    /// A JSON pointer into the frame, empty for the whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pointer: String,
}

fn seconds<S: Serializer>(at: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(at.as_secs_f64())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn direction<S: Serializer>(dir: &Direction, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(dir.as_str())
}

/// At most `limit` bytes of the text, cut between characters, with `…` when something was left out.
pub(crate) fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}…", &text[..end]))
}
