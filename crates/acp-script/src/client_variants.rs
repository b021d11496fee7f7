//! The catalogue of legal clients: known ways to differ from the conforming client without being wrong.
//!
//! Every file under `client-variants/` is one, the counterpart of a defect: whatever judges clients must not fail it.
//! [`catalogue`] has them all; [`ClientVariant::parse`] reads one more; [`ClientHabits::with`] joins several.

use std::sync::LazyLock;

use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client_defects::check_faults;
pub use crate::client_habits::ClientHabits;
use crate::faults::Fault;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../client-variants");

/// One legal difference between clients.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ClientVariant {
    /// Its name, that of its file.
    pub id: String,
    /// How it differs, in a few words.
    pub title: String,
    /// By what it is allowed: ids of requirements, or words of the protocol.
    pub allowed_by: Vec<String>,
    /// The requirements, or clauses of requirements, about which a warning is right.
    pub warns: Vec<String>,
    /// The habits that make it ([`ClientHabits`]).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub client: Map<String, Value>,
    /// What happens to its frames.
    #[serde(default, skip_serializing)]
    pub faults: Vec<Fault>,
}

/// A file of `client-variants/` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("client variant {name}: {problem}")]
pub struct ClientVariantError {
    name: String,
    problem: String,
}

impl ClientVariant {
    /// Reads a variant file; `name` is its file name without the ending.
    pub fn parse(name: &str, text: &str) -> Result<Self, ClientVariantError> {
        let fail = |problem: String| ClientVariantError { name: name.to_owned(), problem };
        let variant: Self = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
        if variant.id != name {
            return Err(fail(format!("its id is {:?}; an id is the name of its file", variant.id)));
        }
        if variant.allowed_by.is_empty() {
            return Err(fail("it does not say by what it is allowed".to_owned()));
        }
        if variant.faults.is_empty() && variant.client.is_empty() {
            return Err(fail("it has neither habits nor faults, so it would not differ".to_owned()));
        }
        check_faults(&variant.faults).map_err(fail)?;
        ClientHabits::with([&variant]).map_err(fail)?;
        Ok(variant)
    }

    /// Whether a client can be both: they do not want the same habit in different ways.
    pub fn goes_with(&self, other: &Self) -> bool {
        ClientHabits::with([self, other]).is_ok()
    }
}

/// Every variant in the box, by id. Files that cannot be read are left out here and fail the tests.
pub fn catalogue() -> &'static [ClientVariant] {
    static CATALOGUE: LazyLock<Vec<ClientVariant>> = LazyLock::new(|| {
        let mut variants: Vec<ClientVariant> =
            files().filter_map(|(name, text)| ClientVariant::parse(name, text).ok()).collect();
        variants.sort_by(|a, b| a.id.cmp(&b.id));
        variants
    });
    &CATALOGUE
}

/// The variant of that name.
pub fn find(id: &str) -> Option<&'static ClientVariant> {
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
        let bad: Vec<String> = files()
            .filter_map(|(name, text)| Some(ClientVariant::parse(name, text).err()?.to_string()))
            .collect();
        assert!(bad.is_empty(), "{}", bad.join("\n"));
        assert!(catalogue().len() >= 32, "only {} variants", catalogue().len());
    }

    fn variant(client: &Value) -> Result<ClientVariant, ClientVariantError> {
        let text =
            json!({ "id": "v", "title": "t", "allowedBy": ["C-TRN-01"], "warns": [], "client": client });
        ClientVariant::parse("v", &text.to_string())
    }

    #[test]
    fn variants_join_unless_they_contradict_each_other() {
        let allow = variant(&json!({ "permission": "allow" })).unwrap();
        let reject = variant(&json!({ "permission": "reject" })).unwrap();
        assert!(!allow.goes_with(&reject) && allow.goes_with(&allow));
        let (list, mode) = (
            variant(&json!({ "lacks": ["list"] })).unwrap(),
            variant(&json!({ "lacks": ["mode"] })).unwrap(),
        );
        assert_eq!(ClientHabits::with([&list, &mode, &allow]).unwrap().lacks, ["list", "mode"]);
    }

    #[test]
    fn a_habit_that_no_client_has_is_an_error() {
        for client in [json!({ "colour": "red" }), json!({ "lacks": ["dance"] }), json!({ "opens": 0 })] {
            assert!(variant(&client).is_err(), "{client}");
        }
    }
}
