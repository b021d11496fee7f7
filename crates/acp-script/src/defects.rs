//! The catalogue of defects: known ways to be wrong, each with the requirements that it breaks.
//!
//! Every file under `defects/` is one defect. It proves whatever claims to find such a defect: the suite, the judge,
//! a client. [`catalogue`] has them all; [`Defect::parse`] reads one more.

use std::sync::LazyLock;

use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::faults::Fault;
use crate::switch::Switch;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../defects");

/// One thing wrong.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Defect {
    /// Its name, that of its file.
    pub id: String,
    /// What is wrong, in a few words.
    pub title: String,
    /// The requirements that it breaks.
    pub requirements: Vec<String>,
    /// The first wrong frame or effect.
    pub effect: String,
    /// A prompt that brings it out, where a particular one is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<String>,
    /// Client capabilities that bring it out, where the usual ones do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_capabilities: Option<Value>,
    /// The legal variants under which it must be found too; without any, those that touch what it breaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub under: Vec<String>,
    /// The faults that make it.
    #[serde(default, skip_serializing)]
    pub faults: Vec<Fault>,
    /// The wrong behaviour that makes it.
    #[serde(default, skip_serializing)]
    pub switch: Option<Switch>,
}

/// A defect file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("defect {name}: {problem}")]
pub struct DefectError {
    name: String,
    problem: String,
}

impl Defect {
    /// Reads a defect file; `name` is its file name without the ending.
    pub fn parse(name: &str, text: &str) -> Result<Self, DefectError> {
        let fail = |problem: String| DefectError { name: name.to_owned(), problem };
        let defect: Self = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
        if defect.id != name {
            return Err(fail(format!("its id is {:?}; an id is the name of its file", defect.id)));
        }
        if defect.requirements.is_empty() {
            return Err(fail("it names no requirement that it breaks".to_owned()));
        }
        if defect.faults.is_empty() && defect.switch.is_none() {
            return Err(fail("it has neither faults nor a switch, so nothing would be wrong".to_owned()));
        }
        Ok(defect)
    }
}

/// Every defect in the box, by id. Files that cannot be read are left out here and fail the tests.
pub fn catalogue() -> &'static [Defect] {
    static CATALOGUE: LazyLock<Vec<Defect>> = LazyLock::new(|| {
        let mut defects: Vec<Defect> =
            files().filter_map(|(name, text)| Defect::parse(name, text).ok()).collect();
        defects.sort_by(|a, b| a.id.cmp(&b.id));
        defects
    });
    &CATALOGUE
}

/// The defect of that name.
pub fn find(id: &str) -> Option<&'static Defect> {
    catalogue().iter().find(|defect| defect.id == id)
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

    #[test]
    fn every_file_is_a_defect() {
        let bad: Vec<String> =
            files().filter_map(|(name, text)| Some(Defect::parse(name, text).err()?.to_string())).collect();
        assert!(bad.is_empty(), "{}", bad.join("\n"));
        assert!(files().count() > 0);
    }
}
