//! The catalogue of legal variants: known ways to differ from the mock without being wrong.
//!
//! Every file under `variants/` is one variant, the counterpart of a defect: whatever judges agents must not fail it.
//! [`catalogue`] has them all; [`Variant::parse`] reads one more; [`Habits::with`] joins several.

use std::sync::LazyLock;

use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::agent::Habits;
use crate::faults::Fault;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../variants");

/// One legal difference.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Variant {
    /// Its name, that of its file.
    pub id: String,
    /// How it differs, in a few words.
    pub title: String,
    /// By what it is allowed: ids of requirements, or words of the protocol.
    pub allowed_by: Vec<String>,
    /// The requirements, or clauses of requirements, about which a warning is right.
    pub warns: Vec<String>,
    /// The login method that a client needs for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// The habits that make it ([`Habits`]).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub agent: Map<String, Value>,
    /// What happens to its frames.
    #[serde(default, skip_serializing)]
    pub faults: Vec<Fault>,
}

/// A variant file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("variant {name}: {problem}")]
pub struct VariantError {
    name: String,
    problem: String,
}

impl Variant {
    /// Reads a variant file; `name` is its file name without the ending.
    pub fn parse(name: &str, text: &str) -> Result<Self, VariantError> {
        let fail = |problem: String| VariantError { name: name.to_owned(), problem };
        let variant: Self = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
        if variant.id != name {
            return Err(fail(format!("its id is {:?}; an id is the name of its file", variant.id)));
        }
        if variant.allowed_by.is_empty() {
            return Err(fail("it does not say by what it is allowed".to_owned()));
        }
        if variant.faults.is_empty() && variant.agent.is_empty() {
            return Err(fail("it has neither habits nor faults, so it would not differ".to_owned()));
        }
        Habits::with([&variant]).map_err(|error| fail(error.to_string()))?;
        Ok(variant)
    }

    /// Whether an agent can be both: they do not want the same habit in different ways.
    pub fn goes_with(&self, other: &Self) -> bool {
        Habits::with([self, other]).is_ok()
    }
}

/// Why variants cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum HabitsError {
    /// They want the same habit in different ways.
    #[error("{habit:?} cannot be both {one} and {other}")]
    Contradiction {
        /// The habit.
        habit: String,
        /// What one wants.
        one: String,
        /// What another wants.
        other: String,
    },
    /// There is no such habit, or it has another value.
    #[error(transparent)]
    Unknown(#[from] serde_json::Error),
}

impl Habits {
    /// The habits of all these variants together; an error when they contradict each other.
    pub fn with<'a>(variants: impl IntoIterator<Item = &'a Variant>) -> Result<Self, HabitsError> {
        let mut joined: Map<String, Value> = Map::new();
        for variant in variants {
            for (key, value) in &variant.agent {
                match (joined.get_mut(key), value) {
                    (None, value) => drop(joined.insert(key.clone(), value.clone())),
                    (Some(Value::Array(known)), Value::Array(more)) if adds_up(key) => {
                        known.extend(more.iter().cloned());
                    }
                    (Some(known), value) if known == value => {}
                    (Some(known), value) => {
                        let (habit, one, other) = (key.clone(), known.to_string(), value.to_string());
                        return Err(HabitsError::Contradiction { habit, one, other });
                    }
                }
            }
        }
        Ok(serde_json::from_value(Value::Object(joined))?)
    }
}

/// Whether a list of what one variant lacks or speaks is added to another's. Other lists are whole.
fn adds_up(habit: &str) -> bool {
    matches!(habit, "lacks" | "versions")
}

/// Every variant in the box, by id. Files that cannot be read are left out here and fail the tests.
pub fn catalogue() -> &'static [Variant] {
    static CATALOGUE: LazyLock<Vec<Variant>> = LazyLock::new(|| {
        let mut variants: Vec<Variant> =
            files().filter_map(|(name, text)| Variant::parse(name, text).ok()).collect();
        variants.sort_by(|a, b| a.id.cmp(&b.id));
        variants
    });
    &CATALOGUE
}

/// The variant of that name.
pub fn find(id: &str) -> Option<&'static Variant> {
    catalogue().iter().find(|variant| variant.id == id)
}

/// Names and texts of the files in the box.
fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.files().filter_map(|file| {
        let name = file.path().file_name()?.to_str()?.strip_suffix(".json")?;
        Some((name, file.contents_utf8()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_file_is_a_variant() {
        let bad: Vec<String> =
            files().filter_map(|(name, text)| Some(Variant::parse(name, text).err()?.to_string())).collect();
        assert!(bad.is_empty(), "{}", bad.join("\n"));
        assert!(catalogue().len() >= 80, "only {} variants", catalogue().len());
    }

    /// The names that `capture` and `let` give anywhere in a file.
    fn names(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if let ("capture" | "let", Value::Object(given)) = (key.as_str(), value) {
                        found.extend(given.keys().cloned());
                    }
                    names(value, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| names(item, found)),
            _ => {}
        }
    }

    #[test]
    fn variables_begin_with_the_name_of_their_variant() {
        for (id, text) in files() {
            let mut found = Vec::new();
            names(&serde_json::from_str(text).unwrap(), &mut found);
            let own = id.replace('-', "").to_lowercase();
            let strange = found.iter().find(|name| !name.to_lowercase().starts_with(&own));
            assert_eq!(strange, None, "{id}");
        }
    }

    fn variant(agent: &Value) -> Variant {
        let text = json!({ "id": "v", "title": "t", "allowedBy": ["TRN-08"], "warns": [], "agent": agent });
        Variant::parse("v", &text.to_string()).unwrap()
    }

    #[test]
    fn variants_join_unless_they_contradict_each_other() {
        let (own, never) = (variant(&json!({ "reads": "own" })), variant(&json!({ "reads": "never" })));
        assert!(!own.goes_with(&never) && own.goes_with(&own));
        let (load, list) = (variant(&json!({ "lacks": ["load"] })), variant(&json!({ "lacks": ["list"] })));
        assert_eq!(Habits::with([&load, &list, &own]).unwrap().lacks.len(), 2);
    }

    #[test]
    fn an_unknown_habit_is_an_error() {
        let text =
            r#"{"id": "v", "title": "t", "allowedBy": ["x"], "warns": [], "agent": {"colour": "red"}}"#;
        assert!(Variant::parse("v", text).is_err());
    }
}
