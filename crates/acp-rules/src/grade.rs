//! What breaking a requirement means, and when it applies.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::registry::{Requirement, RequirementLevel};

/// What breaking a requirement means, the lightest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Told, and nothing more.
    Note,
    /// Only advised, derived or doubtful.
    Warn,
    /// The side does not conform.
    Fail,
}

impl Grade {
    /// `fail`, `warn` or `note`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<RequirementLevel> for Grade {
    /// The grade of a requirement that has no other reason.
    fn from(level: RequirementLevel) -> Self {
        match level {
            RequirementLevel::Must | RequirementLevel::MustNot | RequirementLevel::Doc => Self::Fail,
            RequirementLevel::Should | RequirementLevel::ShouldNot | RequirementLevel::Derived => Self::Warn,
            RequirementLevel::May => Self::Note,
        }
    }
}

/// A part of a requirement that weighs less or more than the rest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clause {
    /// What is required.
    pub text: String,
    /// What breaking it means.
    pub broken: Grade,
}

/// The clauses of a requirement by their names.
pub type Clauses = BTreeMap<String, Clause>;

/// When a requirement applies. Paths are written with dots, list places as numbers: `authMethods.0`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Condition {
    /// The agent advertises these capabilities, all of them.
    AgentCap(Paths),
    /// The result of initialize has this member.
    Agent(Paths),
    /// The result of session/new has this member.
    Session(Paths),
    /// The client advertises these capabilities, all of them.
    ClientCap(Paths),
    /// Something happens that need not happen: words for people.
    Behaviour(String),
}

/// One path, or several that are all needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Paths {
    /// One.
    One(String),
    /// All of them.
    All(Vec<String>),
}

impl Paths {
    /// The paths.
    #[must_use]
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::All(paths) => paths,
        }
    }

    fn are_in(&self, value: &Value) -> bool {
        self.all().iter().all(|path| is_there(value, path))
    }

    fn words(&self) -> String {
        self.all().join(" and ")
    }
}

/// What is known of a connection, as far as conditions ask for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// The params of initialize.
    pub asked: Option<&'a Value>,
    /// The result of initialize.
    pub agent: Option<&'a Value>,
    /// The result of session/new.
    pub session: Option<&'a Value>,
}

impl Condition {
    /// Whether it holds. `None` when that is not known, and for everything that only happens or not.
    #[must_use]
    pub fn holds(&self, facts: Facts<'_>) -> Option<bool> {
        match self {
            Self::AgentCap(paths) => {
                facts.agent.map(|agent| agent.get("agentCapabilities").is_some_and(|caps| paths.are_in(caps)))
            }
            Self::Agent(paths) => facts.agent.map(|agent| paths.are_in(agent)),
            Self::Session(paths) => facts.session.map(|session| paths.are_in(session)),
            Self::ClientCap(paths) => facts
                .asked
                .map(|asked| asked.get("clientCapabilities").is_some_and(|caps| paths.are_in(caps))),
            Self::Behaviour(_) => None,
        }
    }
}

impl fmt::Display for Condition {
    /// `the agent advertises loadSession`: what is needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgentCap(paths) => write!(f, "the agent advertises {}", paths.words()),
            Self::Agent(paths) => write!(f, "the result of initialize has {}", paths.words()),
            Self::Session(paths) => write!(f, "the result of session/new has {}", paths.words()),
            Self::ClientCap(paths) => write!(f, "the client advertises {}", paths.words()),
            Self::Behaviour(words) => f.write_str(words),
        }
    }
}

/// Whether something is at the path: neither nothing, nor null, nor false.
fn is_there(value: &Value, path: &str) -> bool {
    let mut at = value;
    for step in path.split('.') {
        let next = match at {
            Value::Array(items) => step.parse::<usize>().ok().and_then(|place| items.get(place)),
            _ => at.get(step),
        };
        match next {
            Some(next) => at = next,
            None => return false,
        }
    }
    !matches!(at, Value::Null | Value::Bool(false))
}

impl Requirement {
    /// What breaking the requirement means, or one of its clauses. A clause that does not exist counts as the whole.
    #[must_use]
    pub fn grade(&self, clause: Option<&str>) -> Grade {
        let part = clause.and_then(|name| self.clauses.get(name)).map(|clause| clause.broken);
        part.or(self.broken).unwrap_or_else(|| self.level.into())
    }

    /// When it applies; `None` = always.
    #[must_use]
    pub fn condition(&self) -> Option<&Condition> {
        self.when.as_ref()
    }

    /// Whether it can be put to the test whatever the model does.
    #[must_use]
    pub fn is_seen_without_model(&self) -> bool {
        matches!(self.class.as_str(), "A" | "V" | "T")
    }
}

/// `RPC-15/code` in its two parts.
pub(crate) fn split(claim: &str) -> (&str, Option<&str>) {
    claim.split_once('/').map_or((claim, None), |(row, clause)| (row, Some(clause)))
}

