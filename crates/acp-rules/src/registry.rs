//! The requirements of the protocol as data: who is bound, how strongly, where it is written.

use std::fmt;
use std::sync::OnceLock;

use acp_proto::Side;
use serde::{Deserialize, Serialize};

use crate::grade::{Clauses, Condition, Grade};
use crate::hash::StaticMap;

/// How strongly a requirement binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RequirementLevel {
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

impl RequirementLevel {
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
}

impl fmt::Display for RequirementLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Who sees whether a requirement is kept, where nothing that a program can observe from outside shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeenBy {
    /// A person in front of the screen: can be asked.
    Person,
    /// A reader of the documents that come with it.
    Documents,
    /// Nobody: it stays inside, or nothing brings it about.
    Nobody,
}

impl fmt::Display for SeenBy {
    /// `cannot be seen from outside: …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Person => "cannot be seen from outside: only a person in front of the screen sees it",
            Self::Documents => "cannot be seen from outside: only its documents say so",
            Self::Nobody => "cannot be seen from outside, nor provoked",
        })
    }
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
    pub level: RequirementLevel,
    /// The page of the protocol's documentation.
    #[serde(rename = "where")]
    pub page: String,
    /// What is required.
    pub text: String,
    /// How it can be observed: `A`, `AF`, `V`, `T`, `M`, `M~`, `U`, `X`.
    pub class: String,
    /// How to check it.
    pub how: String,
    /// Who sees it, where it cannot be seen from outside. Rows that bind clients say so; those of agents have only the
    /// class `X`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_by: Option<SeenBy>,
    /// What breaking it means. Rows that bind clients always say so, those of agents where it is not what the level says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<Grade>,
    /// Why, where that is not what the level says.
    #[serde(default, rename = "brokenWhy", skip_serializing_if = "Option::is_none")]
    pub broken_why: Option<String>,
    /// Parts that weigh otherwise than the rest.
    #[serde(default, skip_serializing_if = "Clauses::is_empty")]
    pub clauses: Clauses,
    /// When it applies; absent = always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
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
    fn the_registry_has_every_requirement_once() {
        let registry = registry();
        let agent = registry.all().iter().filter(|row| row.binds == Side::Agent).count();
        assert_eq!((agent, registry.all().len() - agent), (223, 101));
        assert_eq!(registry.places.len(), registry.all().len());
        assert_eq!(registry.get("RPC-10").map(|row| row.level), Some(RequirementLevel::ShouldNot));
        for row in registry.all() {
            assert_eq!(row.id.starts_with("C-"), row.binds == Side::Client, "{}", row.id);
            assert!(row.id.starts_with(&format!("{}-", row.area)), "{}", row.id);
        }
    }

    #[test]
    fn what_cannot_be_seen_of_a_client_says_who_sees_it() {
        let clients = || registry().all().iter().filter(|row| row.binds == Side::Client);
        for row in clients() {
            assert_eq!(row.seen_by.is_some(), row.class == "X", "{}", row.id);
        }
        let count = |who| clients().filter(|row| row.seen_by == who).count();
        assert_eq!(count(None), 78);
        assert_eq!(
            [SeenBy::Person, SeenBy::Documents, SeenBy::Nobody].map(|who| count(Some(who))),
            [18, 1, 4]
        );
    }
}
