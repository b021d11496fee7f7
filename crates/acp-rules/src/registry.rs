//! The requirements of the protocol as data: who is bound, how strongly, where it is written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use acp_rpc::Direction;
use serde::{Deserialize, Serialize};

use crate::hash::StaticMap;

/// One of the two ends of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The agent.
    Agent,
    /// The client.
    Client,
}

impl Side {
    /// Who sent a frame that travelled this way.
    #[must_use]
    pub fn sender(dir: Direction) -> Self {
        match dir {
            Direction::ClientToAgent => Self::Client,
            Direction::AgentToClient => Self::Agent,
        }
    }

    /// The other end.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Agent => Self::Client,
            Self::Client => Self::Agent,
        }
    }

    /// `agent` or `client`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Client => "client",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How strongly a requirement binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// `MUST`
    #[serde(rename = "MUST")]
    Must,
    /// `MUST NOT`
    #[serde(rename = "MUST NOT")]
    MustNot,
    /// Stated as fact or required by the schema.
    #[serde(rename = "doc")]
    Doc,
    /// `SHOULD`
    #[serde(rename = "SHOULD")]
    Should,
    /// `SHOULD NOT`
    #[serde(rename = "SHOULD NOT")]
    ShouldNot,
    /// `MAY`
    #[serde(rename = "MAY")]
    May,
    /// Derived, never stated.
    #[serde(rename = "drv")]
    Derived,
}

impl Level {
    /// The word of the registry: `MUST`, `doc`, `drv`…
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::MustNot => "MUST NOT",
            Self::Doc => "doc",
            Self::Should => "SHOULD",
            Self::ShouldNot => "SHOULD NOT",
            Self::May => "MAY",
            Self::Derived => "drv",
        }
    }

    /// Whether breaking it is an error; the rest warns.
    #[must_use]
    pub fn binds(self) -> bool {
        matches!(self, Self::Must | Self::MustNot | Self::Doc)
    }

    /// What breaking a requirement of this level means, unless the requirement itself says otherwise.
    #[must_use]
    pub fn grade(self) -> Grade {
        match self {
            Self::Must | Self::MustNot | Self::Doc => Grade::Fail,
            Self::Should | Self::ShouldNot | Self::Derived => Grade::Warn,
            Self::May => Grade::Note,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What breaking a requirement means for a verdict, the lightest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Worth a note.
    Note,
    /// A warning.
    Warn,
    /// A failure.
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

/// A part of a requirement that weighs differently from the rest, written `RPC-15/code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clause {
    /// What this part requires.
    pub text: String,
    /// What breaking this part means.
    pub broken: Grade,
}

/// When a requirement applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Condition {
    /// The agent declares a capability at this path.
    AgentCap(String),
    /// The agent's answer to `initialize` has something at this path.
    Agent(String),
    /// The answer to `session/new` has something at this path.
    Session(String),
    /// The agent does something that it need not do, in words.
    Behaviour(String),
}

/// One requirement.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// `TRN-01`, `C-SES-02`… Does not change.
    pub id: String,
    /// Who it binds.
    pub binds: Side,
    /// `TRN`, `C-SES`…
    pub area: String,
    /// How strongly.
    pub level: Level,
    /// The page of the protocol's documentation.
    #[serde(rename = "where")]
    pub page: String,
    /// What is required.
    pub text: String,
    /// How it can be observed: `A`, `AF`, `V`, `T`, `M`, `M~`, `U`, `X`.
    pub class: String,
    /// How to check it.
    pub how: String,
    /// What breaking it means, where that differs from the default of its level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<Grade>,
    /// Why it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_why: Option<String>,
    /// Parts that weigh differently, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clauses: BTreeMap<String, Clause>,
    /// When it applies; absent = always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
}

impl Requirement {
    /// What breaking it means, or what breaking this clause of it means. An unknown clause weighs as the whole does.
    #[must_use]
    pub fn grade(&self, clause: Option<&str>) -> Grade {
        match clause.and_then(|name| self.clauses.get(name)) {
            Some(clause) => clause.broken,
            None => self.broken.unwrap_or_else(|| self.level.grade()),
        }
    }

    /// When it applies; `None` = always.
    #[must_use]
    pub fn condition(&self) -> Option<&Condition> {
        self.when.as_ref()
    }

    /// Whether a test can see it without the help of the agent's model.
    #[must_use]
    pub fn is_seen_without_model(&self) -> bool {
        matches!(self.class.as_str(), "A" | "V" | "T")
    }
}

/// All requirements, in the order of the protocol's areas.
#[derive(Debug)]
pub struct Registry {
    rows: Vec<Requirement>,
    places: StaticMap<String, u16>,
}

impl Registry {
    /// Every requirement.
    #[must_use]
    pub fn all(&self) -> &[Requirement] {
        &self.rows
    }

    /// The requirement of that id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Requirement> {
        self.places.get(id).map(|place| &self.rows[usize::from(*place)])
    }

    /// The areas in order, each once.
    #[must_use]
    pub fn areas(&self) -> Vec<&str> {
        let mut areas: Vec<&str> = self.rows.iter().map(|row| row.area.as_str()).collect();
        areas.dedup();
        areas
    }

    pub(crate) fn place(&self, id: &str) -> Option<u16> {
        self.places.get(id).copied()
    }
}

/// The registry that is part of the program.
#[must_use]
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let rows: Vec<Requirement> =
            serde_json::from_str(include_str!("../data/requirements.json")).unwrap_or_default();
        let places = (0_u16..).zip(&rows).map(|(place, row)| (row.id.clone(), place)).collect();
        Registry { rows, places }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_grades_its_requirements_unless_they_say_otherwise() {
        let mut row = registry().get("RPC-10").unwrap().clone();
        assert_eq!(row.grade(None), row.broken.unwrap_or(Grade::Warn));
        row.broken = Some(Grade::Fail);
        row.clauses.insert("code".to_owned(), Clause { text: "t".to_owned(), broken: Grade::Note });
        assert_eq!(row.grade(None), Grade::Fail);
        assert_eq!((row.grade(Some("code")), row.grade(Some("other"))), (Grade::Note, Grade::Fail));
        assert!(Grade::Note < Grade::Warn && Grade::Warn < Grade::Fail);
    }

    #[test]
    fn the_registry_has_every_requirement_once() {
        let registry = registry();
        let agent = registry.all().iter().filter(|row| row.binds == Side::Agent).count();
        assert_eq!((agent, registry.all().len() - agent), (223, 101));
        assert_eq!(registry.places.len(), registry.all().len());
        assert_eq!(registry.get("RPC-10").map(|row| row.level), Some(Level::ShouldNot));
        for row in registry.all() {
            assert_eq!(row.id.starts_with("C-"), row.binds == Side::Client, "{}", row.id);
            assert!(row.id.starts_with(&format!("{}-", row.area)), "{}", row.id);
        }
    }
}