#[cfg(test)]
mod tests {
    use acp_proto::Side;
    use serde_json::json;

    use super::*;
    use crate::claim::ClaimId;
    use crate::registry::registry;

    fn grade(claim: &str) -> Grade {
        claim.parse::<ClaimId>().unwrap_or_else(|error| panic!("{error}")).grade()
    }

    #[test]
    fn the_grade_follows_the_level_unless_the_row_says_otherwise() {
        assert_eq!(grade("RPC-07"), Grade::Fail, "MUST");
        assert_eq!(grade("SES-14"), Grade::Fail, "doc");
        assert_eq!(grade("INIT-02"), Grade::Warn, "SHOULD");
        assert_eq!(grade("MODE-04"), Grade::Warn, "drv");
        assert_eq!(grade("CMD-02"), Grade::Note, "MAY");
        assert_eq!(grade("PERM-03"), Grade::Fail);
        assert_eq!(grade("TRN-09"), Grade::Note);
        assert_eq!((grade("RPC-15"), grade("RPC-15/code")), (Grade::Fail, Grade::Warn));
        assert_eq!((grade("RPC-05"), grade("RPC-05/silence")), (Grade::Fail, Grade::Warn));
        assert_eq!((grade("EXT-01"), grade("EXT-01/unstable")), (Grade::Fail, Grade::Warn));
        assert_eq!((grade("C-SES-04"), grade("C-SES-04/servers")), (Grade::Fail, Grade::Warn));
        assert_eq!((grade("C-TRN-05"), grade("C-PERM-02")), (Grade::Warn, Grade::Warn), "MAY, with a reason");
    }

    #[test]
    fn exceptions_differ_from_the_level_and_have_a_reason_and_clauses_differ_from_their_row() {
        for row in registry().all() {
            let usual = Grade::from(row.level);
            let differs = row.broken.is_some_and(|grade| grade != usual);
            assert_eq!(
                differs,
                row.broken_why.is_some(),
                "{}: what differs from its level has a reason",
                row.id
            );
            match row.binds {
                Side::Agent => assert!(differs || row.broken.is_none(), "{}: the grade of its level", row.id),
                Side::Client => assert!(row.broken.is_some(), "{}: rows of clients say their grade", row.id),
            }
            for (name, clause) in &row.clauses {
                assert_ne!(clause.broken, row.grade(None), "{}/{name} weighs what its row weighs", row.id);
                assert!(!clause.text.is_empty() && !name.contains('/'), "{}/{name}", row.id);
            }
        }
    }

    #[test]
    fn conditions_look_at_what_was_said() {
        let agent = json!({"agentCapabilities": {"loadSession": true, "sessionCapabilities": {"list": {}, "delete": null},
            "mcpCapabilities": {"http": false}}, "authMethods": [{"id": "key", "name": "Key"}]});
        let facts = Facts { agent: Some(&agent), ..Facts::default() };
        let holds =
            |id: &str| registry().get(id).and_then(Requirement::condition).map(|when| when.holds(facts));
        assert_eq!(holds("SES-03"), Some(Some(true)));
        assert_eq!(holds("SES-16"), Some(Some(true)));
        assert_eq!(holds("SES-26"), Some(Some(false)), "both list and delete are needed");
        assert_eq!(holds("MCP-03"), Some(Some(false)));
        assert_eq!(holds("AUTH-01"), Some(Some(true)));
        assert_eq!(holds("MODE-01"), Some(None), "no session was seen");
        assert_eq!(holds("PLAN-02"), Some(None), "it happens or not");
        assert_eq!(holds("RPC-07"), None, "it always applies");
    }

    /// `CONFORMANT` needs every one of them: a row that some conforming agent cannot be shown to keep must not be here.
    #[test]
    fn what_every_agent_must_be_shown_to_keep() {
        let rows: Vec<&str> = registry()
            .all()
            .iter()
            .filter(|row| row.id.starts_with(char::is_alphabetic) && !row.id.starts_with("C-"))
            .filter(|row| row.grade(None) == Grade::Fail && row.is_seen_without_model())
            .filter(|row| row.condition().is_none())
            .map(|row| row.id.as_str())
            .collect();
        let expected = "TRN-01 TRN-03 TRN-04 TRN-05 TRN-06 TRN-07 RPC-01 RPC-02 RPC-03 RPC-04 RPC-05 RPC-06 RPC-07 \
                        RPC-08 RPC-15 RPC-17 INIT-01 INIT-03 INIT-04 INIT-05 INIT-06 INIT-11 INIT-12 AUTH-03 SES-01 \
                        MCP-07 PT-01 PT-02 PT-03 PT-04 CNT-01 CNT-02 CNT-06 EXT-01 EXT-02 EXT-03 EXT-05 EXT-06";
        assert_eq!(rows.join(" "), expected);
    }
}
