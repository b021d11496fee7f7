//! The name of what a test claims: a requirement, or one clause of it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::registry::{Grade, Requirement, registry};

/// A requirement, `RPC-15`, or one clause of it, `RPC-15/code`. It exists in the registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId {
    text: String,
    /// Where the row's name ends.
    row: usize,
}

/// A claim that the registry does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimError {
    /// There is no such requirement.
    Row(String),
    /// The requirement has no such clause.
    Clause {
        /// The claim as written.
        claim: String,
        /// The clauses that the requirement has.
        known: Vec<String>,
    },
}

impl ClaimId {
    /// Reads a claim and looks it up in the registry.
    pub fn parse(text: &str) -> Result<Self, ClaimError> {
        let (row, clause) = match text.split_once('/') {
            Some((row, clause)) => (row, Some(clause)),
            None => (text, None),
        };
        let Some(requirement) = registry().get(row) else { return Err(ClaimError::Row(row.to_owned())) };
        if clause.is_some_and(|clause| !requirement.clauses.contains_key(clause)) {
            let known = requirement.clauses.keys().cloned().collect();
            return Err(ClaimError::Clause { claim: text.to_owned(), known });
        }
        Ok(Self { text: text.to_owned(), row: row.len() })
    }

    /// The claim on a whole requirement.
    #[must_use]
    pub fn of(requirement: &Requirement) -> Self {
        Self { text: requirement.id.clone(), row: requirement.id.len() }
    }

    /// A claim that need not be in the registry: results of another version may name others.
    #[must_use]
    pub fn unchecked(text: String) -> Self {
        let row = text.find('/').unwrap_or(text.len());
        Self { text, row }
    }

    /// `RPC-15` or `RPC-15/code`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The requirement's id.
    #[must_use]
    pub fn row(&self) -> &str {
        &self.text[..self.row]
    }

    /// The clause's name.
    #[must_use]
    pub fn clause(&self) -> Option<&str> {
        self.text.get(self.row + 1..)
    }

    /// What breaking it means.
    #[must_use]
    pub fn grade(&self) -> Grade {
        registry().get(self.row()).map_or(Grade::Fail, |row| row.grade(self.clause()))
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(row) => write!(f, "there is no requirement {row:?}"),
            Self::Clause { claim, known } if known.is_empty() => {
                write!(f, "there is no clause {claim:?}: this requirement has no clauses")
            }
            Self::Clause { claim, known } => {
                write!(f, "there is no clause {claim:?}; its clauses are {}", known.join(", "))
            }
        }
    }
}

impl std::error::Error for ClaimError {}

impl Serialize for ClaimId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Reading does not ask the registry: results of another version may name requirements that this one does not have.
impl<'de> Deserialize<'de> for ClaimId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Err(de::Error::custom("a requirement's id is empty"));
        }
        Ok(Self::unchecked(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_a_row_or_one_of_its_clauses() {
        let whole = ClaimId::parse("RPC-15").unwrap();
        assert_eq!((whole.row(), whole.clause(), whole.as_str()), ("RPC-15", None, "RPC-15"));
        assert_eq!(ClaimId::parse("RPC-99").unwrap_err().to_string(), "there is no requirement \"RPC-99\"");
        assert!(ClaimId::parse("RPC-15/no-such-clause").unwrap_err().to_string().contains("no clause"));
        let read: ClaimId = serde_json::from_str("\"X-1/part\"").unwrap();
        assert_eq!((read.row(), read.clause()), ("X-1", Some("part")));
    }
}
